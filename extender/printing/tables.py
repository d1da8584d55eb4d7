"""Tables that fit a terminal: columns are as wide as they need, the widest wrap when they must.

A word is never broken, since half a label's key can't be read or copied.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import Final

#: Between two columns, as in kubectl.
_GAP: Final = "   "

#: A column is not made narrower than this, nor than its longest word; on a terminal that is
#: narrower still, lines overflow.
_LEAST: Final = 8

#: The width if the terminal's is not known.
DEFAULT_WIDTH: Final = 100


class Colour(Enum):
    """A colour by its meaning; the value is its SGR code."""

    GOOD = "32"
    BAD = "31"
    DOUBTFUL = "33"
    QUIET = "2"
    STRONG = "1"


@dataclass(frozen=True, slots=True)
class Screen:
    """The screen that is printed on: its width in characters, and whether it shows colours."""

    width: int = DEFAULT_WIDTH
    colours: bool = False

    def paint(self, text: str, colour: Colour | None) -> str:
        return f"\x1b[{colour.value}m{text}\x1b[0m" if colour and self.colours and text else text


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    colour: Colour | None = None


Row = Sequence[str | Cell]


def table(screen: Screen, headers: Sequence[str], rows: Sequence[Row]) -> str:
    """The rows under their headers, each on one line or more; only "none" without rows."""
    if not rows:
        return "none\n"
    cells = [[Cell(header, Colour.STRONG) for header in headers]]
    cells += [[each if isinstance(each, Cell) else Cell(each) for each in row] for row in rows]
    columns = [[row[n].text for row in cells] for n in range(len(headers))]
    widths = _widths([max(map(len, column)) for column in columns], _least(columns), screen)
    return "".join(_lines(screen, row, widths) for row in cells)


def _least(columns: Sequence[Sequence[str]]) -> Sequence[int]:
    return [
        max(_LEAST, *(len(word) for text in column for word in text.split())) for column in columns
    ]


def _widths(natural: Sequence[int], least: Sequence[int], screen: Screen) -> Sequence[int]:
    widths = list(natural)
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - screen.width
    while excess > 0:
        wrapping = [n for n, width in enumerate(widths) if width > least[n]]
        if not wrapping:
            break
        widest = max(wrapping, key=widths.__getitem__)
        # The widest column shrinks to the second widest at once, then both by a character at a
        # time.
        others = [widths[n] for n in wrapping if n != widest]
        floor = max(least[widest], max(others, default=0))
        cut = max(1, min(excess, widths[widest] - floor))
        widths[widest] -= cut
        excess -= cut
    return widths


def _lines(screen: Screen, row: Sequence[Cell], widths: Sequence[int]) -> str:
    wrapped = [_wrap(cell.text, width) for cell, width in zip(row, widths, strict=True)]
    lines = []
    for parts in zip_longest(*wrapped, fillvalue=""):
        line = _GAP.join(
            screen.paint(part, cell.colour) + " " * (width - len(part))
            for part, cell, width in zip(parts, row, widths, strict=True)
        )
        lines.append(line.rstrip() + "\n")
    return "".join(lines)


def _wrap(text: str, width: int) -> Sequence[str]:
    if len(text) <= width and text.isprintable():
        # As textwrap would, which takes 30 times as long, and most cells fit.
        return [text.rstrip()]
    wrapped = textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
    return wrapped or [""]


def paragraph(screen: Screen, text: str, indent: str = "", first: str | None = None) -> str:
    """Text in lines that fit; `first` precedes the first line, `indent` the others."""
    return (
        textwrap.fill(
            text,
            max(screen.width, 20),
            initial_indent=indent if first is None else first,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        + "\n"
    )
