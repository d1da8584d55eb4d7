"""On a real kube-apiserver whoever changes a class is warned of what impact tells."""

from pathlib import Path
from typing import Any, Final

from tests.config.chart import needs_helm
from tests.e2e.cluster import PODS, Cluster
from tests.e2e.test_webhook import installed
from tests.fakes.apiserver import RUNTIME_CLASSES
from tests.processes import until

DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
LABEL: Final = {"node-restriction.kubernetes.io/sandbox": "kata"}
KATA: Final[dict[str, Any]] = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
    "scheduling": {"nodeSelector": LABEL},
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
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        cluster.create(f"{PODS}/{pod}/binding", {"metadata": {"name": pod}, "target": target})
    assert cluster.request("POST", DEPLOYMENTS, WEB)[0] in (201, 409)


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
