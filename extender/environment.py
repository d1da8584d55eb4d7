"""Flags from the environment: RUNTIMECLASS_EXTENDER_<COMMAND>_<FLAG>.

A variable with this prefix that no flag reads is reported as misspelt. Kubernetes itself sets some,
in every pod of a namespace that has a Service whose name begins like that: these are left alone.
"""

import argparse
import difflib
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from extender.flags import (
    CommandParser,
    UsageError,
    is_boolean,
    is_counted,
    is_repeatable,
    whole_number,
)
from extender.printable import printable

PREFIX: Final = "RUNTIMECLASS_EXTENDER_"

#: Read by extender.names before any flag is.
PURE_PYTHON: Final = f"{PREFIX}PURE_PYTHON"

#: What a Service NAME becomes in the environment of pods, as in pkg/kubelet/envvars/envvars.go,
#: v1.36.2: NAME_SERVICE_HOST, NAME_SERVICE_PORT[_PORT'S NAME], NAME_PORT_8888_TCP[_PROTO …].
_SERVICE_LINK: Final = re.compile(
    r".*(?:^|_)(?:SERVICE_HOST|SERVICE_PORT(?:_.*)?"
    r"|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)

#: NAME_PORT, which could also be a person's, has a URL as its value.
_LINKED_PORT: Final = re.compile(r"(?:tcp|udp|sctp)://.*", re.DOTALL)


def flag_variable(command: str, flag: str) -> str:
    """The variable that a flag reads: RUNTIMECLASS_EXTENDER_SERVE_MAX_BODY_BYTES."""
    return f"{PREFIX}{command}_{flag.strip('-')}".upper().replace("-", "_")


def is_service_link(name: str, value: str) -> bool:
    """Whether the kubelet has set the variable, for a Service; the name begins with PREFIX."""
    rest = name.removeprefix(PREFIX)
    if _SERVICE_LINK.fullmatch(rest):
        return True
    return bool((rest == "PORT" or rest.endswith("_PORT")) and _LINKED_PORT.fullmatch(value))


def variables_of(parser: CommandParser) -> Iterator[str]:
    """All variables that a command reads."""
    return (flag_variable(parser.command, flag) for flag in parser.flags())


def unread_variables(environ: Mapping[str, str]) -> list[str]:
    """The names with our prefix, which some flag should read; service links are left out."""
    return sorted(
        name
        for name, value in environ.items()
        if name.startswith(PREFIX) and name != PURE_PYTHON and not is_service_link(name, value)
    )


def check_spelling(names: Sequence[str], known: Collection[str]) -> None:
    """Raises UsageError for the first of the names that is not a known one."""
    for name in names:
        if name not in known:
            near = _nearest(name, known)
            hint = f"did you mean {near}?" if near else "the flags are in --help"
            shown = printable(name)
            raise UsageError(f"environment: no flag reads {shown}; {hint}")


def _nearest(name: str, known: Collection[str]) -> str | None:
    """The variable that was probably meant; the common prefix is not compared."""
    rest = name.removeprefix(PREFIX)
    rests = sorted(each.removeprefix(PREFIX) for each in known)
    without_command = [each for each in rests if each.endswith(f"_{rest}")]
    found = without_command or difflib.get_close_matches(rest, rests, 1, cutoff=0.8)
    return f"{PREFIX}{found[0]}" if found else None


def _words(flag: str, action: argparse.Action, text: str) -> list[str]:
    """A variable's text as words of the command line. Raises argparse.ArgumentTypeError."""
    if is_counted(action):
        times: int = whole_number(0, 10)(text)
        return [flag] * times
    values = text.split(os.pathsep) if is_repeatable(action) else [text]
    for value in values:
        if callable(action.type):
            action.type(value)
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentTypeError(f"{value!r} is none of {', '.join(action.choices)}")
    return [f"{flag}={value}" for value in values]


def with_environment(
    parser: CommandParser, argv: Sequence[str], environ: Mapping[str, str]
) -> list[str]:
    """The arguments, preceded by those that the environment sets and the command line doesn't.

    A boolean becomes --flag=true, so that it never takes the next word as its value.
    """
    flags = parser.flags()
    given = {word.partition("=")[0] for word in argv}
    from_environment = []
    for flag, action in flags.items():
        name = flag_variable(parser.command, flag)
        text = environ.get(name)
        if text is None or given.intersection(action.option_strings):
            continue
        try:
            from_environment += _words(flag, action, text)
        except argparse.ArgumentTypeError as error:
            parser.error(f"{name}: {error}")
    booleans = {flag for flag, action in flags.items() if is_boolean(action)}
    return from_environment + [f"{word}=true" if word in booleans else word for word in argv]
