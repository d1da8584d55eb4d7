"""explain tells a pod that needs a declared feature what the real kube-scheduler tells it."""

import json
from typing import Any

import pytest

from extender.kubernetes.versions import is_on
from tests.e2e.cluster import Cluster
from tests.processes import run, until

FEATURE = "RestartAllContainersOnContainerExits"
RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}


@pytest.mark.parametrize(
    "declared",
    [
        pytest.param([None, None], id="none declares anything"),
        pytest.param([None, ["ExtendWebSocketsToKubelet"]], id="none declares this"),
        pytest.param([None, [FEATURE]], id="one declares it"),
    ],
)
def test_the_event_and_the_explanation_agree(
    instead: Cluster, declared: list[list[str] | None]
) -> None:
    if not is_on("NodeDeclaredFeatures", (1, instead.minor)):
        pytest.skip("kube-scheduler looks at declared features by default since 1.36")
    for number, features in enumerate(declared):
        status: dict[str, Any] = {"declaredFeatures": features} if features else {}
        instead.add_node(f"n{number}", **status)
    container = {"name": "c", "image": "x", "restartPolicy": "Never", "restartPolicyRules": [RULE]}
    with instead.scheduling():
        instead.add_pod("web", containers=[container])
        until(lambda: bool(instead.node_of("web") or instead.message_of("web")))
        message = instead.message_of("web")
    admin = str(instead.kubeconfig("admin"))
    answer = json.loads(run("explain", "default/web", "--kubeconfig", admin, "-ojson").stdout)
    if [FEATURE] in declared:
        assert (answer["feasible"], instead.node_of("web")) == (1, "n1")
    else:
        assert answer["feasible"] == 0
        assert message.startswith(answer["summary"])
