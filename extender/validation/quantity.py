"""Resource quantities: "500m", "1.5Gi", "1e3".

Upstream: k8s.io/apimachinery/pkg/api/resource/{quantity,suffix,amount}.go, v0.36.2. A grammar
guards Decimal, which also accepts what Go refuses ("1_0", "NaN", " 1", digits of other scripts). Go
itself reads quantities without a digit ("m", ".", "-") as zero, against its own regular expression.
"""

import re
from collections.abc import Mapping
from decimal import MAX_EMAX, MIN_EMIN, ROUND_UP, Decimal, localcontext
from typing import NamedTuple

_FORMAT_FAULT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_NUMERIC_FAULT = "unable to parse numeric part of quantity"
_SUFFIX_FAULT = "unable to parse quantity's suffix"

# Possessive, because a pod's author chooses the text, and backtracking would be quadratic.
_SCAN = re.compile(
    r"(?P<number>(?P<sign>[+-]?)0*+(?P<whole>[0-9]*+)(?:\.(?P<fraction>[0-9]*+))?)"
    r"(?P<suffix>[eEinumkKMGTP]*+[-+]?[0-9]*+)"
)
_EXPONENT = re.compile("[eE]([+-]?)0*+([0-9]*+)")
_DECIMAL_SUFFIXES = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX_OF = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_SUFFIX_OF = {exponent: suffix for suffix, exponent in _BINARY_SUFFIXES.items()}
_LARGEST_BINARY = max(_BINARY_SUFFIX_OF)

# Those of strings.TrimSpace, except what must be escaped in JSON: Quantity reads the raw JSON.
_BLANKS = " \u0085\u00a0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))

_NANO = Decimal("1E-9")
_MILLI = Decimal("1E-3")
_MAX_BINARY = Decimal(2**63 - 1)
_INT64_DIGITS = 19
# Digits that a suffix can add: 1024**6 has 19; and nine decimal places.
_SPARE_DIGITS = 32


class _Notation(NamedTuple):
    """format: "decimal" (SI suffix), "exponent" or "binary"; exponent: of 10, or of 2."""

    format: str
    exponent: int


class _Scanned(NamedTuple):
    """The parts of a quantity; whole has no leading zeros and at least one digit."""

    number: str
    sign: str
    whole: str
    fraction: str
    notation: _Notation

    @property
    def fits_int64(self) -> bool:
        """Whether Go keeps it as an int64 and a scale, which also keeps its spelling."""
        exponent = self.notation.exponent
        if self.notation.format == "binary":
            return not self.fraction and len(self.whole) + exponent * 3 // 10 <= 14
        return len(self.whole) + len(self.fraction) <= 18 and exponent - len(self.fraction) >= -9


def parse_quantity(text: str) -> Decimal:
    """Parse a quantity as kube-apiserver does, to its exact value.

    What is finer than 1n is rounded away from zero; a binary quantity (Ki to Ei) is capped at
    2**63-1, a decimal one is not, so don't turn the result into an int unchecked: "1e999999999"
    is a valid quantity. Time and memory grow with the length of the text, not with its exponent.
    Raises ValueError with the text of Go's error.
    Upstream: pkg/api/resource/quantity.go ParseQuantity, v0.36.2.
    """
    return _value(text, _scan(text))


def same_amounts(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two overheads are equal in a pod, as "100u" and "1m" are.

    kube-apiserver rounds a pod's amounts away from zero to thousandths, including those set by a
    webhook, and leaves a RuntimeClass's as they are. An unreadable amount equals only itself.
    Upstream: pkg/apis/core/v1/defaults.go SetDefaults_ResourceList, v1.36.2.
    """
    return one.keys() == other.keys() and all(
        value == other[name] or _equal(value, other[name]) for name, value in one.items()
    )


def _equal(one: str, other: str) -> bool:
    try:
        return _in_thousandths(one) == _in_thousandths(other)
    except ValueError:
        return False


#: Larger than any amount that kube-scheduler counts with; larger ones count as this.
_MOST_BILLIONTHS = 2**63 * 10**9


def billionths(text: str) -> int:
    """A quantity in billionths of its unit, the finest there is; up to 2**63 whole units.

    Raises ValueError.
    """
    value = parse_quantity(text)
    if value.adjusted() >= _INT64_DIGITS:
        return _MOST_BILLIONTHS if value > 0 else -_MOST_BILLIONTHS
    with localcontext(prec=len(text) + _SPARE_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN):
        return min(int(value.scaleb(9)), _MOST_BILLIONTHS)


def _in_thousandths(text: str) -> Decimal:
    value = parse_quantity(text)
    with localcontext(prec=len(text) + _SPARE_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN):
        return _rounded_up(value, _MILLI)


def trimmed_quantity(text: str) -> str:
    """A quantity without the blanks around it, which are allowed where it is read from JSON.

    Upstream: Quantity.UnmarshalJSON, v0.36.2.
    """
    return text.strip(_BLANKS)


def canonical_quantity(text: str) -> str:
    """A quantity as the API server prints it: "-1000m" becomes "-1". Raises ValueError.

    Upstream: Quantity.String, v0.36.2, including its mistakes ("1000E" is printed as "1").
    """
    scanned = _scan(text)
    value = _value(text, scanned)
    if scanned.fits_int64 and _keeps_spelling(scanned):
        return text
    if not value:
        return "0"
    if scanned.notation.format == "binary" and value.copy_abs() >= 1024 and is_integral(value):
        return binary_text(int(value))
    # a small or fractional binary quantity is printed as a decimal one
    return _decimal_text(value, in_exponent_form=scanned.notation.format == "exponent")


def _scan(text: str) -> _Scanned:
    match = _SCAN.fullmatch(text) if text else None
    if match is None:
        raise ValueError(_FORMAT_FAULT)
    whole, fraction = match["whole"] or "0", match["fraction"] or ""
    notation = _read_suffix(match["suffix"])
    scanned = _Scanned(match["number"], match["sign"], whole, fraction, notation)
    if not scanned.fits_int64 and not scanned.number.strip("+-."):
        raise ValueError(_NUMERIC_FAULT)
    return scanned


def _read_suffix(suffix: str) -> _Notation:
    if (exponent := _DECIMAL_SUFFIXES.get(suffix)) is not None:
        return _Notation("decimal", exponent)
    if (exponent := _BINARY_SUFFIXES.get(suffix)) is not None:
        return _Notation("binary", exponent)
    match = _EXPONENT.fullmatch(suffix)
    if match is None or not suffix[-1].isdigit() or len(match[2]) > _INT64_DIGITS:
        raise ValueError(_SUFFIX_FAULT)
    exponent = int(f"{match[1]}{match[2] or '0'}")
    if not -(2**63) <= exponent < 2**63:
        raise ValueError(_SUFFIX_FAULT)
    # Go silently cuts the exponent to an int32.
    return _Notation("exponent", (exponent + 2**31) % 2**32 - 2**31)


def _value(text: str, scanned: _Scanned) -> Decimal:
    number, notation = f"{scanned.sign}{scanned.whole}.{scanned.fraction}", scanned.notation
    # With the default 28 digits the product of number and suffix would be rounded.
    with localcontext(prec=len(text) + _SPARE_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN):
        if notation.format == "binary":
            value = Decimal(number) * 2**notation.exponent
        else:
            value = Decimal(f"{number}E{notation.exponent}")
        if not value:
            return Decimal(0)
        value = _rounded_up(value, _NANO)
    if notation.format == "binary" and value.copy_abs() > _MAX_BINARY:
        return _MAX_BINARY.copy_sign(value)
    return value


def _rounded_up(value: Decimal, unit: Decimal) -> Decimal:
    """Round away from zero to a multiple of the unit, a power of ten."""
    if not value:
        return value
    if value.adjusted() < unit.adjusted():
        # quantize would first write out the zeros of "1e-999999999"
        return unit.copy_sign(value)
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent < unit.adjusted():
        return value.quantize(unit, rounding=ROUND_UP)
    return value


def _keeps_spelling(scanned: _Scanned) -> bool:
    if scanned.notation.format == "binary":
        return int(scanned.whole) % 8 != 0
    digits = scanned.whole + scanned.fraction
    scale = scanned.notation.exponent - len(scanned.fraction)
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def is_integral(value: Decimal) -> bool:
    """Whether a quantity has no decimal places."""
    return value == value.to_integral_value()


def binary_text(amount: int) -> str:
    """Bytes in the largest unit that gives a whole number."""
    exponent = 0
    while amount and amount % 1024 == 0 and exponent < _LARGEST_BINARY:
        amount //= 1024
        exponent += 10
    return f"{amount}{_BINARY_SUFFIX_OF.get(exponent, '')}"


def _decimal_text(value: Decimal, *, in_exponent_form: bool) -> str:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)  # finite: no "n", "N" or "F"
    written = "".join(map(str, digits)).lstrip("0")
    mantissa = written.rstrip("0")
    exponent += len(written) - len(mantissa)
    surplus = exponent % 3
    mantissa, exponent = mantissa + "0" * surplus, exponent - surplus
    if in_exponent_form:
        suffix = f"e{exponent}" if exponent else ""
    else:
        suffix = _DECIMAL_SUFFIX_OF.get(exponent, "")
    return f"{'-' if sign else ''}{mantissa}{suffix}"
