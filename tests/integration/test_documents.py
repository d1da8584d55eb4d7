"""What the documents show is what the commands print."""

import pytest

from tests.documented import rewritten
from tests.processes import ROOT


@pytest.mark.parametrize("name", ["README.md", "docs/explain.md", "docs/verbs.md"])
def test_the_outputs_in_a_document_are_real(name: str) -> None:
    text = (ROOT / name).read_text()
    assert rewritten(text) == text


@pytest.mark.parametrize(
    "said",
    [
        "(nodeSelector ",
        "(untolerated taint ",
        '(no runtime handler "',
        "(runtime handlers not",
        "lacks user",
        " conflicts with ",
        "(RuntimeClass not",
        "not yet known to the RuntimeClass extender",
        "didn't match Pod's node affinity/selector",
        "node(s) had untolerated taint(s)",
        "node(s) were unschedulable",
    ],
)
def test_every_reason_is_shown(said: str) -> None:
    assert said in (ROOT / "docs" / "explain.md").read_text()
