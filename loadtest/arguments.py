"""The command lines of the measurements. Errors are reported before anything is started."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

from loadtest.processes import OUT

_BEGAN: Final = time.monotonic()

#: The largest number: a larger measurement would not end on any machine.
_MOST: Final = 10_000_000


def at_least_one(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {_MOST}")
    return int(text)


def parser(module: str, description: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=f"python -m loadtest.{module}", description=description, allow_abbrev=False
    )
    made.add_argument("--out", type=Path, default=OUT, metavar="DIR", help="for files")
    return made


def add_sizes(parser: argparse.ArgumentParser, default: Sequence[int], help: str) -> None:
    listed = ",".join(map(str, default))
    parser.add_argument("--sizes", type=_sizes, default=listed, metavar="N,N", help=help)


def _sizes(text: str) -> list[int]:
    """Numbers separated by commas."""
    return [at_least_one(each.replace("_", "").strip()) for each in text.split(",")]


def say(text: str) -> None:
    """Print the progress of the measurement to stderr."""
    print(f"[{time.monotonic() - _BEGAN:4.0f} s] {text}", file=sys.stderr, flush=True)


def end(main: Callable[[], int]) -> NoReturn:
    """Exit with the code that main returns. When interrupted, print one line."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
