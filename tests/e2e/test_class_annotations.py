"""What annotations of a RuntimeClass do to a real kube-apiserver's and kube-scheduler's pods."""

from pathlib import Path
from typing import Any

from tests.e2e.cluster import PODS, Cluster
from tests.e2e.test_webhook import installed, is_called
from tests.fakes.apiserver import RUNTIME_CLASSES
from tests.processes import until
from tests.property.test_class_rules import PREFIX

#: For the whole of a test, on a machine that does other things too.
SECONDS = 120.0

Json = dict[str, Any]


def add_class(where: Cluster, name: str, annotations: Json, **fields: Any) -> None:
    prefixed = {f"{PREFIX}{key}": value for key, value in annotations.items()}
    metadata = {"name": name, "annotations": prefixed}
    where.create(RUNTIME_CLASSES, {"metadata": metadata, "handler": "h", **fields})


def pod_json(
    name: str, runtime_class: str | None, annotations: Json | None = None, **spec: Any
) -> Json:
    chosen = {"runtimeClassName": runtime_class} if runtime_class else {}
    container = {"name": "c", "image": "registry.example/none"}
    return {
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"containers": [container], **chosen, **spec},
    }


def warnings_of(where: Cluster, pod: Json) -> list[str]:
    """The Warning headers that the author of a pod sees."""
    where.create(PODS, pod)
    return list(where.warnings)


def test_the_author_of_a_pod_is_warned_or_refused_and_no_node_takes_it(
    instead: Cluster, tmp_path: Path
) -> None:
    instead.add_node("n1")
    add_class(instead, "kata", {"unsupported": "hostNetwork,privileged"})
    text = 'RuntimeClass "kata": hostNetwork is unsupported'
    pod = pod_json("web", "kata", hostNetwork=True)
    with installed(instead, tmp_path):
        until(lambda: is_called(instead), SECONDS)
        # Both webhooks say it, and kube-apiserver tells it once: kubectl prints "Warning: …".
        escaped = text.replace('"', '\\"')
        assert warnings_of(instead, pod) == [f'299 - "{escaped}"']
        assert warnings_of(instead, pod_json("plain", "kata")) == []
    with installed(instead, tmp_path, "--unsupported=deny"):
        until(lambda: is_called(instead), SECONDS)
        status, answer = instead.request("POST", PODS, pod_json("other", "kata", hostNetwork=True))
        assert status == 403
        assert answer["message"].endswith(f"denied the request: pod rejected: {text}")
        instead.create(PODS, pod_json("plainer", "kata"))
    with instead.scheduling():
        until(lambda: "(hostNetwork is unsupported)" in instead.message_of("web"), SECONDS)
        until(lambda: instead.node_of("plain") == "n1", SECONDS)


def test_a_pod_that_asks_for_isolation_gets_the_best_class_at_creation(
    instead: Cluster, tmp_path: Path
) -> None:
    for name in ("n1", "n2"):
        instead.add_node(name, {"sandbox": "kata"} if name == "n1" else {})
    add_class(instead, "gvisor", {"isolation": "sandbox"})
    overhead = {"podFixed": {"memory": "160Mi"}}
    selector = {"nodeSelector": {"sandbox": "kata"}}
    add_class(instead, "kata", {"isolation": "vm"}, overhead=overhead, scheduling=selector)
    with installed(instead, tmp_path, values=("webhook.fit=true",)):
        until(lambda: is_called(instead), SECONDS)
        for name, level, chosen in (("a", "vm", "kata"), ("b", "sandbox", "gvisor")):
            annotations = {f"{PREFIX}isolation": level}
            instead.create(PODS, pod_json(name, None, annotations))
            assert instead.pod(name)["spec"]["runtimeClassName"] == chosen
        spec = instead.pod("a")["spec"]
        assert spec["overhead"] == {"memory": "160Mi"}
        assert spec["nodeSelector"] == {"sandbox": "kata"}
        annotations = {f"{PREFIX}isolation": "confidential"}
        status, answer = instead.request("POST", PODS, pod_json("c", None, annotations))
        print(answer["message"])
        assert status == 403
        assert '"kata": isolation vm, confidential is asked for' in answer["message"]
        instead.create(PODS, pod_json("d", None))
        assert "runtimeClassName" not in instead.pod("d")["spec"]
