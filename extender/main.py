"""The command line: runtimeclass-extender COMMAND [flags], and the same as a kubectl plugin."""

import logging
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Final

import click

from extender.cli import commands
from extender.cli.commands import COMMANDS
from extender.cli.flags import PLUGIN, PROGRAM, Flags, check_spelling
from extender.cli.streams import say, standard_streams, written_out
from extender.model.errors import UsageError
from extender.model.reasons import printable, shown
from extender.server import logs

EXIT_USAGE: Final = 2

_FOLDER: Final = os.path.dirname(__file__)

#: The hidden command that completion scripts call with the words typed so far.
_COMPLETE: Final = "__complete"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit code."""
    return _run(PROGRAM, sys.argv[1:] if argv is None else argv)


def kubectl_main() -> int:
    """The same for `kubectl runtimeclass`, which kubectl finds by the script's name."""
    return _run(PLUGIN, sys.argv[1:])


def kubectl_complete_main() -> int:
    """Called by kubectl's own completion (kubectl 1.26 and later)."""
    return _run(PLUGIN, [_COMPLETE, *sys.argv[1:]])


def _run(program: str, words: Sequence[str]) -> int:
    with standard_streams(program):
        place = f"{program} {words[0]}" if words and words[0] in COMMANDS else program
        try:
            return _run_words(program, words)
        except click.exceptions.Exit as ended:
            return ended.exit_code if words else EXIT_USAGE
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx else place
            told = " ".join(error.format_message().split()).removesuffix(".")
            say(f"{where}: {printable(told)}; see {where} --help")
        except UsageError as error:
            say(f"{place}: {error}")
        except OSError as error:
            say(f"{place}: {error.strerror or error}")
        except KeyboardInterrupt:
            return 128 + signal.SIGINT  # as shells report it
        except Exception as error:
            logging.getLogger(__name__).debug("internal error", exc_info=True)
            found = traceback.extract_tb(error.__traceback__)
            at = [each for each in found if each.filename.startswith(_FOLDER)][-1]
            told = f"{type(error).__name__}: {shown(str(error))} ({at.filename}:{at.lineno})"
            say(f"{program}: internal error: {told}; please report it")
        return EXIT_USAGE


def _run_words(program: str, words: Sequence[str]) -> int:
    if words and words[0] == _COMPLETE:
        from extender.cli.completion import complete

        complete(program, words[1:])
        return 0
    root = commands.program(program)
    with written_out():
        context = root.make_context(program, [*words] or ["--help"], obj=_before)
    with context:
        code = root.invoke(context)
    assert isinstance(code, int)
    return code


def _before(flags: Flags) -> None:
    """Called before a command runs."""
    if hasattr(flags, "verbose"):
        check_spelling(os.environ, _variables)
        if flags.verbose:
            logs.configure("text", flags.verbose)


def _variables() -> set[str]:
    return {str(each.envvar) for name in COMMANDS for each in COMMANDS[name].load().flags()}
