"""What runs where, and what may be changed, on a real kube-apiserver under the viewer's rights."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.config.kustomize import printed
from tests.config.shipped import FOLDER
from tests.e2e.cluster import PODS, Cluster
from tests.fakes.apiserver import NODES, RUNTIME_CLASSES
from tests.processes import run, until

DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
VIEWERS: Final = "/api/v1/namespaces/default/serviceaccounts"
BINDINGS: Final = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
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
    beside.apply(printed(FOLDER / "viewer"))
    beside.create(VIEWERS, {"metadata": {"name": "somebody"}})
    beside.create(
        BINDINGS,
        {
            "metadata": {"name": "somebody"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "runtimeclass-viewer",
            },
            "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "somebody"}],
        },
    )
    kubeconfig = beside.account_kubeconfig("default", "somebody", tmp_path / "kubeconfig")
    yield Viewer(beside, kubeconfig)
    for path in (f"{BINDINGS}/somebody", f"{VIEWERS}/somebody", f"{DEPLOYMENTS}/web"):
        beside.delete(path)


def bind(cluster: Cluster, pod: str, node: str) -> None:
    """What a scheduler does in the end."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    cluster.create(f"{PODS}/{pod}/binding", {"metadata": {"name": pod}, "target": target})


def set_handlers(cluster: Cluster, node: str, *handlers: str) -> None:
    reported = [{"name": each} for each in handlers]
    cluster.patch(f"{NODES}/{node}/status", {"status": {"runtimeHandlers": reported}})


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


def test_a_handler_withdrawn_from_a_node_strands_its_pods(viewer: Viewer) -> None:
    cluster = viewer.cluster
    cluster.add_node("n1", LABEL, handlers=["", "kata"])
    cluster.add_node("n2", LABEL, handlers=["", "kata"])
    add_class(cluster, "kata", "kata")
    for pod, node in (("a", "n1"), ("b", "n2")):
        cluster.add_pod(pod, "kata")
        bind(cluster, pod, node)
    cluster.add_pod("waits", "kata")
    assert {name: state for name, (state, _) in viewer.states().items()} == {
        "a": "running",
        "b": "running",
        "waits": "pending",
    }
    set_handlers(cluster, "n1", "", "runc")
    states = viewer.states()
    reason = 'nodes don\'t match RuntimeClass "kata" (no runtime handler "kata")'
    assert states["a"] == ("stranded", reason)
    assert states["b"] == ("running", "")
    assert viewer.ask("pods", "-A", "--stranded")[0] == 1
    (kata,) = viewer.ask("classes")[1]["items"]
    assert kata["pods"] == {"running": 2, "pending": 1, "stranded": 1, "drifted": 0}
    assert (kata["nodes"], kata["overhead"]) == (
        {"matching": 1, "ready": 1, "total": 2},
        {"memory": "320Mi"},
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


def test_can_delete_and_rollout_follow_a_class_to_its_end(viewer: Viewer) -> None:
    # Other tests of this cluster leave namespaces whose default is kata.
    cluster = viewer.cluster
    pool = {**LABEL, "eks.amazonaws.com/nodegroup": "sandbox"}
    for name in ("n1", "n2"):
        cluster.add_node(name, pool, handlers=["", "kata"])
    add_class(cluster, "sandboxed", "kata")
    add_class(cluster, "sandboxed-v2", "kata-clh")
    labels = {"matchLabels": {"app": "web"}}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "runtimeClassName": "sandboxed",
            "containers": [{"name": "c", "image": "x.example/x"}],
        },
    }
    cluster.create(
        DEPLOYMENTS,
        {"metadata": {"name": "web"}, "spec": {"selector": labels, "template": template}},
    )
    cluster.add_pod("web-1", "sandboxed")
    bind(cluster, "web-1", "n1")
    web = {"kind": "Deployment", "namespace": "default", "name": "web"}
    code, document = viewer.ask("can-delete", "sandboxed")
    pod = {"kind": "Pod", "namespace": "default", "name": "web-1"}
    assert (code, document["uses"]) == (1, [web, pod])
    assert viewer.ask("can-delete", "sandboxed-v2")[0] == 0
    code, document = viewer.ask("rollout", "sandboxed", "sandboxed-v2")
    assert (code, document["done"], document["workloads"]) == (1, False, [web])
    (sandbox,) = document["pools"]
    assert (sandbox["pool"], sandbox["ready"], sandbox["total"]) == ("sandbox", 0, 2)
    assert sandbox["drain"] == "n2"
    for node in ("n2", "n1"):
        set_handlers(cluster, node, "", "kata-clh")
    named = {"spec": {"template": {"spec": {"runtimeClassName": "sandboxed-v2"}}}}
    cluster.patch(f"{DEPLOYMENTS}/web", named)
    assert viewer.ask("rollout", "sandboxed", "sandboxed-v2")[0] == 1, (
        "web-1 still runs the old class"
    )
    cluster.delete(f"{PODS}/web-1")
    code, document = viewer.ask("rollout", "sandboxed", "sandboxed-v2")
    assert (code, document["done"], document["pools"][0]["ready"]) == (0, True, 2)
    assert viewer.ask("can-delete", "sandboxed")[0] == 0


def test_without_a_right_each_command_names_the_one_that_is_missing(
    viewer: Viewer, tmp_path: Path
) -> None:
    cluster = viewer.cluster
    add_class(cluster, "kata", "kata")
    add_class(cluster, "kata-v2", "kata")
    cluster.add_node("n1", LABEL)
    cluster.delete(f"{BINDINGS}/somebody")
    cluster.create(VIEWERS, {"metadata": {"name": "nobody"}})
    kubeconfig = str(cluster.account_kubeconfig("default", "nobody", tmp_path / "nobody"))
    for words in (
        ["pods"],
        ["classes"],
        ["can-delete", "kata"],
        ["rollout", "kata", "kata-v2"],
    ):
        result = run(*words, "--kubeconfig", kubeconfig)
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert 'cannot list resource "runtimeclasses"' in result.stderr
    cluster.delete(f"{VIEWERS}/nobody")
