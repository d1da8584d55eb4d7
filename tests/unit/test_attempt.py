"""The event that kube-scheduler would write of a pod: its filters, room, evictions, versions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import orjson
import pytest

from extender.explain.attempt import Attempt, filters_part, outlook_of
from extender.explain.own_checks import OwnChecks, Question
from extender.kubernetes.explained_pods import explained_pod
from extender.kubernetes.resources import load_of_pod
from extender.kubernetes.versions import Version
from extender.model.objects import MARK, Pod, RuntimeClass
from extender.model.reasons import LEFT_OUT
from extender.rules.node_checks import Policy
from extender.rules.pools import nodes_of
from tests.cases_file import cases
from tests.stores import node_of, snapshot_of

KATA: Final = RuntimeClass("kata", "kata", (("sandbox", "kata"),))
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NO_VICTIMS: Final = "No preemption victims found for incoming pod"


def node(name: str, cpu: str = "4", pods: str = "10", **spec: Any) -> dict[str, Any]:
    """A node that kata pods may run on."""
    return {
        "metadata": {"name": name, "labels": {"sandbox": "kata"}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": pods},
            "runtimeHandlers": [{"name": ""}, {"name": "kata"}],
        },
    }


def pod(name: str = "p", on: str = "", last: str = "", **spec: Any) -> Pod:
    said = [{"type": "PodScheduled", "status": "False", "message": last}] if last else []
    if on:
        spec["nodeName"] = on
    document = {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"containers": [{"name": "c"}], **spec},
        "status": {"phase": "Pending", "conditions": said, **spec.pop("status", {})},
    }
    return explained_pod(orjson.dumps(document))


def asking(cpu: str, name: str = "p", on: str = "", last: str = "", **spec: Any) -> Pod:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    return pod(name, on, last, containers=containers, **spec)


def event(
    asked: Pod,
    nodes: Sequence[dict[str, Any]],
    there: Sequence[Pod] = (),
    version: Version | None = (1, 37),
    classes: Sequence[RuntimeClass] = (KATA,),
) -> str:
    snapshot = snapshot_of(map(node_of, nodes), classes)
    runtime_class = snapshot.runtime_classes.get(asked.runtime_class_name)
    question = Question(asked, runtime_class, nodes_of(snapshot), Policy(), lambda: version)
    attempt = Attempt(question)
    return outlook_of(attempt, lambda _: filter(None, map(load_of_pod, there)))[0]


def told(total: int, filters: str, evictions: str) -> str:
    return (
        f"0/{total} nodes are available: {filters}. preemption: 0/{total} nodes are available:"
        f" {evictions}."
    )


TAINT: Final = [{"key": "x", "effect": "NoSchedule"}]


def test_each_node_counts_for_the_first_filter_that_refuses_it_and_the_extender_is_last() -> None:
    bare, broken = node("bare"), node("broken")
    bare["metadata"]["labels"] = {}
    broken["status"]["runtimeHandlers"] = [{"name": "runc"}]
    nodes = [
        node("cordoned", unschedulable=True, taints=TAINT),
        node("tainted", cpu="1", taints=TAINT),
        node("unselected", cpu="1"),
        node("small", cpu="1", pods="0"),
        bare,
        broken,
    ]
    nodes[2]["metadata"]["labels"] = {"sandbox": "kata", "disk": "hdd"}
    for each in (nodes[3], bare, broken):
        each["metadata"]["labels"]["disk"] = "ssd"
    asked = asking("2", runtimeClassName="kata", nodeSelector={"disk": "ssd"})
    kata = 'nodes don\'t match RuntimeClass "kata" '
    assert event(asked, nodes) == told(
        6,
        f"1 Insufficient cpu, 1 Too many pods, 1 node(s) didn't match Pod's node"
        f" affinity/selector, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable,"
        f' 1 {kata}(no runtime handler "kata"), 1 {kata}(nodeSelector sandbox=kata)',
        f"6 {NOT_HELPFUL}",
    )


def test_a_pod_that_would_be_bound_or_does_not_wait_has_no_event() -> None:
    assert event(asking("4"), [node("a")]) == ""
    assert event(asking("9", on="a"), [node("a")]) == ""
    assert event(asking("9", schedulingGates=[{"name": "g"}]), [node("a")]) == ""
    assert event(asking("9", status={"phase": "Succeeded"}), [node("a")]) == ""


@pytest.mark.parametrize(("reason", "told"), [("SchedulingGated", ""), ("Unschedulable", "x")])
def test_of_a_gated_pod_kube_scheduler_has_said_nothing(reason: str, told: str) -> None:
    said = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "x"}
    assert pod(status={"conditions": [said]}).state.last_event == told


def test_what_runs_on_a_node_is_counted_and_a_node_that_lacks_it_always_is_no_place_to_evict() -> (
    None
):
    nodes = [node("a"), node("b", cpu="1"), node("c", pods="1")]
    there = [asking("4", "p", on="c"), asking("3", "x", on="a"), pod("y", on="c")]
    expected = told(3, "1 Too many pods, 2 Insufficient cpu", f"1 {NOT_HELPFUL}, 2 {NO_VICTIMS}")
    assert event(asking("2"), nodes, there) == expected
    assert event(asking("2"), [*nodes, node("d")], there) == ""
    assert event(asking("2"), [node("a", pods="2")], [pod("y", on="a")]) == ""
    ended = asking("4", "z", on="d", status={"phase": "Failed"})
    assert event(asking("2"), [*nodes, node("d")], [*there, ended]) == ""


@cases
def test_pods_of_lower_priority_are_evicted_for_it(
    priority: int, victims: list[int], expected: str | None
) -> None:
    there = [asking("2", f"v{each}", on="a", priority=each) for each in victims]
    there += [asking("2", f"w{each}", on="a", priority=each) for each in victims]
    found = event(asking("3", priority=priority), [node("a")], there)
    evictions = "" if expected is None else f" preemption: 0/1 nodes are available: {expected}."
    assert found == f"0/1 nodes are available: 1 Insufficient cpu.{evictions}"


def test_the_extender_keeps_no_candidate_that_the_class_does_not_match() -> None:
    bare = node("a")
    bare["metadata"]["labels"] = {}
    there = [asking("4", "v", on="a")]
    found = event(asking("3", priority=5, runtimeClassName="kata"), [bare], there)
    assert found.endswith("1 Insufficient cpu. preemption: no candidate node for preemption")


def test_a_pod_that_may_not_evict_says_so() -> None:
    found = event(asking("9", preemptionPolicy="Never"), [node("a")])
    assert found.endswith("cpu. preemption: not eligible due to preemptionPolicy=Never.")


@pytest.mark.parametrize(
    ("priority", "counts"), [(5, False), (6, True)], ids=["less important", "as important"]
)
def test_a_pod_nominated_to_a_node_counts_unless_it_is_less_important(
    priority: int, counts: bool
) -> None:
    nominated = asking("4", "n", priority=priority, status={"nominatedNodeName": "a"})
    assert bool(event(asking("2", priority=6), [node("a")], [nominated])) is counts


@cases
def test_what_is_said_of_claims_is_what_was_said_last_or_what_the_version_says(
    version: Any, last: str, words: str
) -> None:
    found = event(asking("9", last=last), [node("a")], version=version and tuple(version))
    assert words in found
    assert filters_part(found) == "0/1 nodes are available: 1 Insufficient cpu"


@pytest.mark.parametrize(
    ("version", "taint", "evictions"),
    [
        ((1, 33), "taint {y: z}", f"1 {NO_VICTIMS}, 1 {NOT_HELPFUL}"),
        ((1, 34), "taint(s)", f"2 {NOT_HELPFUL}"),
    ],
)
def test_before_1_34_taints_are_named_and_evictions_looked_for_in_vain(
    version: Version, taint: str, evictions: str
) -> None:
    taints = [{"key": "x", "effect": "PreferNoSchedule"}]
    taints += [{"key": key, "value": "z", "effect": "NoSchedule"} for key in "yx"]
    found = event(asking("9"), [node("a"), node("b", taints=taints)], version=version)
    assert f": 1 Insufficient cpu, 1 node(s) had untolerated {taint}." in found
    assert found.endswith(f" 0/2 nodes are available: {evictions}.")


def by_names(*terms: Sequence[str]) -> dict[str, Any]:
    """A node affinity with one term a list; a term asks for all names of its list."""
    fields = [
        [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
        for names in terms
    ]
    required = {"nodeSelectorTerms": [{"matchFields": each} for each in fields]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def test_nodes_that_the_affinity_does_not_name_are_left_out_before_any_filter() -> None:
    nodes = [node("a", unschedulable=True), node("b", unschedulable=True)]
    assert event(pod(affinity=by_names(["a"])), nodes) == told(
        2,
        "1 node(s) didn't satisfy plugin(s) [NodeAffinity], 1 node(s) were unschedulable",
        f"2 {NOT_HELPFUL}",
    )
    ghost = told(2, "2 node(s) didn't satisfy plugin(s) [NodeAffinity]", f"2 {NOT_HELPFUL}")
    assert event(pod(affinity=by_names(["ghost"])), nodes) == ghost
    before = ghost.replace(" 2 node(s) didn't satisfy plugin(s) [NodeAffinity].", "")
    assert event(pod(affinity=by_names(["ghost"])), nodes, version=(1, 31)) == before


def test_of_a_pod_that_names_its_node_no_other_nodes_labels_are_read() -> None:
    known = nodes_of(snapshot_of(map(node_of, [node("a"), node("b")]), []))
    candidates = replace(known, labels={1: dict[str, str]()}.__getitem__)
    question = Question(pod(affinity=by_names(["b"])), None, candidates, Policy())
    assert [*map(OwnChecks(question).by_labels, (0, 1))] == [LEFT_OUT, None]


@pytest.mark.parametrize(
    ("version", "end"),
    [((1, 37), "not found"), ((1, 33), f"preemption: 0/1 nodes are available: 1 {NOT_HELPFUL}.")],
)
def test_terms_that_name_no_node_together_are_told_before_any_node(
    version: Version, end: str
) -> None:
    """`not found` is said by the plugin DynamicResources, which has not begun (seen on 1.37.1)."""
    found = event(pod(affinity=by_names(["a", "b"])), [node("a")], version=version)
    assert found == f"0/1 nodes are available: pod affinity terms conflict. {end}"
    assert filters_part(found) == "0/1 nodes are available: pod affinity terms conflict"


@pytest.mark.parametrize("ignored", [True, False])
def test_the_mark_is_a_resource_where_kube_scheduler_said_so(ignored: bool) -> None:
    words = "0/1 nodes are available: 1 Insufficient "
    last = f"{words}{'cpu' if ignored else MARK}. preemption: x"
    resources = {"requests": {MARK: "1"}, "limits": {MARK: "1"}}
    marked = pod(last=last, containers=[{"name": "c", "resources": resources}])
    assert event(marked, [node("a")]).startswith("" if ignored else f"{words}{MARK}. preemption:")
    assert bool(event(marked, [node("a")])) is not ignored


def test_more_than_eight_details_of_the_nodes_that_it_is_asked_about_are_folded() -> None:
    """As in the filter's answer: nodes that other filters refuse do not count."""
    keys = "abcd"
    wide = RuntimeClass("wide", "kata", tuple((key, "1") for key in keys))
    nodes = [node(f"n{number}", unschedulable=number >= 9) for number in range(12)]
    for number, each in enumerate(nodes):
        labels = {key: "1" for place, key in enumerate(keys) if number >> place & 1}
        each["metadata"]["labels"] = labels
    asked = pod(runtimeClassName="wide")
    found = event(asked, nodes, classes=[wide])
    assert found.count(" (nodeSelector ") == 8
    assert '1 nodes don\'t match RuntimeClass "wide",' in found
    assert found.count(" (nodeSelector ") == event(asked, nodes[:8], classes=[wide]).count(" (")
