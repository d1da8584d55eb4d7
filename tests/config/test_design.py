"""The files that docs/design.md and CONTRIBUTING.md name, and the way of a request in them."""

import json
import re
import sys
from types import FrameType
from typing import Final

import pytest

from extender.model.objects import Node, RuntimeClass
from extender.server.app import create_app
from tests.asking import Client
from tests.processes import ROOT
from tests.unit.test_pages import service_of

EXTENDER: Final = ROOT / "extender"
DESIGN: Final = (ROOT / "docs" / "design.md").read_text()

#: For a request that is like an earlier one, without the modules of the connection.
MOST_MODULES: Final = 12


def test_the_tree_has_the_folders_that_there_are() -> None:
    tree = DESIGN.partition("## The tree")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", tree, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w/]+)/`", row)}
    folders = {str(path.parent.relative_to(EXTENDER)) for path in EXTENDER.rglob("*.py")} - {"."}
    assert named == folders


@pytest.mark.parametrize("page", ["docs/design.md", "CONTRIBUTING.md"])
def test_every_file_that_is_named_exists(page: str) -> None:
    """Files of the package are named from extender/, others from the root."""
    named = re.findall(r"`([\w/.-]+\.(?:py|c|sh))`", (ROOT / page).read_text())
    assert named
    places = (EXTENDER, ROOT)
    missing = [each for each in named if not any((top / each).is_file() for top in places)]
    assert missing == []


def test_the_walk_of_a_filter_request_has_the_modules_that_it_crosses() -> None:
    walk = DESIGN.partition("A filter request, ")[2].partition("A watch event ")[0]
    named = set(re.findall(r"`([\w/]+\.py)`", walk)) - {"server/connection.py"}
    kata = RuntimeClass("kata", "kata", (("sandbox", "kata"),))
    nodes = [Node("a", {"sandbox": "kata"}), Node("b")]
    client = Client(create_app(service_of(nodes, [kata])))
    pod = {"metadata": {"name": "p"}, "spec": {"runtimeClassName": "kata"}}
    body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": ["a", "b"]}, separators=(",", ":"))
    # The first request makes all that a process makes once.
    client.post("/filter", body.replace('"runtimeClassName":"kata"', ""))
    assert crossed(client, body) == named
    assert len(crossed(client, body)) <= MOST_MODULES


def crossed(client: Client, body: str) -> set[str]:
    """The modules that answer a filter request."""
    modules = set()

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(f"{EXTENDER}/"):
            modules.add(frame.f_code.co_filename.removeprefix(f"{EXTENDER}/"))

    sys.setprofile(called)
    try:
        answer = client.post("/filter", body)
    finally:
        sys.setprofile(None)
    assert (answer.status_code, answer.json["NodeNames"]) == (200, ["a"])
    return modules
