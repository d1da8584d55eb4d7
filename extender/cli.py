"""The command line: runtimeclass-extender COMMAND [flags], and the same as a kubectl plugin."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from extender import __version__
from extender.commands.arguments import PLUGIN, Entry
from extender.environment import PURE_PYTHON, check_spelling, unread_variables, variables_of
from extender.flags import EXIT_USAGE, PROGRAM, UsageError, words_meant
from extender.serving import logs
from extender.streams import say, standard_streams, write_out

#: 128 + SIGINT, as shells report it.
EXIT_INTERRUPTED: Final = 130

PLUGIN_COMMANDS: Final[Mapping[str, Entry]] = {
    "explain": Entry("why a pod fits or does not, node by node", "explaining.EXPLAIN"),
    "nodes": Entry("which nodes match a RuntimeClass", "listing_nodes.NODES"),
    "check": Entry("lints RuntimeClasses, nodes and a scheduler configuration", "checking.CHECK"),
    "pods": Entry(
        "which pods run with which class where, and which could not again", "listing_pods.PODS"
    ),
    "classes": Entry("what each RuntimeClass is used for", "listing_classes.CLASSES"),
    "can-delete": Entry("whether anything uses a RuntimeClass", "deleting.CAN_DELETE"),
    "rollout": Entry("how far a RuntimeClass's replacement has come", "rolling_out.ROLLOUT"),
    "render": Entry(
        "prints objects with their pods as admission would make them", "rendering.RENDER"
    ),
    "fit": Entry("which RuntimeClasses could run a pod, best first", "fitting.FIT"),
    "completion": Entry(
        "prints what completes these commands in bash, zsh or fish", "completion.COMPLETION"
    ),
}

COMMANDS: Final[Mapping[str, Entry]] = {
    "serve": Entry("the scheduler extender", "listening.SERVE"),
    "webhook": Entry("the RuntimeClass admission webhook", "listening.WEBHOOK"),
    **PLUGIN_COMMANDS,
}


def _usage(program: str, known: Mapping[str, Entry]) -> str:
    width = max(map(len, known))
    commands = "\n".join(f"  {name:<{width}}  {each.about}" for name, each in known.items())
    return (
        f"usage: {program} COMMAND [flags]\n\ncommands:\n{commands}\n\n"
        f"{program} COMMAND --help lists the flags of a command; --version prints the version.\n"
        "Every flag is also read from the environment: RUNTIMECLASS_EXTENDER_<COMMAND>_<FLAG>.\n"
        f"{PURE_PYTHON}=1 does without the compiled part."
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is the exit code."""
    with standard_streams(PROGRAM):
        return _run(PROGRAM, COMMANDS, sys.argv[1:] if argv is None else argv)


def kubectl_main(argv: Sequence[str] | None = None) -> int:
    """The same for `kubectl runtimeclass`, which kubectl finds by the script's name."""
    with standard_streams(PLUGIN):
        return _run(PLUGIN, PLUGIN_COMMANDS, sys.argv[1:] if argv is None else argv)


def kubectl_complete_main(argv: Sequence[str] | None = None) -> int:
    """What kubectl's own completion asks (kubectl 1.26 and later)."""
    words = sys.argv[1:] if argv is None else argv
    with standard_streams(PLUGIN):
        return _run(PLUGIN, PLUGIN_COMMANDS, [_COMPLETE, *words])


#: The shells' scripts call it with the words typed so far.
_COMPLETE: Final = "__complete"


def _complete(program: str, known: Mapping[str, Entry], words: Sequence[str]) -> int:
    from extender.commands.completion import complete

    complete(program, known, words)
    return 0


def _run(program: str, known: Mapping[str, Entry], argv: Sequence[str]) -> int:
    try:
        return _run_words(program, known, list(argv))
    except OSError as error:
        say(f"{program}: {error.strerror or error}")
        return EXIT_USAGE


def _run_words(program: str, known: Mapping[str, Entry], words: Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        write_out(_usage(program, known) + "\n")
        return 0 if words else EXIT_USAGE
    if words[0] == "--version":
        write_out(f"{PROGRAM} {__version__}\n")
        return 0
    if words[0] == _COMPLETE:
        return _complete(program, known, words[1:])
    if words[0] not in known:
        near = words_meant(words[:1], known) or ";"
        say(f"{program}: unknown command {words[0]!r}{near} see {program} --help")
        return EXIT_USAGE
    try:
        with _ended_by_signals():
            command = known[words[0]].load()
        flags = command.parse(program, words[1:])
        if command.reads_cluster:
            _check_environment()
        if flags.verbose:
            logs.configure("text", flags.verbose)
        return command.run(program, flags)
    except UsageError as error:
        say(f"{program} {words[0]}: {error}")
        return EXIT_USAGE
    except OSError as error:
        say(f"{program} {words[0]}: {error.strerror or error}")
        return EXIT_USAGE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let a signal end the process at once, and without a traceback, while modules are imported.

    An import turns KeyboardInterrupt into other errors here and there, so it can't be waited for.
    SIGTERM needs a handler where this is the first process of a container: the kernel drops it
    otherwise, and the container would go on until it is killed. There the handler remains, until
    gunicorn has one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if os.getpid() == 1 and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, before)


def _end(number: int, _frame: object) -> None:
    os._exit(128 + number)


def _check_environment() -> None:
    """Raises UsageError for a variable of ours that no flag of any command reads."""
    names = unread_variables(os.environ)
    if names:
        parsers = (each.load().parser(PROGRAM) for each in COMMANDS.values())
        check_spelling(names, {name for parser in parsers for name in variables_of(parser)})
