"""What a real kubelet and containerd report is what the commands say."""

import json
from typing import Any

import pytest

from tests.node.conftest import CLASSES
from tests.node.node import HANDLERS, NAME, Node
from tests.processes import run


def _asked(node: Node, *words: str) -> Any:
    """What a command prints as JSON, whatever its verdict."""
    done = run(*words, "-o", "json", env={"KUBECONFIG": str(node.kubeconfig)})
    assert done.stderr == "", done.stderr
    return json.loads(done.stdout)


def test_the_node_reports_the_handlers_that_are_configured_working_or_not(node: Node) -> None:
    status = node.get("node", NAME)["status"]
    assert {each["name"] for each in status["runtimeHandlers"]} == {"", *HANDLERS}
    assert status["features"] == {"supplementalGroupsPolicy": True}
    assert status["declaredFeatures"]


@pytest.mark.parametrize("name", CLASSES)
def test_nodes_and_classes_name_the_node_where_it_reports_the_handler(
    node: Node, name: str
) -> None:
    matching = int(name in HANDLERS)
    answer = _asked(node, "nodes", name)
    assert answer["matching"] == [NAME] * matching
    refusals = [(each["code"], each["nodes"]) for each in answer["notMatching"]]
    assert refusals == [("handler", [NAME])] * (1 - matching)
    (line,) = (each for each in _asked(node, "classes")["items"] if each["name"] == name)
    assert line["nodes"] == {"matching": matching, "ready": matching, "total": 1}


def test_check_finds_the_missing_handler_and_suspects_the_one_whose_program_is_missing(
    node: Node,
) -> None:
    found = _asked(node, "check")["findings"]
    told = {each["code"]: each["what"] for each in found}
    assert set(told) == {"no-matching-node", "unreported-handler", "featureless-handler"}
    assert '"late"' in told["no-matching-node"]
    assert '"late"' in told["unreported-handler"]
    assert "reports handler broken without any feature" in told["featureless-handler"]
