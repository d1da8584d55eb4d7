"""To the real kube-scheduler --reasons unplaced makes no difference."""

import re
from typing import Any, Final

import pytest

from tests.e2e.cluster import PODS, Cluster, sized
from tests.e2e.test_groups import asking
from tests.processes import until

Json = dict[str, Any]

OURS: Final = 'nodes don\'t match RuntimeClass "gvisor" (nodeSelector sandbox=gvisor)'


@pytest.fixture(params=[True, False], ids=["names", "whole nodes"])
def by_name(request: pytest.FixtureRequest) -> bool:
    """nodeCacheCapable."""
    return bool(request.param)


def add_nodes(cluster: Cluster) -> None:
    """Of each sort two; only those of the first match the class."""
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    for number in range(2):
        cluster.add_node(f"sandbox-{number}", {"sandbox": "gvisor"})
        cluster.add_node(f"kata-{number}", {"sandbox": "kata"})
        cluster.add_node(f"tainted-{number}", {"sandbox": "gvisor"}, taints=[taint])
        cluster.add_node(f"plain-{number}")
    cluster.add_class("gvisor", "runsc", {"sandbox": "gvisor"})
    cluster.add_class("wasm", "wasm", {"sandbox": "gvisor", "wasm": "true"})


def evicted(cluster: Cluster, name: str) -> bool:
    return "deletionTimestamp" in cluster.pod(name)["metadata"]


def told(cluster: Cluster, name: str) -> tuple[str, str]:
    """The event and the condition of a pod that was refused."""
    until(lambda: bool(cluster.event_of(name) and cluster.message_of(name)))
    # Of two nodes that are alike, preemption takes either; and the pod may have been tried once
    # more while its victim was still ending.
    event, message = (
        re.sub(r"preemption: (found a potential placement|not eligible) .*", "preemption", text)
        for text in (cluster.event_of(name), cluster.message_of(name))
    )
    return event, message


def test_pods_are_placed_evicted_and_told_of_alike(instead: Cluster, by_name: bool) -> None:
    """Events and conditions byte for byte; a pod evicts from the node of its class alone."""
    instead.add_priorities()
    add_nodes(instead)
    found = []
    for reasons in ("always", "unplaced"):
        with (
            instead.serving(f"--reasons={reasons}") as server,
            instead.kube_scheduler(asking(server, by_name=by_name)),
        ):
            instead.add_pod("web", "gvisor")
            instead.add_pod("nowhere", "wasm")
            until(lambda: instead.node_of("web").startswith("sandbox-"))
            events = [told(instead, "nowhere")]
            low: Json = {"containers": sized("60"), "priorityClassName": "low"}
            # Both nodes of the class are full: others have room, and are refused.
            for number in range(2):
                where = {"kubernetes.io/hostname": f"sandbox-{number}"}
                instead.add_pod(f"low-{number}", **low, nodeSelector=where)
            until(lambda: all(instead.node_of(f"low-{number}") for number in range(2)))
            instead.add_pod("new", "gvisor", containers=sized("60"), priorityClassName="high")
            until(lambda: any(evicted(instead, f"low-{number}") for number in range(2)))
            events.append(told(instead, "new"))
            for number in range(2):
                if evicted(instead, f"low-{number}"):
                    instead.delete(f"{PODS}/low-{number}")
                    victim = number
            until(lambda: bool(instead.node_of("new")))
            assert instead.node_of("new") == f"sandbox-{victim}"
        for pod in ("web", "nowhere", "new", f"low-{1 - victim}"):
            instead.delete(f"{PODS}/{pod}")
        found.append(events)
        instead.clear_events()
    print(found[0])
    assert '2 nodes don\'t match RuntimeClass "wasm" (nodeSelector wasm=true)' in found[0][0][0]
    assert f"4 {OURS}" in found[0][1][0]
    assert found[0] == found[1]
