"""Pods that a kubelet would reject are bound elsewhere, by the real kube-scheduler."""

from typing import Any

import pytest

from extender.kubernetes.versions import is_on
from tests.e2e.cluster import Cluster
from tests.e2e.test_scheduling import WOKEN_SECONDS
from tests.fakes.apiserver import NODES
from tests.processes import until


def kubelet(system: str, version: str = "v1.36.2", **status: Any) -> dict[str, Any]:
    """A node's status as its kubelet reports it."""
    return {"nodeInfo": {"operatingSystem": system, "kubeletVersion": version}, **status}


def handlers(users: bool) -> list[dict[str, Any]]:
    return [{"name": "", "features": {"userNamespaces": users, "recursiveReadOnlyMounts": True}}]


def test_a_pod_for_windows_goes_to_windows(either: Cluster) -> None:
    """kube-scheduler itself does not look at spec.os, and Linux nodes have as much room."""
    where = either
    for number in range(6):
        where.add_node(f"linux-{number}", {"kubernetes.io/os": "linux"}, **kubelet("linux"))
    where.add_node("windows", {"kubernetes.io/os": "windows"}, **kubelet("windows"))
    with where.scheduling():
        for number in range(5):
            where.add_pod(f"w{number}", os={"name": "windows"})
        assert {where.bound(f"w{number}") for number in range(5)} == {"windows"}


@pytest.mark.parametrize(
    ("spec", "lacking", "having", "text"),
    [
        pytest.param(
            {"securityContext": {"supplementalGroupsPolicy": "Strict"}},
            {"features": {"supplementalGroupsPolicy": False}},
            {"features": {"supplementalGroupsPolicy": True}},
            "1 nodes' kubelet lacks supplementalGroupsPolicy Strict",
            id="status.features",
        ),
        pytest.param(
            {"hostUsers": False},
            {"runtimeHandlers": handlers(False)},
            {"runtimeHandlers": handlers(True)},
            "1 nodes' default runtime handler lacks user namespaces",
            id="status.runtimeHandlers",
        ),
    ],
)
def test_a_node_that_tells_more_of_itself_wakes_the_pod(
    instead: Cluster,
    spec: dict[str, Any],
    lacking: dict[str, Any],
    having: dict[str, Any],
    text: str,
) -> None:
    """kube-scheduler wakes nobody for it: without --requeue-pods that takes 5 minutes."""
    version = (1, instead.minor)
    if not (is_on("UserNamespacesSupport", version) and is_on("SupplementalGroupsPolicy", version)):
        pytest.skip("kube-apiserver drops these fields by default before 1.33")
    instead.add_node("n1", **kubelet("linux", **lacking))
    with instead.scheduling("--requeue-pods"):
        instead.add_pod("web", **spec)
        assert text in instead.told("web")
        instead.patch(f"{NODES}/n1/status", {"status": having})
        until(lambda: instead.node_of("web") == "n1", WOKEN_SECONDS)
