"""Findings of `check`, also those about objects of files, as JSON and as text."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from extender.checks.finding import Finding, LocatedFinding, Severity
from extender.printable import printable
from extender.printing.tables import Colour, Screen, paragraph

_COLOURS: Final = {
    Severity.ERROR: Colour.BAD,
    Severity.WARNING: Colour.DOUBTFUL,
    Severity.ADVICE: Colour.QUIET,
}

_COPIED: Final = re.compile(r"(kubectl|curl) |[A-Za-z]+: ")


def findings_document(findings: Sequence[Finding]) -> dict[str, object]:
    return {"findings": [finding_document(each) for each in findings]}


def finding_document(finding: Finding) -> dict[str, object]:
    return {
        "severity": finding.severity.value,
        "code": finding.check,
        "check": finding.check,  # its name before `check -f` had one; kept for who reads it
        "what": finding.what,
        "why": finding.why,
        "fix": finding.fix,
    }


def findings_text(findings: Sequence[Finding], looked_at: str, screen: Screen) -> str:
    """Each finding in three lines: what, why it matters, how to fix it; then their number."""
    parts = [_lines(each, screen) for each in findings]
    return "".join(parts) + _counts(findings, looked_at)


def _lines(finding: Finding, screen: Screen) -> str:
    """One finding with its name, by which the pages tell of it, and an empty line."""
    label = f"{finding.severity.value}: "
    what = f"{printable(finding.what)} [{finding.check}]"
    first = paragraph(screen, what, " " * len(label), label)
    return (
        first.replace(label, screen.paint(label, _COLOURS[finding.severity]), 1)
        + paragraph(screen, printable(finding.why), "       ", "  why: ")
        + _fix(screen, printable(finding.fix))
        + "\n"
    )


def _counts(findings: Sequence[Finding], looked_at: str) -> str:
    """How many findings of each severity there are in what was looked at."""
    counts = [
        f"{count} {severity.value}{_plural(severity, count)}"
        for severity in Severity
        if (count := sum(each.severity is severity for each in findings))
    ]
    return f"{', '.join(counts) or 'no findings'} in {printable(looked_at)}\n"


def _fix(screen: Screen, text: str) -> str:
    """On one line if it is a command or a field, so that it can be copied."""
    if _COPIED.match(text):
        return f"  fix: {text}\n"
    return paragraph(screen, text, "       ", "  fix: ")


def _plural(severity: Severity, count: int) -> str:
    return "" if count == 1 or severity is Severity.ADVICE else "s"


def located_document(findings: Sequence[LocatedFinding]) -> Mapping[str, Any]:
    return {
        "findings": [
            {
                "severity": each.finding.severity.value,
                "code": each.finding.check,
                # The name of a file may be any bytes, which JSON can't have.
                "file": os.fsencode(each.file).decode("utf-8", "replace"),
                "line": each.line,
                "object": each.subject,
                "what": each.finding.what,
                "why": each.finding.why,
                "fix": each.finding.fix,
            }
            for each in findings
        ]
    }


def located_text(findings: Sequence[LocatedFinding], looked_at: str, screen: Screen) -> str:
    """Each finding under the place where it is, which terminals and editors jump to."""
    parts = []
    for each in findings:
        place = f"{printable(each.file)}:{each.line}: {printable(each.subject)}"
        parts.append(f"{place}\n{_lines(each.finding, screen)}")
    return "".join(parts) + _counts([each.finding for each in findings], looked_at)
