"""Laws of impact and can-delete: they tell what is found once the change is made."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from extender.admission.fit import as_admitted
from extender.cli.cluster_state import ClusterState, state_of
from extender.cli.flags import Flags
from extender.cluster.manifest_objects import Manifests, Uses, read_manifest
from extender.explain.explanation import explain
from extender.explain.own_checks import Question
from extender.inventory.can_delete_command import users_of
from extender.inventory.impact import Comparison, impact_document
from extender.inventory.impact_command import changed, compared
from extender.kubernetes.namespaces import rules_of
from extender.lint.registry import check_namespaces
from extender.model.finding import Severity
from extender.rules.class_nodes import nodes_of_class
from extender.rules.node_checks import HandlerCheck, Policy
from extender.rules.node_selector import label_selector
from extender.rules.pod_state import Placement, State
from extender.rules.pools import nodes_of
from extender.rules.tolerations import TolerationSet, tolerates_cordon

Json = dict[str, Any]

PREFIX: Final = "runtimeclass-extender/"
CLASSES: Final = ("kata", "gvisor")
LABELS: Final = st.dictionaries(
    st.sampled_from(["sandbox", "pool"]), st.sampled_from(["a", "b"]), max_size=2
)
SPACES: Final = st.sampled_from(["shop", "team"])
TAINTS: Final = [{"key": "only", "value": value, "effect": "NoSchedule"} for value in ("", "a")]
TOLERATIONS: Final = st.sampled_from(
    [
        [],
        [],
        [{"key": "only", "operator": "Exists"}],
        [{"key": "only", "value": "a"}],
        [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}],
    ]
)
HANDLERS: Final = st.sampled_from(
    [
        None,
        *(
            [{"name": name, "features": {"userNamespaces": users}} for name in names]
            for names in (["", "kata"], ["", "runsc"], ["", "kata", "runsc"], ["kata"])
            for users in (False, True)
        ),
    ]
)
FEW: Final = {"cpu": "1", "memory": "1Gi", "pods": "10"}
MANY: Final = {"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/key": "1"}


@st.composite
def nodes(draw: st.DrawFn) -> Json:
    return {
        "kind": "Node",
        "metadata": {"name": draw(st.sampled_from("nmop")), "labels": draw(LABELS)},
        "spec": {
            "taints": draw(st.sampled_from([[], [], [TAINTS[0]], [TAINTS[1]]])),
            "unschedulable": draw(st.sampled_from([False, False, True])),
        },
        "status": {
            "runtimeHandlers": draw(HANDLERS),
            "allocatable": draw(st.sampled_from([FEW, MANY])),
            "conditions": [{"type": "KataReady", "status": draw(st.sampled_from(["True", "x"]))}],
        },
    }


ANNOTATIONS: Final = st.sampled_from(
    [
        {},
        {},
        {f"{PREFIX}unsupported": "hostNetwork"},
        {f"{PREFIX}node-conditions": "KataReady"},
        {f"{PREFIX}node-selector-terms": "[{matchExpressions: [{key: pool, operator: Exists}]}]"},
        {f"{PREFIX}node-selector-terms": "["},
    ]
)


@st.composite
def runtime_classes(draw: st.DrawFn) -> Json:
    return {
        "kind": "RuntimeClass",
        "metadata": {"name": draw(st.sampled_from(CLASSES)), "annotations": draw(ANNOTATIONS)},
        "handler": draw(st.sampled_from(["kata", "runsc"])),
        "overhead": {"podFixed": draw(st.sampled_from([{}, {"memory": "1Gi"}]))},
        "scheduling": {"nodeSelector": draw(LABELS), "tolerations": draw(TOLERATIONS)},
    }


@st.composite
def namespaces(draw: st.DrawFn) -> Json:
    rules = {
        f"{PREFIX}default-class": draw(st.sampled_from([None, "kata", "false"])),
        f"{PREFIX}allowed-classes": draw(st.sampled_from([None, "", "kata", "*"])),
        f"{PREFIX}required": draw(st.sampled_from([None, "true"])),
    }
    told = {key: value for key, value in rules.items() if value is not None}
    return {"kind": "Namespace", "metadata": {"name": draw(SPACES), "annotations": told}}


@st.composite
def specs(draw: st.DrawFn) -> Json:
    spec = {
        "runtimeClassName": draw(st.sampled_from([*CLASSES, *CLASSES, "gone", None])),
        "nodeSelector": draw(st.sampled_from([{}, {}, {}, {"pool": "a"}])),
        "tolerations": draw(TOLERATIONS),
        "hostUsers": draw(st.sampled_from([None, None, False])),
        "hostNetwork": draw(st.sampled_from([None, None, True])),
    }
    requests = draw(st.sampled_from([{}, {"memory": "1Gi"}, {"example.com/key": "1"}]))
    return {**spec, "containers": [{"name": "c", "resources": {"requests": requests}}]}


@st.composite
def workloads(draw: st.DrawFn) -> Json:
    metadata = {"name": draw(st.sampled_from("wxyz")), "namespace": draw(SPACES)}
    spec = draw(specs())
    if draw(st.booleans()):
        spec["nodeName"] = draw(st.sampled_from(["n", "m", "o", "p", ""]))
        started = draw(st.sampled_from(["True", "False"]))
        status = {"conditions": [{"type": "PodReadyToStartContainers", "status": started}]}
        return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}
    kind = draw(st.sampled_from(["Deployment", "DaemonSet"]))
    template = {"spec": {"template": {"spec": spec}}}
    return {"kind": kind, "apiVersion": "apps/v1", "metadata": metadata, **template}


def key(each: Json) -> tuple[str, str, str]:
    metadata = each["metadata"]
    return each["kind"], metadata.get("namespace", ""), metadata["name"]


def several(found: st.SearchStrategy[Json], most: int) -> st.SearchStrategy[list[Json]]:
    return st.lists(found, max_size=most, unique_by=key)


CLUSTERS: Final = st.tuples(
    several(nodes(), 4),
    several(runtime_classes(), 2),
    several(namespaces(), 2),
    several(workloads(), 6),
).map(lambda parts: [each for part in parts for each in part])

CHANGES: Final = st.fixed_dictionaries(
    {
        "brought": st.tuples(
            several(nodes(), 1), several(runtime_classes(), 1), several(namespaces(), 1)
        ).map(lambda parts: [each for part in parts for each in part]),
        "labels": st.lists(st.sampled_from(["sandbox", "sandbox=a", "pool=b"]), max_size=1),
        "handlers": st.lists(st.sampled_from(["kata", "runsc"]), max_size=1),
        "on": st.sampled_from([None, "pool=a", "sandbox in (a, c)", "!pool"]),
        "cordon": st.lists(st.sampled_from(["pool", "sandbox!=b,pool=a"]), max_size=1),
    }
)

#: The selectors as plain Python.
SELECTED: Final[dict[str, Callable[[dict[str, str]], bool]]] = {
    "pool=a": lambda labels: labels.get("pool") == "a",
    "sandbox in (a, c)": lambda labels: labels.get("sandbox") in ("a", "c"),
    "!pool": lambda labels: "pool" not in labels,
    "pool": lambda labels: "pool" in labels,
    "sandbox!=b,pool=a": lambda labels: labels.get("sandbox") != "b" and labels.get("pool") == "a",
}


def applied(cluster: list[Json], change: Json) -> list[Json]:
    """The objects after the change."""
    made = {key(each): each for each in (*cluster, *change["brought"])}
    objects = deepcopy(list(made.values()))
    for each in objects:
        if each["kind"] != "Node":
            continue
        labels, status = dict(each["metadata"]["labels"]), each["status"]
        if change["on"] is None or SELECTED[change["on"]](labels):
            for text in change["labels"]:
                name, _, value = text.partition("=")
                if labels.get(name) in ((value,) if value else ("a", "b")):
                    del each["metadata"]["labels"][name]
            if (handlers := status["runtimeHandlers"]) is not None:
                left = [one for one in handlers if one["name"] not in change["handlers"]]
                status["runtimeHandlers"] = left
        if any(SELECTED[text](labels) for text in change["cordon"]):
            each["spec"]["unschedulable"] = True
    return objects


def loaded(objects: list[Json]) -> Manifests:
    found = Manifests(uses=Uses())
    read_manifest(json.dumps({"kind": "List", "items": objects}).encode(), "test", found)
    return found


class Facts:
    """What the commands find in a cluster."""

    def __init__(self, objects: list[Json], policy: Policy) -> None:
        state = state_of(loaded(objects))
        snapshot, classes = state.snapshot, state.snapshot.runtime_classes
        placement = Placement(snapshot, policy)
        self.unfit = {
            (pod.namespace, pod.name)
            for pod, *_ in state.inventory.pods()
            for verdict, reason in [placement.judge(pod)]
            if verdict is State.STRANDED or (verdict is State.STARTING and ";" in reason)
        }
        self.nodes = {}
        for each in state.inventory.workloads():
            pod, name = each.template(), each.runtime_class_name
            admitted = as_admitted(pod, classes[name]) if name in classes else pod
            if name or pod.features:
                found = explain(Question(admitted, classes.get(name), nodes_of(snapshot), policy))
                self.nodes[each.kind, each.namespace, each.name] = found.feasible, found.summary
        spaces = state.inventory.namespaces()
        rules = {name: rules_of(name, each.annotations) for name, each in spaces.items()}
        used = {(pod.namespace, pod.runtime_class_name) for pod, *_ in state.inventory.pods()}
        used |= {(each.namespace, each.runtime_class_name) for each in state.inventory.workloads()}
        self.broken_rules = {
            (name, each.what)
            for name in spaces
            for each in check_namespaces({name: spaces[name]}, classes)
            if each.severity is Severity.ERROR
        } | {
            (space, name)
            for space, name in used
            if space in rules and rules[space].violation(name, takes_default=True)
        }
        cordoned = {
            each["metadata"]["name"]
            for each in objects
            if each["kind"] == "Node" and each["spec"]["unschedulable"]
        }
        self.matching = {
            (name, node.decode())
            for name, each in classes.items()
            for node in nodes_of_class(each, snapshot, policy).matching
            if node.decode() not in cordoned or tolerates_cordon(TolerationSet(each.tolerations))
        }


def told(comparison: Comparison, state: ClusterState) -> Json:
    pods = (pod for pod, *_ in state.inventory.pods())
    return dict(impact_document(comparison, pods, state.inventory.workloads()))


@given(CLUSTERS, CHANGES, st.sampled_from(HandlerCheck))
def test_what_impact_tells_is_found_once_the_change_is_made(
    cluster: list[Json], change: Json, check: HandlerCheck
) -> None:
    policy = Policy(check)
    state = state_of(loaded(cluster))
    flags = Flags(
        without_node_label=change["labels"],
        without_handler=change["handlers"],
        on=change["on"] and label_selector(change["on"]),
        cordon=[label_selector(each) for each in change["cordon"]],
    )
    after = changed(state, loaded(change["brought"]), flags)
    document = told(compared(state, after, policy), state)
    old, new = Facts(cluster, policy), Facts(applied(cluster, change), policy)
    assert {(each["namespace"], each["name"]) for each in document["pods"]} == new.unfit - old.unfit
    assert {
        (each["kind"], each["namespace"], each["name"]): (
            each["nodesBefore"],
            (each["nodesAfter"], each["reason"]),
        )
        for each in document["workloads"]
    } == {
        name: (old.nodes[name][0], new.nodes[name])
        for name in new.nodes
        if new.nodes[name][0] < old.nodes[name][0]
    }
    assert {each["name"] for each in document["namespaces"]} == {
        name for name, _ in new.broken_rules - old.broken_rules
    }
    differs = new.matching - old.matching, old.matching - new.matching
    for key, pairs in zip(("gained", "lost"), differs, strict=True):
        assert document["nodes"][key] == sorted({node for _, node in pairs})
    assert {each["name"] for each in document["classes"]} == {
        name for pairs in differs for name, _ in pairs
    }
    assert document["breaks"] == bool(
        document["pods"]
        or document["namespaces"]
        or any(not each["nodesAfter"] for each in document["workloads"])
    )


@given(CLUSTERS, st.sampled_from(CLASSES))
def test_can_delete_names_whatever_names_the_class(cluster: list[Json], name: str) -> None:
    state = state_of(loaded(cluster))
    of_class = (pod for pod, *_ in state.inventory.pods() if pod.runtime_class_name == name)
    users = users_of(name, state, of_class)
    for kinds, told_of in ((("Pod",), "pods"), (("Deployment", "DaemonSet"), "workloads")):
        assert {(each["namespace"], each["name"]) for each in users[told_of]} == {
            (each["metadata"]["namespace"], each["metadata"]["name"])
            for each in cluster
            if each["kind"] in kinds
            and (each["spec"].get("template") or each)["spec"]["runtimeClassName"] == name
        }
    assert {each["name"] for each in users["defaults"]} == {
        each["metadata"]["name"]
        for each in cluster
        if each["kind"] == "Namespace"
        and each["metadata"]["annotations"].get(f"{PREFIX}default-class") == name
    }
