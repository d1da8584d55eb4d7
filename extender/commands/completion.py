"""completion: scripts that make a shell complete these commands, and the answers to them.

The scripts contain no command and no flag: they call `PROGRAM __complete WORD…`, the last word
being the one to complete. The answer has the format of Go's cobra (shell_completions.md, v1.9),
which kubectl expects of a plugin too: a line for each candidate, with its description after a tab,
and a last line with a colon and the sum of the directives below.
"""

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from extender.commands.arguments import PLUGIN, Command, Entry
from extender.commands.completion_names import contexts, pods, runtime_classes
from extender.environment import with_environment
from extender.flags import CommandParser, is_boolean, is_repeatable, takes_value

#: The directives: complete file names if there is no candidate, or complete no files.
FILES: Final = 0
NO_FILES: Final = 4

_SHELLS: Final = ("bash", "zsh", "fish")

#: metavars whose values are files.
_OF_FILES: Final = frozenset({"FILE", "PATH"})


@dataclass(frozen=True, slots=True)
class Answer:
    """(candidate, description) pairs, and the directives."""

    candidates: Sequence[tuple[str, str]]
    directive: int = NO_FILES


def complete(program: str, known: Mapping[str, Entry], words: Sequence[str]) -> None:
    """Print the candidates for the last word."""
    answer = answer_to(program, known, words)
    # A name with a line break would be read as two, and others could move the cursor.
    candidates = [each for each in answer.candidates if "".join(each).isprintable()]
    lines = [f"{word}\t{about}" if about else word for word, about in candidates]
    sys.stdout.write("".join(f"{line}\n" for line in [*lines, f":{answer.directive}"]))


def answer_to(program: str, known: Mapping[str, Entry], words: Sequence[str]) -> Answer:
    """The candidates for the last word, which may be empty."""
    *before, last = words or [""]
    if not before:
        commands = [(name, each.about) for name, each in known.items()]
        flags = [("--help", "print the commands"), ("--version", "print the version")]
        return _beginning(last, [*commands, *(flags if last.startswith("-") else ())])
    if before[0] not in known:
        return Answer(())
    return _Line(program, known[before[0]].load(), before[1:]).answer(last)


def _beginning(last: str, candidates: Iterable[tuple[str, str]]) -> Answer:
    return Answer([each for each in candidates if each[0].startswith(last)])


class _Line:
    """The words of one command before the one that is completed."""

    def __init__(self, program: str, command: Command, words: Sequence[str]) -> None:
        self._program = program
        self._parser = command.parser(program)
        self._words = words
        self._given: set[str] = set()
        #: The flag whose value is the next word, if any.
        self._waiting: argparse.Action | None = None
        self._positionals = 0
        self._only_positionals = False
        for word in words:
            self._read(word)

    def _read(self, word: str) -> None:
        if self._waiting is not None:
            self._waiting = None
        elif self._only_positionals or not word.startswith("-") or word == "-":
            self._positionals += 1
        elif word == "--":
            self._only_positionals = True
        else:
            name, equals, _ = word.partition("=")
            action = self._parser.options().get(name)
            if action is not None:
                self._given.update(action.option_strings)
                self._waiting = action if takes_value(action) and not equals else None

    def answer(self, last: str) -> Answer:
        if self._waiting is not None:
            return self._values(self._waiting, last)
        if last.startswith("-") and last != "-" and "=" in last and not self._only_positionals:
            return self._values_behind_equals(last)
        if last.startswith("-") and not self._only_positionals:
            return self._flags(last)
        positionals = self._parser.positionals()
        if self._positionals >= len(positionals):
            return self._flags(last) if not last and not positionals else Answer(())
        return self._values(positionals[self._positionals], last)

    def _flags(self, last: str) -> Answer:
        found = [
            (name, action.help or "")
            for name, action in self._parser.options().items()
            if name.startswith("--") and (name not in self._given or is_repeatable(action))
        ]
        return _beginning(last, found)

    def _values_behind_equals(self, last: str) -> Answer:
        name, _, value = last.partition("=")
        action = self._parser.options().get(name)
        if action is None:
            return Answer(())
        found = self._values(action, value)
        return Answer(
            [(f"{name}={word}", about) for word, about in found.candidates], found.directive
        )

    def _values(self, action: argparse.Action, last: str) -> Answer:
        if is_boolean(action):
            return _beginning(last, [("true", ""), ("false", "")])
        if action.choices is not None:
            return _beginning(last, [(str(each), "") for each in action.choices])
        if action.metavar in _OF_FILES:
            return Answer((), FILES)
        return _beginning(last, self._of_the_cluster(action, last))

    def _of_the_cluster(self, action: argparse.Action, last: str) -> Iterable[tuple[str, str]]:
        flags = self._flags_so_far()
        if flags is None:
            return ()
        if action.dest == "context":
            return contexts(flags)
        if action.metavar in ("CLASS", "OLD", "NEW"):
            return runtime_classes(flags)
        if action.metavar == "POD":
            return pods(flags, last, plugin=self._program == PLUGIN)
        return ()

    def _flags_so_far(self) -> argparse.Namespace | None:
        """The flags typed so far, as far as they can be read without the word to complete."""
        words = list(self._words if self._waiting is None else self._words[:-1])
        parser = self._parser
        for positional in parser.positionals():
            positional.nargs = "*"
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                return parser.parse_args(with_environment(parser, words, os.environ))
        except SystemExit:
            return None


def _add_flags(parser: CommandParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, metavar="|".join(_SHELLS), help="the shell")


_SCRIPTS: Final = {"bash": "completion.bash", "zsh": "completion.zsh", "fish": "completion.fish"}


def _completion(program: str, flags: argparse.Namespace) -> int:
    sys.stdout.write(script(program, flags.shell))
    return 0


def script(program: str, shell: str) -> str:
    """The script for a shell, for one of the two programs."""
    name = program.replace(" ", "-")
    text = files("extender.commands").joinpath(_SCRIPTS[shell]).read_text("utf-8")
    return text.replace("PROGRAM", name).replace("FUNCTION", f"_{name.replace('-', '_')}")


#: prog is the program as it was called, with the command.
_ABOUT: Final = (
    "Prints what completes commands, flags, RuntimeClasses, pods and contexts. In bash:"
    " source <(%(prog)s bash); in zsh, after compinit: source <(%(prog)s zsh); in fish:"
    " %(prog)s fish | source. kubectl 1.26 and later completes `kubectl runtimeclass` by itself,"
    " where kubectl_complete-runtimeclass is in the PATH; the scripts of the plugin are for"
    " kubectl-runtimeclass."
)

COMPLETION: Final = Command("completion", _ABOUT, _add_flags, _completion, reads_cluster=False)
