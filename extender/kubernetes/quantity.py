"""Resource quantities: "500m", "1.5Gi", "1e3".

Upstream: k8s.io/apimachinery/pkg/api/resource/quantity.go, v0.36.2. Go reads quantities without a
digit ("m", ".") as zero; here they are invalid.
"""

import re
from collections.abc import Mapping
from typing import Final

from extender.model.reasons import shown

# Possessive quantifiers: a pod's author chooses the text, and backtracking would be quadratic.
_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,999}+(?:\.[0-9]{0,999}+)?|\.[0-9]{1,999}+))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,9}))?"
)
_DECIMAL_SUFFIXES: Final = {
    "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

#: The maximum, larger than any amount in kube-scheduler. Larger amounts count as the maximum.
_MOST_BILLIONTHS: Final = 2**63 * 10**9


def billionths(text: str) -> int:
    """A quantity in billionths, rounded away from zero, at most 2**63 units. Raises ValueError."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f'"{shown(text)}" is no quantity such as 250m, 1.5 or 128Mi')
    whole, _, decimals = match["number"].partition(".")
    digits = int(whole + decimals) << _BINARY_SUFFIXES.get(match["suffix"], 0)
    exponent = _DECIMAL_SUFFIXES.get(match["suffix"], int(match["exponent"] or 0))
    zeros = exponent - len(decimals) + 9
    # More zeros, as in "1e999999999" or "1e-999999999", would not change the result.
    power: int = 10 ** min(abs(zeros), len(text) + 40)
    amount = abs(digits) * power if zeros >= 0 else -(-abs(digits) // power)
    return min(amount, _MOST_BILLIONTHS) * (-1 if digits < 0 else 1)


def same_amounts(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two overheads are equal once they are stored in a pod, as "100u" and "1m" are.

    kube-apiserver rounds a pod's amounts away from zero to thousandths, including those set by a
    webhook. It does not round a RuntimeClass's. An unreadable amount equals only itself.
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


def stored_billionths(text: str) -> int:
    """A pod's or node's amount as kube-apiserver stores it (`same_amounts`). Raises ValueError."""
    amount = billionths(text)
    return (amount // 10**6 if amount < 0 else -(-amount // 10**6)) * 10**6


def binary_text(amount: int) -> str:
    """A number of bytes in the largest binary unit that gives a whole number."""
    suffix = ""
    for unit in _BINARY_SUFFIXES:
        if not amount or amount % 1024:
            break
        amount, suffix = amount // 1024, unit
    return f"{amount}{suffix}"
