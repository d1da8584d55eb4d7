"""Findings as JUnit XML, which CI servers show as tests, one for each object.

As Jenkins's schema (junit-10.xsd of its xUnit plugin) has it, which GitLab reads too.
"""

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from extender.checks.finding import LocatedFinding, Severity
from extender.printable import printable


def junit_text(
    judged: Sequence[tuple[str, str]], findings: Sequence[LocatedFinding], failing: Severity
) -> str:
    """The document.

    judged: (file, object) of everything that was checked. failing: the least severity that fails a
    test; lesser findings are in the test's output.
    """
    by_object: dict[tuple[str, str], list[LocatedFinding]] = {each: [] for each in judged}
    for each in findings:
        by_object.setdefault((each.file, each.subject), []).append(each)
    by_file: dict[str, list[tuple[str, list[LocatedFinding]]]] = {}
    for (file, subject), found in by_object.items():
        by_file.setdefault(file, []).append((subject, found))
    root = ET.Element("testsuites")
    for file, cases in by_file.items():
        suite = ET.SubElement(root, "testsuite", name=_text(file), tests=str(len(cases)))
        failed = sum(_add_case(suite, file, subject, found, failing) for subject, found in cases)
        suite.set("failures", str(failed))
        suite.set("errors", "0")
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _add_case(
    suite: ET.Element,
    file: str,
    subject: str,
    found: Sequence[LocatedFinding],
    failing: Severity,
) -> bool:
    case = ET.SubElement(suite, "testcase", name=_text(subject), classname=_text(file))
    fails = [each for each in found if each.finding.severity.is_at_least(failing)]
    for each in fails:
        failure = ET.SubElement(
            case, "failure", type=_text(each.finding.check), message=_text(each.finding.what)
        )
        failure.text = _told(each)
    others = [each for each in found if each not in fails]
    if others:
        ET.SubElement(case, "system-out").text = "\n".join(map(_told, others))
    return bool(fails)


def _told(each: LocatedFinding) -> str:
    finding = each.finding
    return _text(
        f"{each.file}:{each.line}: {finding.severity.value}: {finding.what}"
        f" | why: {finding.why} | fix: {finding.fix}"
    )


def _text(text: str) -> str:
    """Text that XML allows: no control characters and no lone surrogates."""
    return printable(text)
