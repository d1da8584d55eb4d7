"""Findings of `check`, as JSON and as text."""

import re
from collections.abc import Sequence
from typing import Final

from extender.checks.finding import Finding, Severity
from extender.printable import printable
from extender.printing.tables import Colour, Screen, paragraph

_COLOURS: Final = {
    Severity.ERROR: Colour.BAD,
    Severity.WARNING: Colour.DOUBTFUL,
    Severity.ADVICE: Colour.QUIET,
}

_COPIED: Final = re.compile(r"(kubectl|curl) |[A-Za-z]+: ")


def findings_document(findings: Sequence[Finding]) -> dict[str, object]:
    return {
        "findings": [
            {
                "severity": each.severity.value,
                "check": each.check,
                "what": each.what,
                "why": each.why,
                "fix": each.fix,
            }
            for each in findings
        ]
    }


def findings_text(findings: Sequence[Finding], looked_at: str, screen: Screen) -> str:
    """Each finding in three lines: what, why it matters, how to fix it; then their number."""
    parts = []
    for each in findings:
        label = f"{each.severity.value}: "
        first = paragraph(screen, printable(each.what), " " * len(label), label)
        parts.append(first.replace(label, screen.paint(label, _COLOURS[each.severity]), 1))
        parts.append(paragraph(screen, printable(each.why), "       ", "  why: "))
        parts.append(_fix(screen, printable(each.fix)) + "\n")
    counts = [
        f"{count} {severity.value}{_plural(severity, count)}"
        for severity in Severity
        if (count := sum(each.severity is severity for each in findings))
    ]
    parts.append(f"{', '.join(counts) or 'no findings'} in {printable(looked_at)}\n")
    return "".join(parts)


def _fix(screen: Screen, text: str) -> str:
    """On one line if it is a command or a field, to be copied."""
    if _COPIED.match(text):
        return f"  fix: {text}\n"
    return paragraph(screen, text, "       ", "  fix: ")


def _plural(severity: Severity, count: int) -> str:
    return "" if count == 1 or severity is Severity.ADVICE else "s"
