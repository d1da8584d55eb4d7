"""Tables for a terminal of 100 columns and for a Markdown document, from the same rows."""

from collections.abc import Sequence
from typing import Final

Row = Sequence[str]

#: A column that holds numbers is set flush right.
_NUMERIC: Final = frozenset("0123456789.,x≤%+- ")


def milliseconds(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def processor(value: float) -> str:
    """Milliseconds of processor time, which are fewer."""
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def times(value: float) -> str:
    """A ratio."""
    return f"{value:.2f}x" if value < 10 else f"{value:.0f}x"


def mebibytes(value: float) -> str:
    return f"{value / 2**20:.1f}"


def _is_numeric(cells: Sequence[str]) -> bool:
    return all(_NUMERIC.issuperset(cell) for cell in cells)


def _aligned(rows: Sequence[Row]) -> tuple[list[list[str]], list[bool]]:
    columns = list(zip(*rows, strict=True))
    numeric = [_is_numeric(column[1:]) for column in columns]
    widths = [max(map(len, column)) for column in columns]
    aligned = [
        [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        for row in rows
    ]
    return aligned, numeric


def terminal(rows: Sequence[Row]) -> str:
    """The first row is the head."""
    lines = ["  ".join(row).rstrip() for row in _aligned(rows)[0]]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def markdown(rows: Sequence[Row]) -> str:
    aligned, numeric = _aligned(rows)
    rules = [
        "-" * (len(cell) - 1) + (":" if right else "-")
        for cell, right in zip(aligned[0], numeric, strict=True)
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in [aligned[0], rules, *aligned[1:]])
