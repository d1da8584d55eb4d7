"""What docs/upgrade-and-removal.md says of versions of Kubernetes; findings are documented."""

import ast
import re
from typing import Any, Final

import pytest

from extender.checks.config_fields import Circumstances
from extender.checks.scheduler_config import check_scheduler_config
from tests.processes import ROOT

PAGE: Final = ROOT / "docs" / "upgrade-and-removal.md"
HEADING: Final = "## Kubernetes, minor version by minor version"

EXTENDER: Final = {
    "urlPrefix": "http://127.0.0.1:8888",
    "filterVerb": "filter",
    "preemptVerb": "preempt",
    "nodeCacheCapable": True,
}


def _rows() -> dict[str, list[str]]:
    """By version its cells: what changes, what to do, findings."""
    section = PAGE.read_text().partition(HEADING)[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (1\.\d+|later) \|(.*)\|$", section, re.MULTILINE)
    return {version: [cell.strip() for cell in rest.split(" | ")] for version, rest in rows}


def _findings(cell: str) -> set[str]:
    return set(re.findall(r"`([a-z-]+)`", cell))


def test_each_supported_version_of_kubernetes_has_a_row() -> None:
    assert list(_rows()) == [*(f"1.{minor}" for minor in range(30, 37)), "later"]
    assert {len(cells) for cells in _rows().values()} == {3}


@pytest.mark.parametrize(
    ("finding", "changed"),
    [
        ("node-cache", {"extenders": [{**EXTENDER, "nodeCacheCapable": False}]}),
        (
            "batching",
            {
                "profiles": [
                    {
                        "pluginConfig": [
                            {"name": "PodTopologySpread", "args": {"defaultingType": "List"}}
                        ]
                    }
                ]
            },
        ),
    ],
)
def test_a_finding_stands_in_the_row_of_the_first_version_that_has_it(
    finding: str, changed: dict[str, Any]
) -> None:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [EXTENDER],
        **changed,
    }
    first, *_ = (
        f"1.{minor}"
        for minor in range(30, 38)
        if finding
        in {
            each.check
            for each in check_scheduler_config(
                document, Circumstances(kubernetes_version=(1, minor))
            )
        }
    )
    with_it = [version for version, cells in _rows().items() if finding in _findings(cells[-1])]
    assert with_it == [first]


def test_every_finding_that_is_named_has_a_row_among_those_of_check() -> None:
    rows = [
        row.split("|")[1]
        for row in (ROOT / "docs" / "explain.md").read_text().splitlines()
        if row.startswith("| `")
    ]
    named = {name for cells in _rows().values() for name in _findings(cells[-1])}
    assert len(named) > 5
    assert sorted(name for name in named if not any(f"`{name}`" in row for row in rows)) == []


def test_every_finding_is_documented() -> None:
    """Those of clusters and configurations in explain.md, others in before.md and runtimes.md."""
    pages = "".join(
        (ROOT / "docs" / f"{name}.md").read_text() for name in ("explain", "before", "runtimes")
    )
    codes = {
        argument.value
        for path in (ROOT / "extender").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("Finding", "FileFinding")
        for argument in call.args[:3]
        if isinstance(argument, ast.Constant)
        and isinstance(argument.value, str)
        and re.fullmatch(r"[a-z]+(?:[-_][a-z]+)*", argument.value)
    }
    assert len(codes) > 40
    assert sorted(code for code in codes if f"`{code}`" not in pages) == []
