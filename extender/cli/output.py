"""Answers as people and programs read them: tables that fit the terminal, colour, progress."""

import json
import os
import re
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from io import StringIO
from typing import Any, Final, TypeVar

import orjson

from extender.cli.flags import Flags
from extender.cli.streams import write_out
from extender.kubernetes.yaml_documents import yaml_text
from extender.model.reasons import printable

T = TypeVar("T")

#: A terminal shows the progress of a command that has run for a second.
_BEGAN: Final = time.monotonic()
_PATIENCE_SECONDS: Final = 1.0

#: The space between two columns.
_GAP: Final = "  "

#: A column is not made narrower than this, nor than its longest word.
_LEAST: Final = 16

#: The width of paragraphs if the terminal's is not known.
_DEFAULT_WIDTH: Final = 100

#: The most rows that rich wraps, in half a second. A longer table is printed as records.
_MAX_WRAPPED: Final = 500


class Colour(Enum):
    """A colour by its meaning; the value is its SGR code."""

    GOOD = "32"
    BAD = "31"
    DOUBTFUL = "33"
    QUIET = "2"
    STRONG = "1"


@dataclass(frozen=True, slots=True)
class Screen:
    """Where text is printed. width: None in a pipe, where each row of a table is one line."""

    width: int | None = _DEFAULT_WIDTH
    colours: bool = False

    def paint(self, text: str, colour: Colour | None) -> str:
        return f"\x1b[{colour.value}m{text}\x1b[0m" if colour and self.colours and text else text


def screen(color: str) -> Screen:
    """The screen of stdout, a terminal or not. Follows https://no-color.org."""
    environ, is_terminal = os.environ, sys.stdout.isatty()
    wanted = not environ.get("NO_COLOR") and environ.get("TERM") not in (None, "", "dumb")
    colours = color == "always" or (color == "auto" and is_terminal and wanted)
    if not is_terminal and not environ.get("COLUMNS"):
        return Screen(None, colours)
    return Screen(shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns, colours)


def counted(found: Iterable[T], doing: str) -> Iterator[T]:
    """The same objects. If they take long, a terminal shows the activity and their number."""
    if not sys.stderr.isatty():
        yield from found
        return
    from rich.console import Console
    from rich.live import Live

    count = 0
    line = Live(
        get_renderable=lambda: f"{doing}: {count:,}, {time.monotonic() - _BEGAN:.0f} s",
        console=Console(stderr=True, highlight=False),
        transient=True,
    )
    timer = threading.Timer(_BEGAN + _PATIENCE_SECONDS - time.monotonic(), line.start)
    timer.daemon = True
    timer.start()
    try:
        for count, each in enumerate(found, 1):  # noqa: B007 (the line shows it)
            yield each
    finally:
        timer.cancel()
        timer.join()
        with suppress(OSError):  # The terminal may be gone; the command goes on.
            line.stop()


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    colour: Colour | None = None


Row = Sequence[str | Cell]


def table(screen: Screen, headers: Sequence[str], rows: Sequence[Row]) -> str:
    """The rows under their headers, without empty columns; "none" without rows.

    A table that is too wide even with wrapped cells becomes a record for each row.
    """
    if not rows:
        return "none\n"
    cells = [[each if isinstance(each, Cell) else Cell(each) for each in row] for row in rows]
    kept = [n for n in range(len(headers)) if any(row[n].text for row in cells)] or [0]
    cells = [[row[n] for n in kept] for row in cells]
    heads = [Cell(headers[n], Colour.STRONG) for n in kept]
    columns = [[row[n].text for row in (heads, *cells)] for n in range(len(kept))]
    widths = [max(map(len, column)) for column in columns]
    if screen.width is None or sum(widths) + len(_GAP) * (len(widths) - 1) <= screen.width:
        return "".join(_line(screen, row, widths) for row in (heads, *cells))
    fitting = _fitted(columns, widths, screen.width)
    if fitting and len(rows) <= _MAX_WRAPPED:
        return _wrapped(screen, [heads, *cells], fitting)
    return _records(screen, heads, cells)


def _line(screen: Screen, row: Sequence[Cell], widths: Sequence[int]) -> str:
    cells = zip(row, widths, strict=True)
    texts = (screen.paint(each.text, each.colour) + " " * (n - len(each.text)) for each, n in cells)
    return _GAP.join(texts).rstrip() + "\n"


def _fitted(columns: Sequence[Sequence[str]], widths: Sequence[int], most: int) -> list[int] | None:
    """The widths after narrowing the widest columns; None if words would have to be broken."""
    found = [*widths]
    least = [
        min(width, max(_LEAST, *(len(word) for text in column for word in text.split())))
        for column, width in zip(columns, widths, strict=True)
    ]
    for _ in range(sum(found) + len(_GAP) * (len(found) - 1) - most):
        wide = [n for n, width in enumerate(found) if width > least[n]]
        if not wide:
            return None
        found[max(wide, key=found.__getitem__)] -= 1
    return found


def _wrapped(screen: Screen, rows: Sequence[Sequence[Cell]], widths: Sequence[int]) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, len(_GAP), 0, 0))
    for width in widths:
        grid.add_column(width=width)
    for row in rows:
        grid.add_row(*(Text.from_ansi(screen.paint(each.text, each.colour)) for each in row))
    console = Console(
        file=StringIO(),
        width=screen.width,
        force_terminal=screen.colours,
        color_system="standard" if screen.colours else None,
        no_color=not screen.colours,
    )
    with console.capture() as captured:
        console.print(grid)
    # rich fills cells with spaces in the cell's colour: those at line ends are removed.
    return re.sub(r" +((\x1b\[0m)?) *$", r"\1", captured.get(), flags=re.MULTILINE)


def _records(screen: Screen, heads: Sequence[Cell], rows: Sequence[Sequence[Cell]]) -> str:
    """Records as in `kubectl describe`. A row whose first cell is empty continues the one above."""
    names = [f"{each.text.capitalize()}:" for each in heads]
    width = max(map(len, names)) + 2
    parts: list[str] = []
    for row in rows:
        parts.append("\n" if parts and row[0].text else "")
        for name, cell in zip(names, row, strict=True):
            text = paragraph(screen, cell.text, " " * width, name.ljust(width))
            parts.append(text.replace(cell.text, screen.paint(cell.text, cell.colour), 1))
            parts[-1] = parts[-1] if cell.text else ""
    return "".join(parts)


def paragraph(screen: Screen, text: str, indent: str = "", first: str | None = None) -> str:
    """Text in lines that fit; `first` precedes the first line, `indent` the others."""
    filled = textwrap.fill(
        text,
        max(screen.width or _DEFAULT_WIDTH, 20),
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return filled + "\n"


def print_answer(
    flags: Flags,
    document: Mapping[str, Any],
    text: Callable[[Mapping[str, Any], Screen], str],
    names: Iterable[str] = (),
    *,
    yes: bool = True,
) -> int:
    """Print a document in the format of -o. Returns the exit code, 0 for yes and 1 for no.

    names: of its objects, KIND/NAME as in kubectl. Raises OSError if stdout can't be written.
    """
    match flags.output:
        case "json":
            write_out(json_text(document))
        case "yaml":
            write_out(yaml_text(document))
        case "name":
            write_out("".join(f"{printable(each)}\n" for each in names))
        case _:
            write_out(text(document, screen(flags.color)))
    return 0 if yes else 1


def class_names(names: Iterable[str]) -> list[str]:
    """RuntimeClasses as kubectl prints them with -o name."""
    return [f"runtimeclass.node.k8s.io/{each}" for each in names]


def json_text(document: Mapping[str, Any]) -> str:
    """A document as indented JSON, with a line break at its end."""
    try:
        return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"
    except TypeError:  # an integer over 64 bits
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
