"""Quantities: the texts that are accepted, and their values.

The outcomes were compared with those of k8s.io/apimachinery v0.36.2.
"""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.kubernetes.quantity import billionths, same_amounts
from tests.cases_file import cases

#: The largest amount there is.
MOST = 2**63 * 10**9


def same(one: str, other: str) -> bool:
    """Whether both are one value."""
    return billionths(one) == billionths(other)


@cases
def test_accepted_as_kubernetes_does(text: str, value: str) -> None:
    assert billionths(text) == min(int(Decimal(value).scaleb(9)), MOST)


@pytest.mark.parametrize(
    "text",
    [
        *("", "abc", "1_0", " 1", "1\n", "NaN", "Infinity", "٣", "1.1.", "1+1M", "1e5.5", "1e"),
        *("1e+", "1K", "1ki", "1i", "m", ".", "Ei", "1e" + "9" * 5000),
    ],
)
def test_refused_with_the_text_and_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity such as 250m"):
        billionths(text)


#: A unit, and what may stand in its place.
UNITS = st.sampled_from(
    [
        *(("k", "e3"), ("M", "000k"), ("G", "E9"), ("P", "000T")),
        *(("", "000m"), ("", "e0"), ("m", "000u")),
    ]
)


@given(number=st.integers(0, 10**17), units=UNITS)
def test_equal_decimal_notations_are_equal(number: int, units: tuple[str, str]) -> None:
    """Law: a quantity has the value of its notation in another decimal unit."""
    one, other = units
    assert same(f"{number}{one}", f"{number}{other}")


@given(number=st.integers(0, 2**40), power=st.integers(1, 6))
def test_a_binary_unit_is_1024_of_the_next(number: int, power: int) -> None:
    """Law: n of a binary unit are n * 1024 of the unit below."""
    units = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
    total = number * 1024**power
    assert billionths(f"{number}{units[power]}") == min(total * 10**9, MOST)
    if power > 1:
        assert same(f"{number}{units[power]}", f"{number * 1024}{units[power - 1]}")


@given(text=st.text("0159.+-_ eEinumkKMGTP٣\n", max_size=8) | st.text())
def test_what_is_accepted_matches_the_grammar_of_go(text: str) -> None:
    """Law: an accepted text matches Go's expression, whose digits may be missing."""
    try:
        billionths(text)
    except ValueError:
        return
    assert re.fullmatch(r"[+-]?[0-9.]*[eEinumkKMGTP]*[-+]?[0-9]*", text)
    assert text


@cases
def test_amounts_are_compared_as_a_pod_keeps_them(of_class: str, of_pod: str, equal: bool) -> None:
    """pkg/apis/core/v1/defaults.go SetDefaults_ResourceList: rounded to thousandths."""
    assert same_amounts({"cpu": of_class}, {"cpu": of_pod}) is equal
    assert same_amounts({"cpu": of_pod}, {"cpu": of_class}) is equal
