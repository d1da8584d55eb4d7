"""The measurements' command lines: what is wrong with one is said before anything is started."""

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

from extender.flags import CommandParser, whole_number
from loadtest.processes import OUT

#: More of anything would not end on any machine.
_MOST: Final = 10_000_000

_INTERRUPTED: Final = 130

at_least_one: Final = whole_number(1, _MOST)
count: Final = whole_number(0, _MOST)


def parser(module: str, description: str) -> CommandParser:
    made = CommandParser(f"python -m loadtest.{module}", description)
    made.add_argument("-h", "--help", action="help", help="show this help")
    return made


def number(least: float, most: float = _MOST) -> Callable[[str], float]:
    """A parser of numbers within bounds."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least:g} to {most:g}")
        return value

    return parse


def sizes(text: str) -> list[int]:
    """Numbers with commas in between."""
    return [at_least_one(each.replace("_", "").strip()) for each in text.split(",")]


def add_sizes(parser: CommandParser, flag: str, default: Sequence[int], help: str) -> None:
    listed = ",".join(map(str, default))
    parser.add_argument(flag, type=sizes, default=listed, metavar="N,N", help=help)


def one_of(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """A parser of some of the known words, with commas in between."""

    def parse(text: str) -> tuple[str, ...]:
        words = tuple(text.split(","))
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(known)}")
        return words

    return parse


def folder(text: str) -> Path:
    """A folder to write into, made if there is none."""
    path = Path(text)
    try:
        path.joinpath("logs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"{text}: can't be written to")
    return path


def add_out(parser: CommandParser, help: str = "for files") -> None:
    parser.add_argument("--out", type=folder, default=str(OUT), metavar="DIR", help=help)


def end(main: Callable[[], int]) -> NoReturn:
    """Exit as main does; when it is interrupted, with one line."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(_INTERRUPTED)
