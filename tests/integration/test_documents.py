"""What the documents show is what the commands print."""

import base64
import json
import re

import pytest

from extender.cli import COMMANDS
from extender.flags import PROGRAM
from extender.reasons import POD_SELECTOR, handler_absent, selector_mismatch
from tests import flag_table
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


def test_the_readme_tells_which_event_comes_beside_the_plugin_and_which_instead() -> None:
    """Beside it NodeAffinity speaks first, and only explain names the class's label."""
    paragraphs = (ROOT / "README.md").read_text().partition("\n## ")[0].split("\n\n")
    (about,) = (each for each in paragraphs if "admission plugin" in each)
    paragraph = " ".join(about.split())
    beside, instead = paragraph.split("Instead of the plugin, the event itself says so")
    selector = f"`5 {selector_mismatch('gvisor', (('sandbox', 'gvisor'),)).text}`"
    assert f"event still says `5 {POD_SELECTOR.text}`" in beside
    assert beside.index("Beside") < beside.index("event") < beside.index("`explain`")
    assert beside.index("`explain`") < beside.index(selector)
    assert f"`2 {handler_absent('gvisor', 'runsc').text}`" in instead


def test_every_flag_of_every_command_stands_in_the_table_of_flags() -> None:
    """`python -m tests.flag_table` writes it anew."""
    text = flag_table.PAGE.read_text()
    assert flag_table.rewritten(text) == text


def test_every_command_stands_in_the_table_of_commands() -> None:
    text = flag_table.PAGE.read_text()
    listed = {name for name in COMMANDS if f"| `{PROGRAM} {name}" in text}
    assert listed == set(COMMANDS)
