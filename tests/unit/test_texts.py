"""Texts are made where CONTRIBUTING says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "extender"


def modules_that_have(pattern: str) -> set[str]:
    return {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(pattern, path.read_text())
    }


def test_a_reason_becomes_text_in_one_place() -> None:
    assert modules_that_have(r"(?<!class )(?<!\w)Reason\(") == {"reasons.py"}


@pytest.mark.parametrize(
    ("what", "places"),
    [
        pytest.param(
            r"(?<!\w)Finding\($",
            ["checks/", "commands/probing.py", "commands/checking_files.py"],
            id="findings",
        ),
        pytest.param(r"pod rejected: ", ["admission/merging.py"], id="refusals"),
        pytest.param(r"def warnings_of\(", ["verbs/explain/warnings.py"], id="warnings"),
    ],
)
def test_other_texts_are_made_where_contributing_says(what: str, places: list[str]) -> None:
    told = (ROOT / "CONTRIBUTING.md").read_text()
    assert all(f"`{place}`" in told for place in places)
    found = modules_that_have(f"(?m){what}")
    assert found
    assert all(module.startswith(tuple(places)) for module in found)
