"""The service and the plain version, which were written independently, answer alike."""

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from extender.model.objects import Node, Pod, RuntimeClass, Taint
from extender.model.pod_needs import Toleration
from extender.rules.node_checks import HandlerCheck, Policy
from tests.cases_file import cases, tables
from tests.json_objects import Json, class_json, node_json, pod_json
from tests.plain_extender import PlainCluster, PlainExtender
from tests.property import strategies as some
from tests.reviews import runtime_class
from tests.services import client_over
from tests.stores import node_of
from tests.vectors_file import RECORDED, recorded


class Pair:
    """The service and the plain version on one cluster."""

    def __init__(
        self,
        nodes: list[Node],
        classes: list[RuntimeClass],
        policy: Policy,
        items: Iterable[Json] | None = None,
    ) -> None:
        """items: the nodes as JSON, if they hold more than node_json gives."""
        self._service = client_over(nodes, classes, policy=policy)
        known = map(node_json, nodes) if items is None else items
        cluster = PlainCluster.of([*known, *map(class_json, classes)])
        self._plain = PlainExtender(cluster, policy.handler_check.value, policy.kubelet_check.value)

    def agree(self, verb: str, args: Json) -> Any:
        """The answer of both to args, as JSON in kube-scheduler's form and in another form."""
        expected = getattr(self._plain, verb)(args)
        for separators in ((",", ":"), (", ", ": ")):
            response = self._service.post(f"/{verb}", json.dumps(args, separators=separators))
            assert response.status_code == 200, response.data
            assert response.json == expected
            for item in (expected.get("Nodes") or {}).get("items", ()) if verb == "filter" else ():
                # An object that passes is given back byte for byte.
                assert json.dumps(item, separators=separators).encode() in response.data
        return expected


#: The node that a pod is bound to (a bound pod may be resized); "" for none.
own_nodes = st.sampled_from([*[""] * 9, *some.NODE_NAMES, "stranger"])


def bound(pod: Pod, own: str) -> Json:
    document = pod_json(pod)
    document["spec"]["nodeName"] = own
    return document


@given(some.node_lists, some.class_lists, some.pods, some.asked_names, some.policies, own_nodes)
def test_names_mode(
    nodes: list[Node],
    classes: list[RuntimeClass],
    pod: Pod,
    asked: list[str],
    policy: Policy,
    own: str,
) -> None:
    """Names, known and unknown, once and twice: the same answers to filter and prioritize."""
    pair = Pair(nodes, classes, policy)
    args = {"Pod": bound(pod, own), "Nodes": None, "NodeNames": asked}
    pair.agree("filter", args)
    pair.agree("prioritize", args)


@given(some.node_lists, some.class_lists, some.pods, some.policies, own_nodes)
def test_nodes_mode(
    nodes: list[Node], classes: list[RuntimeClass], pod: Pod, policy: Policy, own: str
) -> None:
    """Whole nodes, decided from the request: the same answers to filter and prioritize."""
    pair = Pair([], classes, policy)
    whole = {"metadata": {}, "items": list(map(node_json, nodes))}
    args = {"Pod": bound(pod, own), "Nodes": whole, "NodeNames": None}
    pair.agree("filter", args)
    pair.agree("prioritize", args)


@given(
    some.node_lists,
    some.class_lists,
    some.pods,
    st.dictionaries(
        st.sampled_from([*some.NODE_NAMES, "stranger"]),
        st.tuples(st.lists(st.uuids().map(str), max_size=3), st.integers(0, 3)),
    ),
    st.booleans(),
    some.policies,
    own_nodes,
)
def test_preempt(
    nodes: list[Node],
    classes: list[RuntimeClass],
    pod: Pod,
    victims: dict[str, tuple[list[str], int]],
    whole_pods: bool,
    policy: Policy,
    own: str,
) -> None:
    """Victims by UID and as whole pods: the same nodes are left, with the same victims."""
    whole = {"spec": {"affinity": {"nodeAffinity": {}}, "overhead": {"cpu": "1"}}}
    by_node = {
        name: {
            "Pods": [
                {**whole, "metadata": {"uid": uid}} if whole_pods else {"UID": uid} for uid in uids
            ],
            **({"FieldOfANewerVersion": [{}]} if whole_pods else {}),
            "NumPDBViolations": violations,
        }
        for name, (uids, violations) in victims.items()
    }
    args: Json = {"Pod": bound(pod, own), "NodeNameToVictims": None, "NodeNameToMetaVictims": None}
    args["NodeNameToVictims" if whole_pods else "NodeNameToMetaVictims"] = by_node
    Pair(nodes, classes, policy).agree("preempt", args)


#: The nodeInfo of a kubelet; verdicts name only two of its versions.
kubelets = st.fixed_dictionaries(
    {
        "kubeletVersion": st.one_of(
            st.integers(28, 37).map(lambda minor: f"v1.{minor}.2"),
            st.sampled_from(["", "devel", "v1.31.14", "v1.32.9-gke.1548000"]),
        ),
        "operatingSystem": st.sampled_from(["linux", "windows", ""]),
    }
)
features = st.sampled_from(
    [None, {}, {"supplementalGroupsPolicy": True}, {"supplementalGroupsPolicy": False}]
)
systems = ("linux", "windows", "")
system_labels = st.sampled_from([{}, *({"kubernetes.io/os": each} for each in systems)])
resources = st.sampled_from(
    [None, {}, *({"requests": {name: "1"}} for name in ("cpu", "hugepages-2Mi", "x.io/gpu"))]
)


@given(
    st.lists(st.tuples(kubelets, features, system_labels), min_size=1, max_size=8),
    some.pods,
    resources,
    some.policies,
)
def test_kubelets_of_all_versions_and_systems(
    told: list[tuple[Json, Json | None, Json]], pod: Pod, resources: Json | None, policy: Policy
) -> None:
    """A pod that a kubelet would reject is refused for the same reason in both modes."""
    items: list[Json] = [
        {
            "kind": "Node",
            "metadata": {"name": f"n{number}", "labels": labels},
            "status": {"nodeInfo": info, "features": of_node},
        }
        for number, (info, of_node, labels) in enumerate(told)
    ]
    document = pod_json(replace(pod, runtime_class_name=""))
    document["spec"]["resources"] = resources
    pair = Pair(list(map(node_of, items)), [], policy, items)
    names = [each["metadata"]["name"] for each in items]
    pair.agree("filter", {"Pod": document, "Nodes": None, "NodeNames": names})
    whole = {"metadata": {}, "items": items}
    pair.agree("filter", {"Pod": document, "Nodes": whole, "NodeNames": None})


@given(st.lists(st.integers(0, 400), max_size=500), st.integers(1, 400))
def test_any_number_of_reasons_is_told_with_eight_details_at_most(
    picks: list[int], shapes: int
) -> None:
    """Each name has one correct text, even with more shapes and reasons than fit a byte."""
    nodes = [Node(f"n{n}", taints=(Taint("t", str(n), "NoSchedule"),)) for n in range(shapes)]
    runtime_class = RuntimeClass("c", "h", (), (Toleration("t", "Equal", "3"),))
    pod = {"metadata": {"name": "p"}, "spec": {"runtimeClassName": "c"}}
    args = {"Pod": pod, "Nodes": None, "NodeNames": [f"n{pick}" for pick in picks]}
    refused = Pair(nodes, [runtime_class], Policy()).agree("filter", args)
    texts = refused["FailedAndUnresolvableNodes"].values()
    assert len({text for text in texts if "(" in text}) <= 8


@lru_cache
def recorded_pair() -> Pair:
    """A pair with the cluster of the recorded requests."""
    files = (RECORDED / "scheduler-nodes").glob("*.json")
    found = [json.loads(file.read_bytes()).get("Nodes") or {} for file in files]
    items = {item["metadata"]["name"]: item for each in found for item in each.get("items", ())}
    classes = yaml.safe_load_all((RECORDED / "runtimeclasses.yaml").read_text())
    known = [{"kind": "Node", **item} for item in items.values()]
    return Pair(list(map(node_of, known)), list(map(runtime_class, classes)), Policy(), known)


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
@pytest.mark.parametrize("mode", ["scheduler-names", "scheduler-nodes"])
def test_what_kube_scheduler_really_sent(mode: str, verb: str) -> None:
    for parameters in recorded(mode, verb):
        (body,) = parameters.values
        assert isinstance(body, bytes)
        assert recorded_pair().agree(verb, json.loads(body))


@cases
def test_template_nodes_of_cluster_autoscaler(spec: Json, count: int) -> None:
    """They are in no cluster: a copy of a group's node; for an empty group, the cloud's data."""
    nodes = json.loads((RECORDED / "cluster-autoscaler" / "nodes.json").read_text())
    classes = [
        runtime_class({"metadata": {"name": name}, **fields})
        for name, fields in tables("plain_agrees")["classes"].items()
    ]
    pod = {"metadata": {"namespace": "default", "name": "p"}, "spec": spec}
    args = {"Pod": pod, "Nodes": nodes, "NodeNames": None}
    found = Pair([], classes, Policy()).agree("filter", args)
    assert len(found["Nodes"]["items"]) == count
    Pair([], classes, Policy(HandlerCheck.STRICT)).agree("filter", args)
