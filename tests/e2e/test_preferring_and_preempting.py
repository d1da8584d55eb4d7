"""What prioritize and preempt change in the real kube-scheduler's decisions."""

from collections import Counter
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import Scheduling
from tests.processes import running, until

PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def _big(cpu: str) -> list[dict[str, Any]]:
    requests = {"requests": {"cpu": cpu}}
    return [{"name": "c", "image": "registry.example/none", "resources": requests}]


def _make_priorities(cluster: Cluster) -> None:
    for name, value in (("low", 1), ("middle", 100), ("high", 1000)):
        status, answer = cluster.request(
            "POST", PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value}
        )
        assert status in (201, 409), answer


@pytest.mark.parametrize(
    ("verb", "evicts"),
    [pytest.param("", True, id="without the verb"), pytest.param("preempt", False, id="with it")],
)
def test_no_pod_is_evicted_from_a_node_that_the_class_does_not_match(
    instead: Cluster, verb: str, evicts: bool
) -> None:
    """A pod of class gvisor fits nowhere; the one pod of lower priority runs on another node."""
    _make_priorities(instead)
    instead.add_node("sandbox", {"sandbox": "gvisor"})
    instead.add_node("plain")
    instead.add_class("gvisor", "runsc", {"sandbox": "gvisor"})
    kubeconfig = str(instead.kubeconfig("extender"))
    with (
        running("serve", "--bind", "127.0.0.1:0", "--kubeconfig", kubeconfig) as server,
        instead.scheduler(server.url, preemptVerb=verb),
    ):
        until(lambda: server.request("GET", "/readyz")[0] == 200)
        instead.add_pod(
            "equal",
            containers=_big("60"),
            priorityClassName="high",
            nodeSelector={"sandbox": "gvisor"},
        )
        until(lambda: instead.node_of("equal") == "sandbox")
        instead.add_pod("low", containers=_big("60"), priorityClassName="low")
        until(lambda: instead.node_of("low") == "plain")
        instead.add_pod("new", "gvisor", containers=_big("60"), priorityClassName="high")

        def is_evicted() -> bool:
            status, pod = instead.request("GET", "/api/v1/namespaces/default/pods/low")
            return status == 404 or "deletionTimestamp" in pod["metadata"]

        if evicts:
            until(is_evicted)
            assert instead.node_of("new") == ""
        else:
            until(lambda: "preemption: " in instead.message_of("new"))
            print(instead.message_of("new"))
            assert not is_evicted()
            status, answer = instead.request("GET", "/api/v1/namespaces/default/pods/new")
            assert status == 200
            assert "nominatedNodeName" not in answer["status"]


def test_plain_pods_leave_special_nodes_free_while_ordinary_ones_have_room(
    instead: Cluster, scheduling: Scheduling
) -> None:
    for number in range(6):
        instead.add_node(f"plain-{number}")
    for number in range(4):
        instead.add_node(f"special-{number}", {"sandbox": "gvisor"})
    instead.add_class("gvisor", "runsc", {"sandbox": "gvisor"})
    pods = [f"p{number}" for number in range(36)]
    with scheduling(instead):
        for pod in pods:
            instead.add_pod(pod)
        until(lambda: all(instead.node_of(pod) for pod in pods))
        instead.add_pod("sandboxed", "gvisor")
        until(lambda: bool(instead.node_of("sandboxed")))
    used = Counter(instead.node_of(pod).partition("-")[0] for pod in pods)
    print(dict(used))
    assert used == {"plain": 36}
    assert instead.node_of("sandboxed").startswith("special-")
