"""What the documents show is what the commands print."""

import base64
import json
import re

import pytest

from extender.reasons import POD_SELECTOR, handler_absent, selector_mismatch
from tests.documented import rewritten
from tests.processes import ROOT


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/before.md",
        "docs/explain.md",
        "docs/runtimes.md",
        "docs/usage.md",
        "docs/verbs.md",
        "docs/webhook.md",
    ],
)
def test_the_outputs_in_a_document_are_real(name: str) -> None:
    text = (ROOT / name).read_text()
    assert rewritten(text) == text


def test_the_patch_that_is_shown_is_the_one_in_the_answer_above_it() -> None:
    text = (ROOT / "docs" / "webhook.md").read_text()
    answer, patch = re.findall(r'^(\{.*"patch":.*\}|\[\{"op".*\])$', text, re.MULTILINE)
    decoded = base64.b64decode(json.loads(answer)["response"]["patch"])
    assert json.loads(patch) == json.loads(decoded)


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
        "node(s) didn't satisfy plugin(s)",
        "does not parse and so",
    ],
)
def test_every_reason_is_shown(said: str) -> None:
    assert said in (ROOT / "docs" / "explain.md").read_text()


def test_the_first_paragraph_tells_which_event_comes_beside_the_plugin_and_which_instead() -> None:
    """Beside it NodeAffinity speaks first, and only explain names the class's label."""
    paragraphs = (ROOT / "README.md").read_text().split("\n\n")[1:]
    first = next(each for each in paragraphs if not each.startswith("!["))
    paragraph = " ".join(first.split())
    beside, instead = paragraph.split("Instead of the plugin, the event itself says so")
    selector = f"`5 {selector_mismatch('gvisor', (('sandbox', 'gvisor'),)).text}`"
    assert f"event still says `5 {POD_SELECTOR.text}`" in beside
    assert beside.index("Beside") < beside.index("event") < beside.index("`explain`")
    assert beside.index("`explain`") < beside.index(selector)
    assert f"`2 {handler_absent('gvisor', 'runsc').text}`" in instead
