"""What prioritize and preempt change in the real kube-scheduler's decisions."""

from collections import Counter

import pytest

from tests.e2e.cluster import PODS, Cluster
from tests.processes import until


@pytest.mark.parametrize(
    ("verb", "evicts"),
    [pytest.param("", True, id="without the verb"), pytest.param("preempt", False, id="with it")],
)
def test_no_pod_is_evicted_from_a_node_that_the_class_does_not_match(
    instead: Cluster, verb: str, evicts: bool
) -> None:
    with instead.serving() as server, instead.scheduler(server.url, preemptVerb=verb):
        instead.add_a_victim_elsewhere()

        def is_evicted() -> bool:
            status, pod = instead.request("GET", f"{PODS}/low")
            return status == 404 or "deletionTimestamp" in pod["metadata"]

        if evicts:
            until(is_evicted)
            assert instead.node_of("new") == ""
        else:
            until(lambda: "preemption: " in instead.message_of("new"))
            print(instead.message_of("new"))
            assert not is_evicted()
            assert "nominatedNodeName" not in instead.pod("new")["status"]


def test_plain_pods_leave_special_nodes_free_while_ordinary_ones_have_room(
    instead: Cluster,
) -> None:
    for number in range(6):
        instead.add_node(f"plain-{number}")
    for number in range(4):
        instead.add_node(f"special-{number}", {"sandbox": "gvisor"})
    instead.add_class("gvisor", "runsc", {"sandbox": "gvisor"})
    pods = [f"p{number}" for number in range(36)]
    with instead.scheduling():
        for pod in pods:
            instead.add_pod(pod)
        until(lambda: all(instead.node_of(pod) for pod in pods))
        instead.add_pod("sandboxed", "gvisor")
        until(lambda: bool(instead.node_of("sandboxed")))
    used = Counter(instead.node_of(pod).partition("-")[0] for pod in pods)
    print(dict(used))
    assert used == {"plain": 36}
    assert instead.node_of("sandboxed").startswith("special-")
