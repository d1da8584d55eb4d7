"""The result of a lint: how bad it is, what is wrong, why it matters, and how to fix it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Severity(StrEnum):
    """error: pods don't run, or run where they must not. warning: they might. advice: a hint."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"

    def is_at_least(self, other: "Severity") -> bool:
        return _RANK[self] <= _RANK[other]


@dataclass(frozen=True, slots=True)
class Finding:
    """check: the lint's short, stable name. runtime_classes: the classes it is about, if any."""

    severity: Severity
    check: str
    what: str
    why: str
    fix: str
    runtime_classes: tuple[str, ...] = ()


def error(check: str, what: str, why: str, fix: str, *runtime_classes: str) -> Finding:
    return Finding(Severity.ERROR, check, what, why, fix, runtime_classes)


def warning(check: str, what: str, why: str, fix: str, *runtime_classes: str) -> Finding:
    return Finding(Severity.WARNING, check, what, why, fix, runtime_classes)


def advice(check: str, what: str, why: str, fix: str, *runtime_classes: str) -> Finding:
    return Finding(Severity.ADVICE, check, what, why, fix, runtime_classes)


@dataclass(frozen=True, slots=True)
class LocatedFinding:
    """A finding about an object in a file.

    line: the line of the fault in the file, from 1. subject: the object's kind, namespace and name.
    """

    finding: Finding
    file: str
    line: int
    subject: str


_RANK: Final = {severity: rank for rank, severity in enumerate(Severity)}


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda each: _RANK[each.severity])
