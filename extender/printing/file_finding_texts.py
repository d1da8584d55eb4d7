"""Findings about objects of files, as JSON and as text."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from extender.checks.file_finding import LocatedFinding
from extender.checks.finding import Finding
from extender.printable import printable
from extender.printing.finding_texts import counts_text, finding_lines
from extender.printing.tables import Screen


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
        parts.append(f"{place}\n{finding_lines(each.finding, screen)}")
    plain: list[Finding] = [each.finding for each in findings]
    return "".join(parts) + counts_text(plain, looked_at)
