"""A node where pods of a class never get their sandbox, with the real scheduler and API server."""

import json
from datetime import UTC, datetime

import pytest

from tests.e2e.cluster import EVENTS, PODS, Cluster
from tests.processes import run, until

NODES = [f"n{number}" for number in range(4)]


def sandbox(cluster: Cluster, pod: str, status: str) -> None:
    """What the kubelet writes of a pod's sandbox; this cluster has none."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    kind = "PodReadyToStartContainers"
    condition = {"type": kind, "status": status, "lastTransitionTime": now}
    cluster.patch(f"{PODS}/{pod}/status", {"status": {"conditions": [condition]}})


def on(node: str) -> dict[str, dict[str, str]]:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


@pytest.mark.parametrize("mode", ["score", "refuse"])
def test_the_next_pods_go_elsewhere_and_come_back_after_one_has_started(
    instead: Cluster, mode: str
) -> None:
    for name in NODES:
        instead.add_node(name, {"sandbox": "kata"}, handlers=["kata-qemu"])
    instead.add_class("kata", "kata-qemu", {"sandbox": "kata"})
    flags = ("--requeue-pods", "--distrust", mode, "--distrust-after", "1")
    with instead.serving(*flags) as server, instead.scheduler(server.url, weight=100):

        def suspects() -> bool:
            return b'suspect_nodes{runtimeclass="kata"} 1.0' in server.request("GET", "/metrics")[1]

        for pod in "ab":
            instead.add_pod(pod, "kata", **on("n0"))
            until(lambda pod=pod: instead.node_of(pod) == "n0")  # type: ignore[misc]
            sandbox(instead, pod, "False")
        until(suspects)
        nexts = [f"next{number}" for number in range(6)]
        for pod in nexts:
            instead.add_pod(pod, "kata")
        until(lambda: all(map(instead.node_of, nexts)))
        print(mode, sorted(map(instead.node_of, nexts)))
        assert "n0" not in map(instead.node_of, nexts)
        answer = run("nodes", "kata", "-o", "json", "--server", server.url).stdout
        failed = {"n0": ['runtime handler "kata-qemu" failed to start 2 pods']}
        assert json.loads(answer)["state"] == failed
        instead.add_pod("here", "kata", **on("n0"))
        if mode == "refuse":
            text = 'runtime handler "kata-qemu" failed to start 2 pods'
            until(lambda: text in instead.message_of("here"))
            print(instead.message_of("here"))
        sandbox(instead, "a", "True")
        until(lambda: not suspects())
        until(lambda: instead.node_of("here") == "n0")
        events = instead.get(EVENTS)["items"]
        told = [e for e in events if e["involvedObject"]["kind"] == "Node"]
        assert {(e["involvedObject"]["name"], e["type"], e["reason"]) for e in told} == {
            ("n0", "Warning", "RuntimeHandlerSuspect"),
            ("n0", "Normal", "RuntimeHandlerTrusted"),
        }
