"""What impact tells is what is found once the change is made, on a real kube-apiserver."""

import json
from pathlib import Path
from typing import Any, Final

import yaml

from tests.config.chart import needs_helm
from tests.e2e.cluster import Cluster
from tests.e2e.test_usage import DEPLOYMENTS, bind
from tests.e2e.test_webhook import installed
from tests.fakes.apiserver import NAMESPACES, NODES, RUNTIME_CLASSES
from tests.processes import run, until

LABEL: Final = {"node-restriction.kubernetes.io/sandbox": "kata"}
KATA: Final[dict[str, Any]] = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
    "scheduling": {"nodeSelector": LABEL},
}
ELSEWHERE: Final = {**KATA, "scheduling": {"nodeSelector": {"pool": "b"}}}
TEAM: Final = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {
        "name": "default",
        "annotations": {"runtimeclass-extender/allowed-classes": "gvisor"},
    },
}


_APP: Final = {"app": "web"}
WEB: Final = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "selector": {"matchLabels": _APP},
        "template": {
            "metadata": {"labels": _APP},
            "spec": {
                "runtimeClassName": "kata",
                "containers": [{"name": "c", "image": "x.example/x"}],
            },
        },
    },
}


def fill(cluster: Cluster) -> None:
    """Two nodes that run kata, one of pool b; a pod on each, and a Deployment."""
    cluster.add_node("n1", {**LABEL, "pool": "a"}, handlers=["", "kata"])
    cluster.add_node("n2", {**LABEL, "pool": "b"}, handlers=["", "kata"])
    cluster.create(RUNTIME_CLASSES, KATA)
    for pod, node in (("a", "n1"), ("b", "n2")):
        cluster.add_pod(pod, "kata")
        bind(cluster, pod, node)
    assert cluster.request("POST", DEPLOYMENTS, WEB)[0] in (201, 409)


def asked(cluster: Cluster, *words: str) -> Any:
    result = run(*words, "--kubeconfig", str(cluster.kubeconfig("admin")), "-o", "json")
    assert result.stderr == "", result.stderr
    return json.loads(result.stdout)


def found(cluster: Cluster, web: Path) -> tuple[set[str], int]:
    """The pods that are stranded, and on how many nodes a pod of the Deployment fits."""
    stranded = asked(cluster, "pods", "-A", "--stranded")["items"]
    return {each["name"] for each in stranded}, asked(cluster, "explain", "-f", str(web))[
        "feasible"
    ]


def test_of_each_kind_of_change(beside: Cluster, tmp_path: Path) -> None:
    (tmp_path / "kata.yaml").write_text(yaml.safe_dump(ELSEWHERE))
    web_file = tmp_path / "web.yaml"
    web_file.write_text(yaml.safe_dump(WEB))
    (tmp_path / "team.yaml").write_text(yaml.safe_dump(TEAM))
    node, on = f"{NODES}/n1", ("--on", "pool=a")
    handlers = {"status": {"runtimeHandlers": [{"name": ""}]}}
    no_label = {"metadata": {"labels": dict.fromkeys(LABEL)}}
    changes: list[tuple[tuple[str, ...], str, Any]] = [
        (("--without-handler", "kata", *on), f"{node}/status", handlers),
        (("--without-node-label", *LABEL, *on), node, no_label),
        (("--cordon", "pool=a"), node, {"spec": {"unschedulable": True}}),
        (("-f", str(tmp_path / "kata.yaml")), "", ELSEWHERE),
        (("-f", str(tmp_path / "team.yaml")), f"{NAMESPACES}/default", TEAM),
    ]
    for words, path, document in changes:
        beside.clear()
        fill(beside)
        assert found(beside, web_file) == (set(), 2)
        told = asked(beside, "impact", *words)
        if path:
            beside.patch(path, document)
        else:
            beside.apply(yaml.safe_dump(document))
        stranded, nodes = found(beside, web_file)
        assert {each["name"] for each in told["pods"]} == stranded, words
        (web,) = told["workloads"] or [{"nodesAfter": 2}]
        assert web["nodesAfter"] == nodes, words
        assert bool(told["nodes"]["lost"]) == (nodes < 2)
        refused = [each["name"] for each in told["namespaces"]]
        assert refused == (["default"] if document is TEAM else [])
        assert told["breaks"] == bool(stranded or refused)
    beside.patch(f"{NAMESPACES}/default", {"metadata": {"annotations": None}})
    beside.delete(f"{DEPLOYMENTS}/web")


@needs_helm
def test_who_updates_a_class_is_warned(instead: Cluster, tmp_path: Path) -> None:
    fill(instead)
    with installed(instead, tmp_path, values=("webhook.warnImpact=true",)):
        moved = {"scheduling": {"nodeSelector": {**LABEL, "pool": "b"}}}

        def warnings() -> tuple[str, ...]:
            instead.patch(f"{RUNTIME_CLASSES}/kata?dryRun=All", moved)
            return instead.warnings

        until(lambda: len(warnings()) == 2, 60.0)
        stranded, fewer = warnings()
        assert ": 1 pod could not start again on the node: nodes don't match" in stranded
        assert "(nodeSelector pool=b)" in stranded
        assert ": new pods keep 1 of 2 nodes" in fewer
        instead.patch(f"{RUNTIME_CLASSES}/kata?dryRun=All", {"metadata": {"labels": {"a": "b"}}})
        assert instead.warnings == ()
    instead.delete(f"{DEPLOYMENTS}/web")
