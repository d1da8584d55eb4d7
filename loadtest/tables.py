"""Tables in Markdown, aligned so that a terminal of 100 columns shows them too."""

from collections.abc import Sequence
from typing import Final

Row = Sequence[str]

#: The characters of a numeric column, which is aligned right.
_NUMERIC: Final = frozenset("0123456789.,x≤%+- ")


def milliseconds(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def mebibytes(value: float) -> str:
    return f"{value / 2**20:.1f}"


def table(rows: Sequence[Row]) -> str:
    """The first row is the head."""
    columns = []
    for head, *cells in zip(*rows, strict=True):
        width = max(map(len, (head, *cells)))
        if all(_NUMERIC.issuperset(cell) for cell in cells):
            rule = "-" * (width - 1) + ":"
            columns.append([each.rjust(width) for each in (head, rule, *cells)])
        else:
            columns.append([each.ljust(width) for each in (head, "-" * width, *cells)])
    return "\n".join(f"| {' | '.join(row)} |" for row in zip(*columns, strict=True))
