"""Laws of the filter, for any cluster and request."""

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from extender.cluster.snapshot_store import SnapshotStore
from extender.objects import Node, Pod, RuntimeClass, Taint, Toleration
from extender.predicates.kubelet import KubeletCheck
from extender.predicates.node_checks import HandlerCheck, Policy
from extender.snapshot import Snapshot
from extender.verbs.filter import match_names, match_nodes, sort_nodes
from extender.wire import bodies
from extender.wire import filter_bodies as wire
from tests import naive
from tests.property import strategies as some

POLICIES = st.builds(
    Policy,
    st.sampled_from(list(HandlerCheck)),
    st.just(False),
    st.sampled_from(list(KubeletCheck)),
)
LAW = settings(max_examples=200, deadline=None)

Answer = tuple[list[str], dict[str, str]]


def snapshot_of(nodes: list[Node], classes: list[RuntimeClass]) -> Snapshot:
    store = SnapshotStore()
    store.replace_all(nodes, classes)
    return store.snapshot


def ask(snapshot: Snapshot, pod: Pod, names: list[str], policy: Policy) -> Answer:
    """The passing names, and the text of each refused one, through the wire's encoding."""
    asked = bodies.run_of(names)
    runtime_class = snapshot.runtime_classes.get(pod.runtime_class_name)
    verdicts = match_names(pod, runtime_class, snapshot, asked, policy)
    answer = json.loads(b"".join(wire.encode_filtered_names(asked, sort_nodes(verdicts))[0]))
    assert set(answer) == {
        "Nodes",
        "NodeNames",
        "FailedNodes",
        "FailedAndUnresolvableNodes",
        "Error",
    }
    assert answer["Nodes"] is None
    assert answer["FailedNodes"] == {}
    assert answer["Error"] == ""
    return answer["NodeNames"], answer["FailedAndUnresolvableNodes"]


@LAW
@given(some.node_lists, some.class_lists, some.pods, some.asked_names, POLICIES)
def test_passing_and_failed_are_what_was_asked(
    nodes: list[Node],
    classes: list[RuntimeClass],
    pod: Pod,
    asked: list[str],
    policy: Policy,
) -> None:
    """passing ∪ failed = asked, disjoint, the passing ones in the order asked."""
    passing, failed = ask(snapshot_of(nodes, classes), pod, asked, policy)
    assert passing == [name for name in asked if name not in failed]
    assert set(failed) == set(asked) - set(passing)


@LAW
@given(some.node_lists, some.class_lists, some.pods, some.asked_names, POLICIES)
def test_the_indexed_path_equals_the_naive_loop(
    nodes: list[Node],
    classes: list[RuntimeClass],
    pod: Pod,
    asked: list[str],
    policy: Policy,
) -> None:
    """Every name gets the verdict and the text that a plain loop over the rules gives."""
    passing, failed = ask(snapshot_of(nodes, classes), pod, asked, policy)
    known = {node.name: node for node in nodes}
    by_name = {each.name: each for each in classes}
    texts = naive.reasons(pod, by_name, [known.get(name) for name in asked], policy)
    assert passing == [name for name, text in zip(asked, texts, strict=True) if text is None]
    assert failed == {
        name: text for name, text in zip(asked, texts, strict=True) if text is not None
    }


@LAW
@given(some.node_lists, some.class_lists, some.pods, some.tolerations)
def test_another_toleration_never_newly_rejects(
    nodes: list[Node], classes: list[RuntimeClass], pod: Pod, toleration: Toleration
) -> None:
    snapshot, names = snapshot_of(nodes, classes), [node.name for node in nodes]
    before, _ = ask(snapshot, pod, names, Policy())
    more = replace(pod, tolerations=(*pod.tolerations, toleration))
    after, _ = ask(snapshot, more, names, Policy())
    assert set(before) <= set(after)


@LAW
@given(some.node_lists, some.class_lists, some.pods, some.KEYS, some.VALUES)
def test_another_no_schedule_taint_never_newly_admits(
    nodes: list[Node], classes: list[RuntimeClass], pod: Pod, key: str, value: str
) -> None:
    names = [node.name for node in nodes]
    before, _ = ask(snapshot_of(nodes, classes), pod, names, Policy())
    taint = Taint(key, value, "NoSchedule")
    tainted = [replace(node, taints=(*node.taints, taint)) for node in nodes]
    after, _ = ask(snapshot_of(tainted, classes), pod, names, Policy())
    assert set(after) <= set(before)


@LAW
@given(some.node_lists, some.class_lists, some.pods, POLICIES)
def test_both_wire_modes_give_the_same_verdicts(
    nodes: list[Node], classes: list[RuntimeClass], pod: Pod, policy: Policy
) -> None:
    """A node described in the request fares as the same node in the cache."""
    snapshot = snapshot_of(nodes, classes)
    names = bodies.run_of([node.name for node in nodes])
    runtime_class = snapshot.runtime_classes.get(pod.runtime_class_name)
    by_name = match_names(pod, runtime_class, snapshot, names, policy)
    by_object = match_nodes(pod, runtime_class, nodes, policy)
    assert [by_name.reasons[code] for code in by_name.codes] == [
        by_object.reasons[code] for code in by_object.codes
    ]


@LAW
@given(st.lists(st.integers(0, 400), max_size=500), st.integers(1, 400))
def test_any_number_of_reasons_is_told_with_eight_details_at_most(
    picks: list[int], shapes: int
) -> None:
    """Also with more shapes and reasons than a byte counts, each name has one right text."""
    nodes = [
        Node(f"n{index}", taints=(Taint("t", str(index), "NoSchedule"),)) for index in range(shapes)
    ]
    runtime_class = RuntimeClass("c", "h", (), (Toleration("t", "Equal", "3"),))
    names = [f"n{pick}" for pick in picks]
    passing, failed = ask(
        snapshot_of(nodes, [runtime_class]),
        Pod(runtime_class_name="c"),
        names,
        Policy(),
    )
    known = {node.name: node for node in nodes}
    texts = naive.reasons(
        Pod(runtime_class_name="c"),
        {"c": runtime_class},
        [known.get(name) for name in names],
        Policy(),
    )
    assert passing == [name for name, text in zip(names, texts, strict=True) if text is None]
    assert failed == {name: t for name, t in zip(names, texts, strict=True) if t is not None}
    assert len({text for text in failed.values() if "(" in text}) <= 8
