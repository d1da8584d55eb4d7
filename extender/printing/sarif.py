"""Findings as SARIF 2.1.0, which code hosts show beside the lines they are about.

Of the OASIS standard's log it has the tool with its rules, and a result for each finding.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from extender.checks.finding import LocatedFinding, Severity

_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)

_LEVELS: Final = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.ADVICE: "note",
}

#: The meaning of each code, for readers who see only the code.
RULES: Final[Mapping[str, str]] = {
    "class_required": "The namespace requires its pods to name a RuntimeClass.",
    "conflict": "The pod's nodeSelector contradicts its RuntimeClass's.",
    "contradicts_class": "What offers nodes contradicts a RuntimeClass that it looks meant for.",
    "daemonset_hangs": "A DaemonSet's pods would stay Pending on some of its nodes.",
    "feature": "No node offers a feature of the runtime that the pods need.",
    "fits_nowhere": "No node can run the pods.",
    "missing_toleration": "The pods would fit if they tolerated a taint.",
    "misspelt": "A field or kind looks misspelt, and means nothing as it is.",
    "node_feature": "No kubelet offers what the pods need.",
    "not_allowed": "The namespace does not allow the RuntimeClass.",
    "not_found": "The RuntimeClass does not exist.",
    "os": "No node that the pods could run on has their operating system.",
    "overhead": "The pod's overhead is not that of its RuntimeClass.",
    "refused": "Admission refuses the pods.",
    "resources": "No node has room for the pods and their RuntimeClass's overhead.",
    "unsupported": "The RuntimeClass does not support something that the pod uses.",
}


def sarif_document(findings: Sequence[LocatedFinding], version: str) -> Mapping[str, Any]:
    """A log of one run; version is this program's."""
    codes = sorted({each.finding.check for each in findings} | RULES.keys())
    number = {code: index for index, code in enumerate(codes)}
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "runtimeclass-extender",
                        "version": version,
                        "rules": [
                            {"id": code, "shortDescription": {"text": RULES.get(code, code)}}
                            for code in codes
                        ],
                    }
                },
                "results": [_result(each, number[each.finding.check]) for each in findings],
            }
        ],
    }


def _result(each: LocatedFinding, rule: int) -> Mapping[str, Any]:
    finding = each.finding
    # The summary of a scheduling attempt ends with a full stop already.
    why = finding.why.removesuffix(".")
    return {
        "ruleId": finding.check,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {
            "text": _without_links(
                f"{each.subject}: {finding.what}. Why: {why}. Fix: {finding.fix}"
            )
        },
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(each.file)},
                    "region": {"startLine": each.line},
                },
                "logicalLocations": [{"fullyQualifiedName": each.subject, "kind": "object"}],
            }
        ],
    }


def _uri(file: str) -> str:
    """A path as a reference: relative ones stay so, as code hosts want them.

    A name of a file may be any bytes.
    """
    path = file.removeprefix("./")
    quoted = quote(os.fsencode(path))
    return f"file://{quoted}" if path.startswith("/") else quoted


def _without_links(text: str) -> str:
    """Text in which no name makes a link: "[…](…)" is one, section 3.11.6."""
    return text.replace("](", "] (")
