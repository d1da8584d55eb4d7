"""Laws of prioritize: what other nodes and classes may and may not do to a score."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.snapshot_store import SnapshotStore
from extender.model.objects import HARD_EFFECTS, Handler, Node, RuntimeClass, Taint
from extender.model.pod_needs import Toleration
from extender.rules.class_nodes import Support
from extender.rules.node_checks import HandlerCheck
from extender.rules.snapshot import Snapshot
from extender.verbs import bodies
from extender.verbs.prioritize import Preferences, encode_scores
from tests.property import strategies as some
from tests.stores import replace_nodes, snapshot_of

CONDITION_KEYS = (
    "node.kubernetes.io/not-ready",
    "node.cloudprovider.kubernetes.io/shutdown",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/disrupted",
)


def ask(
    snapshot: Snapshot, own: RuntimeClass | None, names: list[str], check: HandlerCheck
) -> dict[str, int]:
    """The scores by host."""
    scores = Preferences(check).scores(own, snapshot, bodies.run_of(names))
    assert len(scores.scores) == len(names)
    return dict(zip(names, scores.scores, strict=True))


@given(some.node_lists, some.class_lists, some.asked_names, st.data())
def test_toleration_seconds_change_no_score(
    nodes: list[Node], classes: list[RuntimeClass], asked: list[str], data: st.DataObject
) -> None:
    """scores(classes with any tolerationSeconds) = scores(classes without them)."""
    twins = [replace(each, name=f"{each.name}-twin") for each in classes]
    seconds = st.sampled_from([None, 30, 300])
    timed = [
        replace(
            each,
            tolerations=tuple(t._replace(seconds=data.draw(seconds)) for t in each.tolerations),
        )
        for each in (*classes, *twins)
    ]
    name = data.draw(st.sampled_from([None, *(each.name for each in timed)]))

    def scores(found: list[RuntimeClass]) -> dict[str, int]:
        snapshot = snapshot_of(nodes, found)
        own = snapshot.runtime_classes[name] if name else None
        return ask(snapshot, own, asked, HandlerCheck.AUTO)

    assert scores(timed) == scores([*classes, *twins])


@given(some.node_lists, some.class_lists, some.asked_names, st.data())
def test_the_answer_leaves_the_ranking_as_it_is(
    nodes: list[Node], classes: list[RuntimeClass], asked: list[str], data: st.DataObject
) -> None:
    """kube-scheduler, which adds the answer to its plugins' scores, ranks as by the full scores.

    schedule_one.go, prioritizeNodes: an extender's score is added where there is one, multiplied
    by its weight and by MaxNodeScore / MaxExtenderPriority.
    """
    run = bodies.run_of(asked)
    scores = Preferences(HandlerCheck.AUTO).scores(None, snapshot_of(nodes, classes), run)
    answer = json.loads(b"".join(encode_scores(run, scores.above_lowest)))
    assert all(set(entry) == {"Host", "Score"} for entry in answer)
    lowest = min(scores.scores, default=0)
    assert [(entry["Host"], entry["Score"]) for entry in answer] == [
        (name, score - lowest)
        for name, score in zip(asked, scores.scores, strict=True)
        if score > lowest
    ]
    full = dict(zip(asked, scores.scores, strict=True))
    sent = {entry["Host"]: entry["Score"] for entry in answer}
    weight = data.draw(st.integers(1, 5))
    others = {name: data.draw(st.integers(0, 300)) for name in full}

    def ranked(ours: dict[str, int]) -> list[list[str]]:
        totals = {name: others[name] + ours.get(name, 0) * weight * 10 for name in full}
        return [
            sorted(name for name in totals if totals[name] == total)
            for total in sorted(set(totals.values()))
        ]

    assert ranked(sent) == ranked(full)


def test_nodes_that_serve_more_classes_than_a_byte_counts_are_scored_alike() -> None:
    """Costs up to 254 are bytes; beyond, the same rule holds, for 255 different costs."""
    classes = [RuntimeClass(f"c{n}", "runc", ((f"k{n}", "v"),)) for n in range(300)]
    labels = {f"k{n}": "v" for n in range(300)}
    nodes = [
        Node("all", labels),
        Node("but-one", {key: labels[key] for key in list(labels)[1:]}),
        Node("but-four", {key: labels[key] for key in list(labels)[4:]}),
    ]
    names = [*(node.name for node in nodes), "stranger"]
    found = ask(snapshot_of(nodes, classes), None, names, HandlerCheck.AUTO)
    assert found == {"all": 2, "but-one": 2, "but-four": 10, "stranger": 0}
    nodes = [Node(f"n{n}", dict(list(labels.items())[:n])) for n in range(300)]
    found = ask(snapshot_of(nodes, classes), None, ["n253", "n254", "n299"], HandlerCheck.AUTO)
    assert found == {"n253": 10, "n254": 5, "n299": 5}


def test_of_classes_that_ask_for_the_same_one_that_runs_is_enough_to_serve_their_constraints() -> (
    None
):
    """kata-deploy's classes share a selector; a node may have the handlers of some of them."""
    selector = (("kata", "true"),)
    classes = [RuntimeClass(each, each, selector) for each in ("kata-qemu", "kata-clh", "kata-fc")]
    nodes = [
        Node("none", {"kata": "true"}, (), frozenset({Handler("runc")})),
        Node("one", {"kata": "true"}, (), frozenset({Handler("runc"), Handler("kata-clh")})),
        Node("all", {"kata": "true"}, (), frozenset(Handler(each.name) for each in classes)),
    ]
    snapshot = snapshot_of(nodes, classes)
    names = [node.name for node in nodes]
    plain = {"none": 10, "one": 5, "all": 5}
    assert ask(snapshot, None, names, HandlerCheck.AUTO) == plain
    for each in classes:  # no node is kept free of the own class
        assert ask(snapshot, each, names, HandlerCheck.AUTO) == dict.fromkeys(names, 10)


@given(some.node_lists, some.class_lists, some.checks, st.data())
def test_a_soft_or_condition_taint_changes_no_score(
    nodes: list[Node], classes: list[RuntimeClass], check: HandlerCheck, data: st.DataObject
) -> None:
    soft = st.builds(Taint, some.KEYS, some.VALUES, st.just("PreferNoSchedule"))
    condition = st.builds(
        Taint, st.sampled_from(CONDITION_KEYS), some.VALUES, st.sampled_from(sorted(HARD_EFFECTS))
    )
    names = [node.name for node in nodes]
    taint = st.one_of(soft, condition)
    tainted = [replace(node, taints=(*node.taints, data.draw(taint))) for node in nodes]
    before, after = snapshot_of(nodes, classes), snapshot_of(tainted, classes)
    assert ask(before, None, names, check) == ask(after, None, names, check)


@given(st.lists(st.tuples(some.node_lists, some.class_lists), min_size=2, max_size=4), some.checks)
def test_what_is_remembered_of_one_snapshot_is_not_told_of_another(
    states: list[tuple[list[Node], list[RuntimeClass]]], check: HandlerCheck
) -> None:
    """One Preferences or Support over a changing cluster tells what a fresh one would each time."""
    store, preferences, support = SnapshotStore(), Preferences(check), Support(check)
    for nodes, classes in states:
        replace_nodes(store, nodes)
        store.replace_runtime_classes(classes)
        names = bodies.run_of([node.name for node in nodes])
        assert support.counts(store.snapshot) == Support(check).counts(store.snapshot)
        fresh = Preferences(check).scores(None, store.snapshot, names)
        assert preferences.scores(None, store.snapshot, names) == fresh


def test_nothing_is_remembered_of_shapes_that_were_numbered_anew() -> None:
    """Half of 200 shapes disappear, and the other half get their numbers."""
    everything = (Toleration("", "Exists"),)
    classes = [RuntimeClass("kata", "kata", (("kata", "true"),), everything)]
    nodes = [
        Node(f"n{n}", {"kata": "true"} if n % 3 else {}, (Taint(f"t{n}", "", "NoSchedule"),))
        for n in range(200)
    ]
    store, preferences = SnapshotStore(), Preferences(HandlerCheck.AUTO)
    store.replace_runtime_classes(classes)
    for left in (nodes[:100], nodes[100:]):
        replace_nodes(store, left)
        names = bodies.run_of([node.name for node in left])
        fresh = Preferences(HandlerCheck.AUTO).scores(None, store.snapshot, names)
        assert preferences.scores(None, store.snapshot, names) == fresh
        assert len(set(fresh.scores)) == 2
        assert len(store.snapshot.shapes) == 100
