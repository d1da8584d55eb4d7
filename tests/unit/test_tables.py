"""Tables fit, wrap and colour as they should."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.printing.tables import Cell, Colour, Row, Screen, paragraph, table

TEXT = st.text("abc ", max_size=60)
SGR = re.compile(r"\x1b\[[0-9]+m")


def test_a_table_that_fits_is_not_wrapped() -> None:
    text = table(Screen(80), ("NAME", "VALUE"), [["a", "one two"], ["long name", ""]])
    assert text == "NAME        VALUE\na           one two\nlong name\n"


def test_the_widest_column_gives_way() -> None:
    text = table(Screen(22), ("NAME", "REASON"), [["n1", "one two three four"]])
    assert text == "NAME   REASON\nn1     one two three\n       four\n"


def test_nothing_is_none() -> None:
    assert table(Screen(), ("NAME",), []) == "none\n"


@given(st.integers(30, 120), st.lists(st.lists(TEXT, min_size=3, max_size=3), min_size=1))
def test_no_line_is_wider_than_the_screen_and_no_word_is_lost(
    width: int, rows: list[list[str]]
) -> None:
    text = table(Screen(width), ("A", "B", "C"), rows)
    assert all(len(line) <= width for line in text.splitlines())
    kept = "".join(character for character in text if character in "abc")
    for column in ("A", "B", "C"):
        assert column in text.splitlines()[0]
    assert sorted(kept) == sorted(c for row in rows for cell in row for c in cell if c != " ")


@given(st.integers(20, 120), TEXT)
def test_colours_change_no_layout(width: int, text: str) -> None:
    rows: list[Row] = [[Cell(text, Colour.BAD), "x"]]
    plain = table(Screen(width), ("A", "B"), rows)
    assert SGR.sub("", table(Screen(width, colours=True), ("A", "B"), rows)) == plain


@pytest.mark.parametrize("colours", [True, False])
def test_colours_are_shown_where_the_screen_has_them(colours: bool) -> None:
    text = table(Screen(80, colours), ("A",), [[Cell("x", Colour.GOOD)]])
    assert ("\x1b[32mx\x1b[0m" in text) is colours


def test_a_paragraph_is_indented_behind_its_mark() -> None:
    assert paragraph(Screen(20), "one two three four", "  ", "- ") == ("- one two three four\n")
    assert paragraph(Screen(20), "one two three four five", "  ", "- ") == (
        "- one two three four\n  five\n"
    )
