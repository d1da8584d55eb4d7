"""explain's event is what the real kube-scheduler writes of each Pending pod, word for word.

Random clusters: a first kube-scheduler binds what fits, and a second one, which begins with nothing
but the state that explain reads, tries all that is left.
"""

import random
import re
from typing import Any, Final

import orjson
import pytest

from extender.model.objects import MARK
from tests.e2e.cluster import EVENTS, PODS, Cluster
from tests.fakes.apiserver import NODES, RUNTIME_CLASSES, Json
from tests.processes import run, until

#: By seed another cluster; each has some 50 pods that stay Pending.
SEEDS: Final = range(2)
NODES_OF_EACH: Final = 14
PODS_OF_EACH: Final = 75

_BOUND: Final = 12
_SECONDS: Final = 90.0

#: What the limit of an event's note leaves of a message (truncateMessage of schedule_one.go).
_NOTE_LIMIT: Final = 1024

_LABELS: Final = {"sandbox": ("gvisor", "kata"), "zone": ("a", "b"), "size": ("1", "7", "12")}
_TAINTS: Final = (
    {"key": "dedicated", "value": "gvisor", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "kata", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"},
    {"key": "spot", "effect": "PreferNoSchedule"},
)
_TOLERATIONS: Final = (
    {"key": "dedicated", "operator": "Exists"},
    {"key": "dedicated", "value": "gvisor", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
    {"operator": "Exists"},
)
_AMOUNTS: Final = {
    "cpu": ("100m", "1", "3", "9"),
    "memory": ("64Mi", "1Gi", "6Gi", "40Gi"),
    "ephemeral-storage": ("1Gi", "200Gi"),
    "example.com/gpu": ("1", "2"),
}
_CLASSES: Final = ("gvisor", "kata", "wasm", "plain")


def add_nodes(where: Cluster, chance: random.Random) -> None:
    for number in range(NODES_OF_EACH):
        labels = {k: chance.choice(v) for k, v in _LABELS.items() if chance.random() < 0.6}
        has = {
            "cpu": chance.choice(["2", "4"]),
            "memory": chance.choice(["2Gi", "8Gi", "32Gi"]),
            "pods": chance.choice(["1", "3", "110"]),
            "ephemeral-storage": "100Gi",
        }
        if chance.random() < 0.3:
            has["example.com/gpu"] = "1"
        where.add_node(
            f"n{number}",
            labels,
            taints=chance.sample(_TAINTS, chance.choice([0, 0, 1, 2])),
            handlers=chance.choice([None, ["", "runsc"], ["", "kata"], ["", "runsc", "kata"]]),
            allocatable=has,
            capacity=has,
        )
        if chance.random() < 0.15:
            where.patch(f"{NODES}/n{number}", {"spec": {"unschedulable": True}})


def add_classes(where: Cluster) -> None:
    where.add_class("gvisor", "runsc", {"sandbox": "gvisor"})
    where.add_class("wasm", "spin")
    where.add_class("plain", "runsc")
    scheduling = {"nodeSelector": {"sandbox": "kata"}, "tolerations": [_TOLERATIONS[0]]}
    kata = {"metadata": {"name": "kata"}, "handler": "kata", "scheduling": scheduling}
    where.create(RUNTIME_CLASSES, {**kata, "overhead": {"podFixed": {"memory": "160Mi"}}})


def pod_spec(chance: random.Random, *, marks: bool) -> Json:
    asked = {k: chance.choice(v) for k, v in _AMOUNTS.items() if chance.random() < 0.35}
    container: Json = {"name": "c", "image": "x", "resources": {"requests": asked}}
    if "example.com/gpu" in asked:
        container["resources"]["limits"] = {"example.com/gpu": asked["example.com/gpu"]}
    spec: Json = {"containers": [container]}
    if chance.random() < 0.7:
        spec["runtimeClassName"] = chance.choice(_CLASSES)
    if marks and "runtimeClassName" in spec:
        resources = container["resources"]
        for kind in ("requests", "limits"):
            resources[kind] = {**resources.get(kind, {}), MARK: "1"}
    if chance.random() < 0.4:
        key = chance.choice(sorted(_LABELS))
        spec["nodeSelector"] = {key: chance.choice([*_LABELS[key], "no"])}
    if chance.random() < 0.5:
        spec["tolerations"] = chance.sample(_TOLERATIONS, chance.choice([1, 1, 2]))
    if chance.random() < 0.35:
        spec["affinity"] = {"nodeAffinity": _affinity(chance)}
    return spec


def _affinity(chance: random.Random) -> Json:
    terms = [chance.choice(_TERMS)(chance) for _ in range(chance.choice([1, 1, 2]))]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def _by_name(chance: random.Random) -> Json:
    field = {"key": "metadata.name", "operator": "In", "values": [f"n{chance.randrange(20)}"]}
    return {"matchFields": [field]}


def _by_label(chance: random.Random) -> Json:
    key = chance.choice(sorted(_LABELS))
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [_LABELS[key][0]]}]}


def _by_number(chance: random.Random) -> Json:
    return {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["5"]}]}


def _by_two_names(_: random.Random) -> Json:
    return {
        "matchFields": [
            {"key": "metadata.name", "operator": "In", "values": [each]} for each in ("n1", "n2")
        ]
    }


_TERMS: Final = (_by_name, _by_label, _by_label, _by_number, _by_two_names)


def add_pods(where: Cluster, chance: random.Random, *, marks: bool) -> None:
    for number in range(PODS_OF_EACH):
        spec = pod_spec(chance, marks=marks and chance.random() < 0.8)
        if number < _BOUND:
            asked = {"cpu": "500m", "memory": chance.choice(["256Mi", "1500Mi"])}
            container = {"name": "c", "image": "x", "resources": {"requests": asked}}
            spec = {"containers": [container], "nodeName": f"n{number}"}
        status, answer = where.request(
            "POST", PODS, {"metadata": {"name": f"p{number}"}, "spec": spec}
        )
        # Beside the plugin a pod in conflict with its class is refused.
        assert status == 201 or "conflict" in str(answer), answer


def pending(where: Cluster) -> list[Json]:
    return [each for each in where.get(PODS)["items"] if not each["spec"].get("nodeName")]


def events(where: Cluster) -> dict[str, str]:
    """The newest of each pod."""
    found = [each for each in where.get(EVENTS)["items"] if each["reason"] == "FailedScheduling"]
    found.sort(key=lambda each: int(each["metadata"]["resourceVersion"]))
    return {each["involvedObject"]["name"]: each["message"] for each in found}


def attempts(where: Cluster, url: str, managed: list[Json]) -> dict[str, str]:
    """The events of all Pending pods once nothing more can be bound."""

    def are_told() -> bool:
        found, waiting = events(where), pending(where)
        # kube-scheduler writes the condition after the event, and may end in between.
        return all(found.get(each["metadata"]["name"], "") in notes_of(each) for each in waiting)

    for _ in range(2):
        where.clear_events()
        with where.scheduler(url, **({"managedResources": managed} if managed else {})):
            until(are_told, _SECONDS)
    return events(where)


def message_of(pod: Json) -> str:
    conditions = pod["status"].get("conditions", ())
    return next((each["message"] for each in conditions if each["type"] == "PodScheduled"), "")


def notes_of(pod: Json) -> tuple[str, ...]:
    """What an event may say of a pod whose condition has been written."""
    message = message_of(pod)
    return (message, f"{message[: _NOTE_LIMIT - 4]} ...") if message else ()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "managed",
    [
        pytest.param([], id="every pod"),
        pytest.param([{"name": MARK, "ignoredByScheduler": True}], id="marked pods"),
        pytest.param([{"name": MARK, "ignoredByScheduler": False}], id="marks not ignored"),
    ],
)
def test_the_event_is_that_of_kube_scheduler(
    either: Cluster, managed: list[Json], seed: int, request: pytest.FixtureRequest
) -> None:
    where = either
    chance = random.Random(f"{request.node.callspec.params['either']} {managed} {seed}")
    add_classes(where)
    add_nodes(where, chance)
    add_pods(where, chance, marks=bool(managed))
    with where.serving() as server:
        told = attempts(where, server.url, managed)
        waiting = pending(where)
        differ = []
        for pod in waiting:
            name = pod["metadata"]["name"]
            said: Any = orjson.loads(server.request("GET", f"/explain?pod=default/{name}")[1])
            message = message_of(pod)
            assert said["lastEvent"] == message
            assert told[name] in notes_of(pod)
            if said["event"] != message:
                differ.append((name, said["event"], message))
        some = waiting[0]["metadata"]["name"]
        flags = ("--kubeconfig", str(where.kubeconfig("extender")), "-o", "json")
        explained = run("explain", f"default/{some}", *flags)
        assert explained.returncode == 1
        assert orjson.loads(explained.stdout)["event"] == message_of(where.pod(some))
    print(f"{len(waiting) - len(differ)} of {len(waiting)} events")
    kinds = {re.sub("[0-9]+", "N", message_of(each)) for each in waiting}
    print(f"{len(kinds)} different ones")
    assert differ == []
    assert len(waiting) > PODS_OF_EACH / 3
