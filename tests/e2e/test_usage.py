"""What runs where, and what may be changed, on a real kube-apiserver under the viewer's rights."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.config.shipped import INSTALL
from tests.e2e.cluster import PODS, Cluster
from tests.fakes.apiserver import RUNTIME_CLASSES
from tests.processes import run, until

DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
VIEWERS: Final = "/api/v1/namespaces/default/serviceaccounts"
LABEL: Final = {"node-restriction.kubernetes.io/sandbox": "kata"}


class Viewer:
    """The commands as somebody who has the shipped ClusterRole and nothing else."""

    def __init__(self, cluster: Cluster, kubeconfig: Path) -> None:
        self.cluster = cluster
        self._flags = ("--kubeconfig", str(kubeconfig), "-o", "json")

    def ask(self, *words: str) -> tuple[int, Any]:
        result = run(*words, *self._flags)
        assert result.stderr == "", result.stderr
        return result.returncode, json.loads(result.stdout)

    def states(self) -> dict[str, tuple[str, str]]:
        code, document = self.ask("pods", "-n", "default")
        assert code == 0
        return {each["name"]: (each["state"], each["reason"]) for each in document["items"]}


@pytest.fixture
def viewer(beside: Cluster, tmp_path: Path) -> Iterator[Viewer]:
    beside.apply((INSTALL / "viewer.yaml").read_text())
    beside.create(VIEWERS, {"metadata": {"name": "somebody"}})
    somebody = "--serviceaccount=default:somebody"
    beside.make("clusterrolebinding", "somebody", "--clusterrole=runtimeclass-viewer", somebody)
    kubeconfig = beside.account_kubeconfig("default", "somebody", tmp_path / "kubeconfig")
    yield Viewer(beside, kubeconfig)
    beside.kubectl("delete", "clusterrolebinding", "somebody")
    for path in (f"{VIEWERS}/somebody", f"{DEPLOYMENTS}/web"):
        beside.delete(path)


def bind(cluster: Cluster, pod: str, node: str) -> None:
    """What a scheduler does in the end."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    cluster.create(f"{PODS}/{pod}/binding", {"metadata": {"name": pod}, "target": target})


def add_class(cluster: Cluster, name: str, handler: str) -> None:
    cluster.create(
        RUNTIME_CLASSES,
        {
            "metadata": {"name": name},
            "handler": handler,
            "overhead": {"podFixed": {"memory": "160Mi"}},
            "scheduling": {"nodeSelector": LABEL},
        },
    )


def test_pods_of_a_class_that_is_created_anew_with_another_handler_have_drifted(
    viewer: Viewer,
) -> None:
    cluster = viewer.cluster
    cluster.add_node("n1", LABEL, handlers=["", "kata", "kata-clh"])
    add_class(cluster, "kata", "kata")
    cluster.add_pod("old", "kata")
    bind(cluster, "old", "n1")
    assert viewer.states()["old"] == ("running", "")
    cluster.delete(f"{RUNTIME_CLASSES}/kata")
    assert viewer.states()["old"][0] == "stranded"
    scheduled = cluster.pod("old")["status"]["conditions"][0]["lastTransitionTime"]

    def created_later() -> bool:
        """Times are whole seconds: within the same one nobody can tell."""
        cluster.delete(f"{RUNTIME_CLASSES}/kata")
        add_class(cluster, "kata", "kata-clh")
        made = cluster.get(f"{RUNTIME_CLASSES}/kata")["metadata"]["creationTimestamp"]
        return bool(made > scheduled)

    until(created_later)
    cluster.add_pod("new", "kata")
    bind(cluster, "new", "n1")
    states = viewer.states()
    assert states["old"][0] == "drifted"
    assert "was created after the pod had its node" in states["old"][1]
    assert states["new"] == ("running", "")
