"""Prints a command's answer: JSON, or text that fits the terminal."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from extender.printing.tables import DEFAULT_WIDTH, Screen
from extender.streams import say, write_out

#: The exit codes of commands that judge something; 2 is flags.EXIT_USAGE.
EXIT_FITS: Final = 0
EXIT_DOES_NOT_FIT: Final = 1


def screen() -> Screen:
    """The terminal that stdout is, if it is one; follows https://no-color.org."""
    width = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns
    colours = (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") not in (None, "", "dumb")
    )
    return Screen(width, colours)


def print_answer(
    output: str, document: Mapping[str, Any], text: Callable[[Mapping[str, Any], Screen], str]
) -> None:
    """A document as JSON or as text. Raises OSError where stdout can't be written."""
    write_out(json_text(document) if output == "json" else text(document, screen()))


def json_text(document: Mapping[str, Any]) -> str:
    """A document as people read it, with a line break at its end."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def warn(command: str, text: str) -> None:
    say(f"{command}: warning: {text}")
