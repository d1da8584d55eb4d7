"""Command-line flags as Kubernetes components have them; extender.environment reads them too.

A wrong flag ends the program with exit code 2 and one line.
"""

import argparse
import ipaddress
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Final, NoReturn

from extender.streams import say

PROGRAM: Final = "runtimeclass-extender"
EXIT_USAGE: Final = 2

_TRUE: Final = frozenset({"1", "t", "true"})
_FALSE: Final = frozenset({"0", "f", "false"})

#: The longest word that is compared with known ones: the time grows with the square of its length.
_MAX_COMPARED: Final = 100


class UsageError(Exception):
    """What the person at the command line can correct, or must wait for; one line."""


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


def words_meant(words: Iterable[str], known: Iterable[str]) -> str:
    """A suggestion for the first of the words that resembles a known one.

    It ends a sentence; empty where none of the words does.
    """
    spellings = sorted(known)
    for word in words:
        near = get_close_matches(word.partition("=")[0][:_MAX_COMPARED], spellings, 1)
        if near:
            return f"; did you mean {near[0]}?"
    return ""


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


class _HelpFormatter(argparse.HelpFormatter):
    """Writes a flag as it is typed, and its default where there is one to mention."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        default = action.default
        if is_boolean(action):
            default = "true" if default else None
        if default in (None, 0, [], argparse.SUPPRESS) or not action.help:
            return action.help
        return f"{action.help} (default: {default})"

    def _split_lines(self, text: str, width: int) -> list[str]:
        # Not within a flag that the text names.
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + each for each in self._split_lines(text, width - len(indent)))

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return super()._format_action_invocation(action)
        return ", ".join(action.option_strings) + value_text(action)


def value_text(action: argparse.Action) -> str:
    """The placeholder of a flag's value in the help."""
    if is_boolean(action):
        return "[=true|false]"
    if not takes_value(action):
        return ""
    if action.choices is not None:
        return f" {'|'.join(map(str, action.choices))}"
    return f" {action.metavar or action.dest.upper()}"


class CommandParser(argparse.ArgumentParser):
    """argparse with one-line errors; command is the word that follows the program's name."""

    def __init__(self, prog: str, description: str, *, command: str = "") -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            add_help=False,
            formatter_class=_HelpFormatter,
        )
        self.command = command

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """The flags of a command line; what is wrong ends the program.

        As parse_args does, but with a suggestion for an unknown flag.
        """
        flags, unknown = self.parse_known_args(words)
        if unknown:
            flagged = (word for word in unknown if word.startswith("-"))
            near = words_meant(flagged, self.options())
            self.error(f"unrecognized arguments: {' '.join(unknown)}{near}")
        return flags

    def error(self, message: str) -> NoReturn:
        one_line = " ".join(message.split())
        see = "" if one_line.endswith("?") else ";"
        say(f"{self.prog}: {one_line}{see} see {self.prog} --help")
        sys.exit(EXIT_USAGE)

    def format_help(self) -> str:
        # argparse would list every flag twice.
        words = [self._positional_text(each) for each in self._get_positional_actions()]
        self.usage = " ".join([self.prog, "[flags]", *words])
        return super().format_help()

    @staticmethod
    def _positional_text(action: argparse.Action) -> str:
        name = str(action.metavar)
        return f"[{name}]" if action.nargs == "?" else name

    def boolean_flag(
        self, flag: str, *, default: bool | None = False, help: str, short: str = ""
    ) -> None:
        """--flag, --flag=true or --flag=false, never --flag true, as in Go; short is like -A."""
        self.add_argument(
            *filter(None, (short, flag)),
            action=_GoBoolean,
            nargs="?",
            const=True,
            default=default,
            type=boolean,
            help=help,
        )

    def choice_flag(self, flag: str, default: StrEnum, help: str) -> None:
        """One of the values of an enumeration."""
        values = [each.value for each in type(default)]
        self.add_argument(flag, choices=values, default=default.value, help=help)

    def flags(self) -> Mapping[str, argparse.Action]:
        """The flags that set something, by their long spelling; --help and --version do not."""
        return {
            option: action
            for action in self._actions
            for option in action.option_strings
            if option.startswith("--") and option not in ("--help", "--version")
        }

    def options(self) -> Mapping[str, argparse.Action]:
        """Every flag by each of its spellings."""
        return self._option_string_actions

    def positionals(self) -> Sequence[argparse.Action]:
        return self._get_positional_actions()


class _GoBoolean(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, values)


def is_boolean(action: argparse.Action) -> bool:
    return isinstance(action, _GoBoolean)


def is_repeatable(action: argparse.Action) -> bool:
    return isinstance(action, (argparse._AppendAction, argparse._CountAction))


def is_counted(action: argparse.Action) -> bool:
    return isinstance(action, argparse._CountAction)


def takes_value(action: argparse.Action) -> bool:
    """Whether the next word is the flag's value; a boolean takes one only after `=`."""
    return action.nargs != 0 and not is_boolean(action)
