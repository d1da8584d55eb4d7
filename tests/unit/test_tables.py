"""Tables fit, wrap and colour as they should."""

import re
import textwrap

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
def test_no_line_is_wider_than_the_screen_or_its_words_and_no_word_is_lost_or_broken(
    width: int, rows: list[list[str]]
) -> None:
    text = table(Screen(width), ("A", "B", "C"), rows)
    longest = [max([8, *(len(w) for row in rows for w in row[n].split())]) for n in range(3)]
    assert all(len(line) <= max(width, sum(longest) + 6) for line in text.splitlines())
    for column in ("A", "B", "C"):
        assert column in text.splitlines()[0]
    words = [word for row in rows for cell in row for word in cell.split()]
    assert sorted(text.split()[3:]) == sorted(words)


def test_a_label_is_whole_on_any_terminal() -> None:
    label = "katacontainers.io/kata-runtime=true"
    for width in (20, 40, 60):
        text = table(Screen(width), ("REASON", "NODES"), [[f"lacks {label} and more", label]])
        assert text.count(label) == 2


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


@given(st.text(" ab-é\n", max_size=12), st.integers(8, 14))
def test_what_fits_is_what_textwrap_makes_of_it(text: str, width: int) -> None:
    wrapped = textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False) or [""]
    cell, *_ = table(Screen(width), ("H",), [[text]]).splitlines()[1:] or [""]
    assert cell == wrapped[0].rstrip()
