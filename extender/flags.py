"""Command-line flags as Kubernetes components have them, each readable from the environment too.

A wrong flag ends the program with exit code 2 and one line.
"""

import argparse
import ipaddress
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

PROGRAM: Final = "runtimeclass-extender"
EXIT_USAGE: Final = 2

_TRUE: Final = frozenset({"1", "t", "true"})
_FALSE: Final = frozenset({"0", "f", "false"})


class UsageError(Exception):
    """Something the person at the command line can mend; one line."""


@dataclass(frozen=True, slots=True)
class Address:
    """HOST:PORT to listen on."""

    host: str
    port: int

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.host

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.is_ipv6 else f"{self.host}:{self.port}"


def boolean(text: str) -> bool:
    """What Go's strconv.ParseBool takes, in any case."""
    lowered = text.lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def address(text: str) -> Address:
    """HOST:PORT, an IPv6 host in brackets; an empty host means all addresses."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT with a port of 0 to 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        try:
            ipaddress.IPv6Address(host.partition("%")[0])
        except ValueError:
            raise argparse.ArgumentTypeError(f"{host!r} is not an IPv6 address") from None
    elif ":" in host:
        raise argparse.ArgumentTypeError(
            f"{text!r}: an IPv6 address stands in brackets, [::1]:8888"
        )
    return Address(host or "0.0.0.0", int(port))  # noqa: S104 (asked for by an empty host)


def whole_number(least: int, most: int) -> Any:
    """A parser of integers within bounds."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20) or not (
            least <= int(text) <= most
        ):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {most}")
        return int(text)

    return parse


def flag_environment(command: str, flag: str) -> str:
    """The variable that a flag reads: RUNTIMECLASS_EXTENDER_SERVE_MAX_BODY_BYTES."""
    return f"RUNTIMECLASS_EXTENDER_{command}_{flag.strip('-')}".upper().replace("-", "_")


class _HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Names the defaults that there are."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return super()._get_help_string(action) if action.default not in (None, []) else action.help


class CommandParser(argparse.ArgumentParser):
    """argparse with one-line errors and flags from the environment."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=_HelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        one_line = " ".join(message.split())
        print(f"{self.prog}: {one_line}; see {self.prog} --help", file=sys.stderr)
        sys.exit(EXIT_USAGE)

    def boolean_flag(self, flag: str, *, default: bool, help: str) -> None:
        """--flag, --flag=true or --flag=false, never --flag true, as in Go."""
        self.add_argument(
            flag, action=_GoBoolean, nargs="?", const=True, default=default, type=boolean, help=help
        )


class _GoBoolean(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, values)


def _flags(parser: argparse.ArgumentParser) -> Mapping[str, argparse.Action]:
    return {
        option: action
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--") and option not in ("--help", "--version")
    }


def _words(flag: str, action: argparse.Action, text: str) -> list[str]:
    """A variable's text as words of the command line. Raises argparse.ArgumentTypeError."""
    if isinstance(action, argparse._CountAction):
        times: int = whole_number(0, 10)(text)
        return [flag] * times
    repeated = isinstance(action, argparse._AppendAction)
    values = text.split(os.pathsep) if repeated else [text]
    for value in values:
        if callable(action.type):
            action.type(value)
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentTypeError(f"{value!r} is none of {', '.join(action.choices)}")
    return [f"{flag}={value}" for value in values]


def with_environment(
    parser: CommandParser, command: str, argv: Sequence[str], environ: Mapping[str, str]
) -> list[str]:
    """The arguments, preceded by those that the environment sets and the command line doesn't.

    --flag of a boolean becomes --flag=true, so that it never takes the word behind it.
    """
    flags = _flags(parser)
    given = {word.partition("=")[0] for word in argv}
    from_environment = []
    for flag, action in flags.items():
        name = flag_environment(command, flag)
        text = environ.get(name)
        if text is None or given.intersection(action.option_strings):
            continue
        try:
            from_environment += _words(flag, action, text)
        except argparse.ArgumentTypeError as error:
            parser.error(f"{name}: {error}")
    booleans = {flag for flag, action in flags.items() if isinstance(action, _GoBoolean)}
    return from_environment + [f"{word}=true" if word in booleans else word for word in argv]
