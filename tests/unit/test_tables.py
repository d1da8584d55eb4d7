"""Tables fit, wrap and colour as they should."""

import re
import sys
from collections import Counter
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cli.output import Cell, Colour, Row, Screen, paragraph, table
from tests.processes import called

WORD: Final = st.text("ab-.", min_size=1, max_size=60)
TEXT: Final = st.lists(WORD, max_size=6).map(" ".join)
ROWS: Final = st.lists(st.lists(TEXT, min_size=3, max_size=3), min_size=1, max_size=4)
HEADERS: Final = ("FIRST", "SECOND", "THIRD")
SGR: Final = re.compile(r"\x1b\[[0-9;]+m")

#: Terminals of these widths.
SCREENS: Final = st.builds(Screen, st.integers(40, 160))


def test_a_table_that_fits_is_not_wrapped() -> None:
    text = table(Screen(80), ("NAME", "VALUE"), [["a", "one two"], ["long name", ""]])
    assert text == "NAME       VALUE\na          one two\nlong name\n"


def test_the_widest_column_gives_way() -> None:
    text = table(Screen(29), ("NAME", "WHY"), [["n1", "one two three four five six"]])
    assert text == "NAME  WHY\nn1    one two three four five\n      six\n"


def test_columns_without_any_text_are_left_out() -> None:
    rows = [["a", "", "1"], ["b", "", ""]]
    assert table(Screen(80), HEADERS, rows) == "FIRST  THIRD\na      1\nb\n"


def test_a_table_that_does_not_fit_becomes_records_as_kubectl_describes() -> None:
    long = "sandbox.example.com/a-rather-long-label"
    rows: list[Row] = [["web", long, "one two"], ["", "", "three"], ["api", "", "four"]]
    assert table(Screen(46), HEADERS, rows) == (
        f"First:   web\nSecond:  {long}\nThird:   one two\nThird:   three\n\n"
        "First:   api\nThird:   four\n"
    )


def test_in_a_pipe_each_row_is_a_line_however_long() -> None:
    rows = [["a" * 90, "one " * 30, "x"]] * 3
    assert table(Screen(None), HEADERS, rows).count("\n") == 4


@given(SCREENS, ROWS)
def test_no_word_is_broken_and_none_is_lost(screen: Screen, rows: list[list[str]]) -> None:
    text = table(screen, HEADERS, rows)
    words = Counter(word for row in rows for cell in row for word in cell.split())
    printed = Counter(text.split())
    heads = {word for each in HEADERS for word in (each, f"{each.capitalize()}:")}
    assert +Counter({word: n for word, n in printed.items() if word not in heads}) == words
    longest = max([1, *map(len, words)])
    assert all(len(line) <= max(screen.width or 0, longest + 9) for line in text.splitlines())


@pytest.mark.parametrize("width", [60, 80, 100, 160])
@given(ROWS)
def test_colours_change_no_layout(width: int, rows: list[list[str]]) -> None:
    coloured: list[Row] = [[Cell(first, Colour.BAD), *others] for first, *others in rows]
    plain = table(Screen(width), HEADERS, rows)
    painted = table(Screen(width, colours=True), HEADERS, coloured)
    assert SGR.sub("", painted) == plain


@pytest.mark.parametrize("colours", [True, False])
def test_colours_are_shown_where_the_screen_has_them(colours: bool) -> None:
    text = table(Screen(80, colours), ("A",), [[Cell("x", Colour.GOOD)]])
    assert ("\x1b[32mx\x1b[0m" in text) is colours


def test_no_service_imports_what_wraps_tables() -> None:
    """The import takes 2.5 MB and 40 ms, which a service pays at its first wide answer only."""
    code = (
        "import sys; from extender.cli.commands import COMMANDS;"
        "[COMMANDS[each].load() for each in ('serve', 'webhook')]; print('rich' in sys.modules)"
    )
    assert called(sys.executable, "-c", code).stdout == "False\n"


def test_a_paragraph_is_indented_behind_its_mark() -> None:
    assert paragraph(Screen(20), "one two three four", "  ", "- ") == ("- one two three four\n")
    assert paragraph(Screen(20), "one two three four five", "  ", "- ") == (
        "- one two three four\n  five\n"
    )
