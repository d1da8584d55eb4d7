"""Quantities: what is accepted, its value, and how it is printed.

The outcomes were compared with those of k8s.io/apimachinery v0.36.2.
"""

import re
import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.validation.quantity import canonical_quantity, parse_quantity, same_amounts

FORMAT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
SUFFIX = "unable to parse quantity's suffix"
NUMERIC = "unable to parse numeric part of quantity"


def same(one: str, other: str) -> bool:
    """Whether both are one value."""
    return parse_quantity(one) == parse_quantity(other)


@pytest.mark.parametrize(
    ("text", "value", "canonical"),
    [
        pytest.param("0", "0", "0", id="zero"),
        pytest.param("-0", "0", "0", id="minus zero"),
        pytest.param("1.", "1", "1.", id="nothing after the point, spelling kept"),
        pytest.param(".5", "0.5", "500m", id="nothing before the point"),
        pytest.param("+1", "1", "+1", id="plus sign, spelling kept"),
        pytest.param("1.500", "1.5", "1.500", id="three decimals, spelling kept"),
        pytest.param("-1000m", "-1", "-1", id="thousand milli"),
        pytest.param("1E", "1E18", "1E", id="E alone is exa"),
        pytest.param("1E5", "100000", "100e3", id="E with digits is an exponent"),
        pytest.param("1e-5", "0.00001", "10e-6", id="negative exponent"),
        pytest.param("1.5Gi", "1610612736", "1536Mi", id="fraction of a binary unit"),
        pytest.param("0.0001Ki", "0.1024", "102400u", id="binary below one is decimal"),
        pytest.param("0.1234567891Ki", "126.419752039", "126419752039n", id="rounded up to nano"),
        pytest.param("0.1n", "1E-9", "1n", id="finer than nano is one nano"),
        pytest.param("-0.1n", "-1E-9", "-1n", id="rounded away from zero"),
        pytest.param("100Ei", "9223372036854775807", "9223372036854775807", id="binary is capped"),
        pytest.param("1e100", "1E100", "10e99", id="decimal is not capped"),
        pytest.param("1000E", "1E21", "1", id="beyond exa: printed without its suffix by Go too"),
        pytest.param("1e4294967296", "1", "1e4294967296", id="exponent cut to int32"),
        pytest.param("m", "0", "0", id="no digit: Go takes it for zero"),
        pytest.param(".", "0", "0", id="point alone: Go takes it for zero"),
        pytest.param("-", "0", "0", id="sign alone: Go takes it for zero"),
        pytest.param(
            "123456789012345678901234567890123k",
            "123456789012345678901234567890123000",
            "123456789012345678901234567890123k",
            id="more digits than a default decimal context has",
        ),
    ],
)
def test_accepted_as_kubernetes_does(text: str, value: str, canonical: str) -> None:
    assert parse_quantity(text) == Decimal(value)
    assert canonical_quantity(text) == canonical


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("", FORMAT, id="empty"),
        pytest.param("abc", FORMAT, id="letters"),
        pytest.param("1_0", FORMAT, id="underscore"),
        pytest.param(" 1", FORMAT, id="leading space"),
        pytest.param("1\n", FORMAT, id="trailing newline"),
        pytest.param("NaN", FORMAT, id="NaN"),
        pytest.param("Infinity", FORMAT, id="Infinity"),
        pytest.param("٣", FORMAT, id="digit of another script"),
        pytest.param("1.1.", FORMAT, id="two points"),
        pytest.param("1+1M", FORMAT, id="sign inside"),
        pytest.param("1e5.5", FORMAT, id="fractional exponent"),
        pytest.param("1e", SUFFIX, id="exponent without digits"),
        pytest.param("1e+", SUFFIX, id="exponent with a sign only"),
        pytest.param("1K", SUFFIX, id="K is no suffix"),
        pytest.param("1ki", SUFFIX, id="ki is no suffix"),
        pytest.param("1i", SUFFIX, id="i is no suffix"),
        pytest.param("1e9223372036854775808", SUFFIX, id="exponent beyond int64"),
        pytest.param("1e" + "9" * 5000, SUFFIX, id="exponent of 5000 digits"),
        pytest.param("Ei", NUMERIC, id="no digit, where Go doesn't take it for zero"),
    ],
)
def test_refused_with_the_text_of_go(text: str, fault: str) -> None:
    for read in (parse_quantity, canonical_quantity):
        with pytest.raises(ValueError, match=f"^{re.escape(fault)}$"):
            read(text)


@pytest.mark.parametrize("text", ["1e2147483647", "1e-2147483648", "-3e999999999"])
def test_huge_exponents_are_never_written_out(text: str) -> None:
    value = parse_quantity(text)
    assert len(value.as_tuple().digits) == 1
    assert len(canonical_quantity(text)) < 20
    assert same(text, text)
    assert not same(text, "1")


def test_importing_validation_leaves_the_kubernetes_package_alone() -> None:
    code = (
        "import sys, extender.validation.runtimeclass_rules; sys.exit('kubernetes' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


INTEGERS = st.integers(0, 10**17)
UNITS = st.sampled_from(
    [
        ("k", "e3"),
        ("M", "000k"),
        ("G", "E9"),
        ("", "000m"),
        ("", "e0"),
        ("m", "000u"),
        ("P", "000T"),
    ]
)


@settings(max_examples=200, deadline=None)
@given(number=INTEGERS, units=UNITS)
def test_equal_decimal_notations_are_equal(number: int, units: tuple[str, str]) -> None:
    """Law: a quantity has the value of its notation in another decimal unit."""
    one, other = units
    assert same(f"{number}{one}", f"{number}{other}")


@settings(max_examples=200, deadline=None)
@given(number=st.integers(0, 2**40), power=st.integers(1, 6))
def test_a_binary_unit_is_1024_of_the_next(number: int, power: int) -> None:
    """Law: n of a binary unit are n * 1024 of the unit below, unless capped at 2**63-1."""
    units = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
    total = min(number * 1024**power, 2**63 - 1)
    assert parse_quantity(f"{number}{units[power]}") == total
    if power > 1:
        assert same(f"{number}{units[power]}", f"{number * 1024}{units[power - 1]}")


@settings(max_examples=300, deadline=None)
@given(text=st.text("0159.+-_ eEinumkKMGTP٣\n", max_size=8) | st.text())
def test_what_is_accepted_matches_the_grammar_of_go(text: str) -> None:
    """Law: an accepted text matches Go's expression, whose digits may be missing."""
    try:
        value = parse_quantity(text)
    except ValueError:
        return
    assert re.fullmatch(r"[+-]?[0-9.]*[eEinumkKMGTP]*[-+]?[0-9]*", text)
    assert text
    assert value.is_finite()


@settings(max_examples=300, deadline=None)
@given(
    number=st.from_regex(r"[+-]?[0-9]{1,20}(\.[0-9]{0,12})?", fullmatch=True),
    suffix=st.sampled_from(
        ["", "n", "u", "m", "k", "M", "Ki", "Mi", "Gi", "Ti", "e3", "E-2", "e-12", "e+7"]
    ),
)
def test_the_canonical_form_keeps_the_value(number: str, suffix: str) -> None:
    """Law: below 10**20, where Go has a suffix left, printing keeps the value and is idempotent."""
    text = number + suffix
    if parse_quantity(text).copy_abs() >= 10**20:
        return
    canonical = canonical_quantity(text)
    assert same(canonical, text)
    assert canonical_quantity(canonical) == canonical


@pytest.mark.parametrize(
    ("of_class", "of_pod", "equal"),
    [
        pytest.param("100u", "1m", True, id="up to a thousandth"),
        pytest.param("1m", "1m", True, id="exact"),
        pytest.param("1001u", "1m", False, id="two thousandths"),
        pytest.param("-100u", "-1m", True, id="away from zero"),
        pytest.param("0", "0n", True, id="zero"),
        pytest.param("0.1n", "1m", True, id="finer than nano"),
        pytest.param("1e-999999999", "1m", True, id="far finer"),
        pytest.param("1e999999999", "1m", False, id="far greater"),
        pytest.param(
            "123456789012345678901234567890.0001",
            "123456789012345678901234567890001m",
            True,
            id="more digits than a default decimal context has",
        ),
        pytest.param("0.0001Ki", "103m", True, id="binary"),
    ],
)
def test_amounts_are_compared_as_a_pod_keeps_them(of_class: str, of_pod: str, equal: bool) -> None:
    """pkg/apis/core/v1/defaults.go SetDefaults_ResourceList: rounded to thousandths."""
    assert same_amounts({"cpu": of_class}, {"cpu": of_pod}) is equal
    assert same_amounts({"cpu": of_pod}, {"cpu": of_class}) is equal
