"""What annotations of a RuntimeClass do to a real kube-apiserver's and kube-scheduler's pods."""

import json
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from extender.kubernetes.class_annotations import rules_of
from extender.model.objects import Node, RuntimeClass
from tests.e2e.cluster import PODS, Cluster
from tests.e2e.test_webhook import installed, is_called
from tests.fakes.apiserver import NODES, RUNTIME_CLASSES
from tests.processes import until
from tests.property.test_class_rules import (
    PREFIX,
    affinity_matches,
    class_matches,
    some_labels,
    some_terms,
)

#: For the whole of a test, on a machine that does other things too.
SECONDS = 120.0

Json = dict[str, Any]


def add_class(where: Cluster, name: str, annotations: Json, **fields: Any) -> None:
    prefixed = {f"{PREFIX}{key}": value for key, value in annotations.items()}
    metadata = {"name": name, "annotations": prefixed}
    where.create(RUNTIME_CLASSES, {"metadata": metadata, "handler": "h", **fields})


def condition(status: str) -> list[Json]:
    told = {"reason": "x", "message": "x"}
    return [
        {"type": "Ready", "status": "True", **told},
        {"type": "KataReady", "status": status, **told},
    ]


def test_a_condition_that_becomes_true_binds_the_pod_within_two_seconds(instead: Cluster) -> None:
    add_class(instead, "kata", {"node-conditions": "KataReady"})
    text = 'nodes don\'t match RuntimeClass "kata" (condition KataReady is not True)'
    took = []
    with instead.scheduling("--requeue-pods"):
        for number in range(3):
            node, pod = f"n{number}", f"web{number}"
            instead.add_node(node, conditions=condition("False"))
            instead.add_pod(pod, "kata", nodeSelector={"kubernetes.io/hostname": node})
            until(partial(_is_told, instead, pod, text), SECONDS)
            until(_backed_off(), SECONDS)
            began = time.monotonic()
            instead.patch(f"{NODES}/{node}/status", {"status": {"conditions": condition("True")}})
            until(partial(_is_bound, instead, pod), SECONDS)
            took.append(time.monotonic() - began)
    print(f"bound after {', '.join(f'{each:.2f} s' for each in took)}")
    assert min(took) < 2


def _is_told(where: Cluster, pod: str, text: str) -> bool:
    return text in where.message_of(pod)


def _is_bound(where: Cluster, pod: str) -> bool:
    return bool(where.node_of(pod))


def _backed_off() -> Callable[[], bool]:
    """A pod that was refused once is tried again after a second at the earliest."""
    began = time.monotonic()
    return lambda: time.monotonic() - began > 1.0


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


def is_valid(terms: list[Json]) -> bool:
    """Whether kube-apiserver takes a pod with these terms."""
    expressions = [each for term in terms for each in term.get("matchExpressions", ())]
    fields = [each for term in terms for each in term.get("matchFields", ())]
    with_values = ("In", "NotIn", "Gt", "Lt")
    return (
        bool(terms)
        and all(each["operator"] != "Exists" and len(each["values"]) == 1 for each in fields)
        and all(each["values"] != [""] for each in fields)
        and all(each["operator"] != "Near" and each["key"] != "no key" for each in expressions)
        and not any({"not a value", "-3"} & {*each["values"]} for each in expressions)
        and all((each["operator"] in with_values) == bool(each["values"]) for each in expressions)
    )


def some_valid_terms(chance: random.Random) -> list[Json]:
    return next(terms for _ in iter(int, 1) if is_valid(terms := some_terms(chance)))


def placed(where: Cluster, prefix: str) -> dict[str, str]:
    """The node of each pod that kube-scheduler has tried; empty where it has found none."""
    return {
        each["metadata"]["name"].removeprefix(prefix): each["spec"].get("nodeName", "")
        for each in where.get(PODS)["items"]
        if each["metadata"]["name"].startswith(prefix)
        and (each["spec"].get("nodeName") or each.get("status", {}).get("conditions"))
    }


def create_all(where: Cluster, prefix: str, asked: list[tuple[str, list[Json] | None]]) -> None:
    for number, (name, terms) in enumerate(asked):
        spec: Json = {}
        if terms is not None:
            key = "requiredDuringSchedulingIgnoredDuringExecution"
            spec["affinity"] = {"nodeAffinity": {key: {"nodeSelectorTerms": terms}}}
        where.create(PODS, pod_json(f"{prefix}{number}", name, **spec))


def test_merged_pods_go_without_the_extender_where_they_go_with_it(
    instead: Cluster, tmp_path: Path
) -> None:
    """200 pods as they are, with the extender; the same 200 merged, with no extender at all."""
    chance = random.Random(36)
    nodes = [Node(f"n{number}", some_labels(chance)) for number in range(10)]
    for node in nodes:
        instead.add_node(node.name, dict(node.labels))
    classes: dict[str, RuntimeClass] = {}
    for number in range(20):
        # With terms that do not parse, which match nothing, and now and then with none but those.
        name, text = f"c{number}", json.dumps(some_terms(chance))
        add_class(instead, name, {"node-selector-terms": text})
        rules = rules_of({f"{PREFIX}node-selector-terms": text})
        classes[name] = RuntimeClass(name, "h", rules=rules)
    asked = [
        (f"c{number % 20}", some_valid_terms(chance) if chance.random() < 0.6 else None)
        for number in range(200)
    ]
    with instead.scheduling():
        create_all(instead, "e", asked)
        until(lambda: len(placed(instead, "e")) == len(asked), SECONDS)
        with_extender = placed(instead, "e")
    with installed(instead, tmp_path):
        until(lambda: is_called(instead), SECONDS)
        create_all(instead, "m", asked)
    with instead.kube_scheduler({}):
        until(lambda: len(placed(instead, "m")) == len(asked), SECONDS)
        merged = placed(instead, "m")
    bound = 0
    for number, (name, terms) in enumerate(asked):
        fitting = {each.name for each in nodes if fits(each, classes[name], terms)}
        bound += bool(fitting)
        for found in (with_extender, merged):
            assert found[str(number)] in (fitting or {""}), (number, name, terms)
    print(f"bound {bound} of {len(asked)}, the same with the extender and merged without it")
    assert 20 < bound < 180


def fits(node: Node, runtime_class: RuntimeClass, terms: list[Json] | None) -> bool:
    """Whether class and pod let a node pass, by the rules of required node affinity."""
    if not class_matches(runtime_class, node):
        return False
    return terms is None or affinity_matches(terms, node.labels, node.name)
