"""Findings of `check` as text, as JSON, as JUnit XML and as SARIF.

The JUnit XML follows Jenkins's schema (junit-10.xsd of its xUnit plugin), which GitLab reads too.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote
from xml.etree import ElementTree as ET

from extender.cli.output import Colour, Screen, paragraph
from extender.model.finding import Finding, LocatedFinding, Severity
from extender.model.reasons import printable

_COLOURS: Final = {
    Severity.ERROR: Colour.BAD,
    Severity.WARNING: Colour.DOUBTFUL,
    Severity.ADVICE: Colour.QUIET,
}

_COPIED: Final = re.compile(r"(kubectl|curl) |[A-Za-z]+: ")


def finding_document(finding: Finding) -> dict[str, object]:
    return {
        "severity": finding.severity.value,
        "code": finding.check,
        "what": finding.what,
        "why": finding.why,
        "fix": finding.fix,
    }


def findings_text(findings: Sequence[Finding], looked_at: str, screen: Screen) -> str:
    """Each finding in three lines: what, why it matters, how to fix it; then the counts."""
    parts = [_lines(each, screen) for each in findings]
    return "".join(parts) + _counts(findings, looked_at)


def _lines(finding: Finding, screen: Screen) -> str:
    """One finding with its code, under which the documentation describes it, and an empty line."""
    label, fix = f"{finding.severity.value}: ", printable(finding.fix)
    what = f"{printable(finding.what)} [{finding.check}]"
    first = paragraph(screen, what, " " * len(label), label)
    return (
        first.replace(label, screen.paint(label, _COLOURS[finding.severity]), 1)
        + paragraph(screen, printable(finding.why), "       ", "  why: ")
        # A command or a field stays on one line, so that it can be copied.
        + (f"  fix: {fix}\n" if _COPIED.match(fix) else paragraph(screen, fix, " " * 7, "  fix: "))
        + "\n"
    )


def _counts(findings: Sequence[Finding], looked_at: str) -> str:
    counts = [
        f"{count} {severity.value}{'' if count == 1 or severity is Severity.ADVICE else 's'}"
        for severity in Severity
        if (count := sum(each.severity is severity for each in findings))
    ]
    return f"{', '.join(counts) or 'no findings'} in {printable(looked_at)}\n"


def located_document(findings: Sequence[LocatedFinding]) -> dict[str, object]:
    return {
        "findings": [
            {
                **finding_document(each.finding),
                # A file's name may be any bytes, but JSON must be UTF-8.
                "file": os.fsencode(each.file).decode("utf-8", "replace"),
                "line": each.line,
                "object": each.subject,
            }
            for each in findings
        ]
    }


def located_text(findings: Sequence[LocatedFinding], looked_at: str, screen: Screen) -> str:
    """Each finding under its file and line, to which terminals and editors can jump."""
    parts = []
    for each in findings:
        place = f"{printable(each.file)}:{each.line}: {printable(each.subject)}"
        parts.append(f"{place}\n{_lines(each.finding, screen)}")
    return "".join(parts) + _counts([each.finding for each in findings], looked_at)


def junit_text(
    judged: Sequence[tuple[str, str]], findings: Sequence[LocatedFinding], failing: Severity
) -> str:
    """JUnit XML. judged: each checked (file, object). failing: the least severity that fails."""
    by_file: dict[str, dict[str, list[LocatedFinding]]] = {}
    for file, subject in judged:
        by_file.setdefault(file, {})[subject] = []
    for each in findings:
        by_file[each.file][each.subject].append(each)
    root = ET.Element("testsuites")
    for file, cases in by_file.items():
        suite = ET.SubElement(root, "testsuite", name=printable(file), tests=str(len(cases)))
        for subject, found in cases.items():
            names = {"name": printable(subject), "classname": printable(file)}
            _fill_case(ET.SubElement(suite, "testcase", names), found, failing)
        suite.set("failures", str(len(suite.findall("testcase[failure]"))))
        suite.set("errors", "0")
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _fill_case(case: ET.Element, found: Sequence[LocatedFinding], failing: Severity) -> None:
    fails = [each for each in found if each.finding.severity.is_at_least(failing)]
    for each in fails:
        about = {"type": each.finding.check, "message": printable(each.finding.what)}
        ET.SubElement(case, "failure", about).text = _told(each)
    others = [_told(each) for each in found if each not in fails]
    if others:
        ET.SubElement(case, "system-out").text = "\n".join(others)


def _told(each: LocatedFinding) -> str:
    finding = each.finding
    return printable(
        f"{each.file}:{each.line}: {finding.severity.value}: {finding.what}"
        f" | why: {finding.why} | fix: {finding.fix}"
    )


_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)

_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "note"}


def sarif_document(findings: Sequence[LocatedFinding], version: str) -> Mapping[str, Any]:
    """A SARIF log of one run. version: this program's version."""
    codes = sorted({each.finding.check for each in findings})
    rules = [{"id": each, "shortDescription": {"text": each.replace("_", " ")}} for each in codes]
    driver = {"name": "runtimeclass-extender", "version": version, "rules": rules}
    results = [_result(each, codes.index(each.finding.check)) for each in findings]
    runs = [{"tool": {"driver": driver}, "results": results}]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": runs}


def _result(each: LocatedFinding, rule: int) -> Mapping[str, Any]:
    finding = each.finding
    # The summary of a scheduling attempt already ends with a full stop.
    why = finding.why.removesuffix(".")
    text = f"{each.subject}: {finding.what}. Why: {why}. Fix: {finding.fix}"
    region = {"startLine": each.line}
    place = {"artifactLocation": {"uri": _uri(each.file)}, "region": region}
    subject = {"fullyQualifiedName": each.subject, "kind": "object"}
    return {
        "ruleId": finding.check,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        # A name must not become a link: in SARIF "[…](…)" is one (section 3.11.6).
        "message": {"text": text.replace("](", "] (")},
        "locations": [{"physicalLocation": place, "logicalLocations": [subject]}],
    }


def _uri(file: str) -> str:
    """A path of any bytes as a URI reference. Relative paths stay relative for code hosts."""
    path = file.removeprefix("./")
    quoted = quote(os.fsencode(path))
    return f"file://{quoted}" if path.startswith("/") else quoted
