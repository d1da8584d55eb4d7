"""Findings of `check`, as JSON and as text."""

from collections.abc import Sequence
from typing import Final

from extender.checks.finding import Finding, Severity
from extender.printing.tables import Colour, Screen, paragraph

_COLOURS: Final = {
    Severity.ERROR: Colour.BAD,
    Severity.WARNING: Colour.DOUBTFUL,
    Severity.ADVICE: Colour.QUIET,
}


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
    """Each finding in three lines: what, why it hurts, what mends it; then how many."""
    parts = []
    for each in findings:
        label = f"{each.severity.value}: "
        first = paragraph(screen, _printable(each.what), " " * len(label), label)
        parts.append(first.replace(label, screen.paint(label, _COLOURS[each.severity]), 1))
        parts.append(paragraph(screen, _printable(each.why), "       ", "  why: "))
        # Not wrapped: it is meant to be copied.
        parts.append(f"  fix: {_printable(each.fix)}\n\n")
    counts = [
        f"{count} {severity.value}{_plural(severity, count)}"
        for severity in Severity
        if (count := sum(each.severity is severity for each in findings))
    ]
    parts.append(f"{', '.join(counts) or 'no findings'} in {looked_at}\n")
    return "".join(parts)


def _plural(severity: Severity, count: int) -> str:
    return "" if count == 1 or severity is Severity.ADVICE else "s"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
