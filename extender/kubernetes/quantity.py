"""Resource quantities: "500m", "1.5Gi", "1e3".

Upstream: k8s.io/apimachinery/pkg/api/resource/quantity.go, v0.36.2. A grammar guards Decimal, which
also accepts "1_0", "NaN", " 1" and digits of other scripts. Go reads quantities without a digit
("m", ".") as zero; here they are refused.
"""

import re
from collections.abc import Mapping
from decimal import MAX_EMAX, MIN_EMIN, ROUND_UP, Context, Decimal, localcontext
from functools import lru_cache
from typing import Final

from extender.model.reasons import shown

# Possessive, because a pod's author chooses the text, and backtracking would be quadratic.
_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,9}))?"
)
_DECIMAL_SUFFIXES: Final = {
    "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

_NANO: Final = Decimal("1E-9")
# Digits that a suffix can add: 1024**6 has 19; and nine decimal places.
_SPARE_DIGITS: Final = 32


def _exact(text: str) -> Context:
    """With the default 28 digits the product of number and suffix would be rounded."""
    return Context(prec=len(text) + _SPARE_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)


def parse_quantity(text: str) -> Decimal:
    """The value of a quantity, rounded away from zero to a multiple of 1n. Raises ValueError.

    Don't turn the result into an int unchecked: "1e999999999" is a valid quantity.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f'"{shown(text)}" is no quantity such as 250m, 1.5 or 128Mi')
    suffix, exponent = match["suffix"], int(match["exponent"] or 0)
    with localcontext(_exact(text)):
        number = Decimal(match["number"])
        if suffix in _BINARY_SUFFIXES:
            number *= 2 ** _BINARY_SUFFIXES[suffix]
        else:
            number = number.scaleb(_DECIMAL_SUFFIXES.get(suffix, exponent))
        if not number:
            return Decimal(0)
        if number.adjusted() < _NANO.adjusted():
            # quantize would first write out the zeros of "1e-999999999"
            return _NANO.copy_sign(number)
        is_finer = int(number.as_tuple().exponent) < _NANO.adjusted()
        return number.quantize(_NANO, ROUND_UP) if is_finer else number


def same_amounts(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two overheads are equal in a pod, as "100u" and "1m" are.

    kube-apiserver rounds a pod's amounts away from zero to thousandths, including those set by a
    webhook, and leaves a RuntimeClass's as they are. An unreadable amount equals only itself.
    Upstream: pkg/apis/core/v1/defaults.go SetDefaults_ResourceList, v1.36.2.
    """
    return one.keys() == other.keys() and all(
        _stored_or_text(value) == _stored_or_text(other[name]) for name, value in one.items()
    )


def _stored_or_text(text: str) -> int | str:
    try:
        return stored_billionths(text)
    except ValueError:
        return text


#: Larger than any amount that kube-scheduler counts with; larger ones count as this.
_MOST_BILLIONTHS: Final = 2**63 * 10**9
_MOST_DIGITS: Final = 19


def billionths(text: str) -> int:
    """A quantity in billionths of its unit, the finest there is; up to 2**63 whole units.

    Raises ValueError.
    """
    value = parse_quantity(text)
    if value.adjusted() >= _MOST_DIGITS:
        return _MOST_BILLIONTHS if value > 0 else -_MOST_BILLIONTHS
    with localcontext(_exact(text)):
        return min(int(value.scaleb(9)), _MOST_BILLIONTHS)


def stored_billionths(text: str) -> int:
    """A pod's or node's amount as kube-apiserver stores it (`same_amounts`). Raises ValueError."""
    return _remembered(text) if len(text) <= _SHORT else _remembered.__wrapped__(text)


#: The length of texts that are remembered; a stranger's may have a megabyte.
_SHORT: Final = 32


@lru_cache(4096)
def _remembered(text: str) -> int:
    amount = billionths(text)
    return (amount // 10**6 if amount < 0 else -(-amount // 10**6)) * 10**6


def binary_text(amount: int) -> str:
    """Bytes in the largest unit that gives a whole number."""
    suffix = ""
    for unit in _BINARY_SUFFIXES:
        if not amount or amount % 1024:
            break
        amount, suffix = amount // 1024, unit
    return f"{amount}{suffix}"
