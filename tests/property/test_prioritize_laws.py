"""Laws of prioritize: what other nodes and classes may and may not do to a score."""

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from extender.objects import HARD_EFFECTS, Handler, Node, RuntimeClass, Taint, Toleration
from extender.predicates.node_checks import HandlerCheck
from extender.snapshot import Snapshot
from extender.verbs.prioritize import MAX_SCORE, Preferences
from extender.wire import bodies
from extender.wire import filter_bodies as wire
from tests import naive
from tests.property import strategies as some
from tests.property.test_filter_laws import snapshot_of
from tests.stores import replace_nodes

CHECKS = st.sampled_from(list(HandlerCheck))
LAW = settings(max_examples=200, deadline=None)

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


def _is_lasting(taint: Taint) -> bool:
    return taint.effect in HARD_EFFECTS and not taint.key.startswith("node.kubernetes.io/")


def naive_sets(
    node: Node, classes: list[RuntimeClass], check: HandlerCheck
) -> set[tuple[object, ...]]:
    """Semantics §4: the constraint sets of the classes a node serves."""
    found: set[tuple[object, ...]] = set()
    lasting = [taint for taint in node.taints if _is_lasting(taint)]
    handlers = {each.name for each in node.handlers}
    for each in classes:
        selects = all(node.labels.get(k) == v for k, v in each.node_selector)
        tolerates = all(any(naive.tolerates(t, x) for t in each.tolerations) for x in lasting)
        reported = each.handler in handlers or (node.is_docker and each.handler == "docker")
        runs = check is HandlerCheck.OFF or reported
        if not handlers and check is HandlerCheck.AUTO:
            runs = True
        if selects and tolerates and runs and (each.node_selector or lasting):
            found.add((each.node_selector, frozenset(each.tolerations)))
    return found


@LAW
@given(some.node_lists, some.class_lists, some.asked_names, CHECKS, st.data())
def test_scores_are_what_the_rule_says(
    nodes: list[Node],
    classes: list[RuntimeClass],
    asked: list[str],
    check: HandlerCheck,
    data: st.DataObject,
) -> None:
    """score = 10 // (1 + cost - smallest cost among the known nodes); unknown nodes 0."""
    own = data.draw(st.sampled_from([None, *classes]))
    snapshot = snapshot_of(nodes, classes)
    scores = ask(snapshot, own and snapshot.runtime_classes[own.name], asked, check)
    known = {node.name: node for node in nodes if node.name in asked}
    own_set = {(own.node_selector, frozenset(own.tolerations))} if own else set()
    costs = {name: len(naive_sets(node, classes, check) - own_set) for name, node in known.items()}
    least = min(costs.values(), default=0)
    assert scores == {
        name: MAX_SCORE // (1 + costs[name] - least) if name in known else 0 for name in asked
    }


@LAW
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


@LAW
@given(some.node_lists, some.class_lists, some.asked_names, st.data())
def test_the_answer_leaves_the_ranking_as_it_is(
    nodes: list[Node], classes: list[RuntimeClass], asked: list[str], data: st.DataObject
) -> None:
    """kube-scheduler, adding what is answered to other plugins' scores, ranks by the full scores.

    schedule_one.go, prioritizeNodes: an extender's score is added where there is one, multiplied
    by its weight and by MaxNodeScore / MaxExtenderPriority.
    """
    run = bodies.run_of(asked)
    scores = Preferences(HandlerCheck.AUTO).scores(None, snapshot_of(nodes, classes), run)
    answer = json.loads(b"".join(wire.encode_scores(run, scores.above_lowest)))
    assert all(set(entry) == {"Host", "Score"} for entry in answer)
    lowest = min(scores.scores, default=0)
    assert [(entry["Host"], entry["Score"]) for entry in answer] == [
        (name, score - lowest)
        for name, score in zip(asked, scores.scores, strict=True)
        if score > lowest
    ]
    full, sent = dict(zip(asked, scores.scores, strict=True)), {}
    for entry in answer:
        sent[entry["Host"]] = entry["Score"]
    weight = data.draw(st.integers(1, 5))
    others = {name: data.draw(st.integers(0, 300)) for name in full}

    def ranked(ours: dict[str, int]) -> list[list[str]]:
        totals = {name: others[name] + ours.get(name, 0) * weight * 10 for name in full}
        return [
            sorted(name for name in totals if totals[name] == total)
            for total in sorted(set(totals.values()))
        ]

    assert ranked(sent) == ranked(full)


@LAW
@given(some.node_lists, some.class_lists, CHECKS)
def test_a_node_that_serves_more_constraint_sets_never_scores_higher(
    nodes: list[Node], classes: list[RuntimeClass], check: HandlerCheck
) -> None:
    scores = ask(snapshot_of(nodes, classes), None, [node.name for node in nodes], check)
    serves = {node.name: len(naive_sets(node, classes, check)) for node in nodes}
    for a in serves:
        for b in serves:
            assert serves[a] <= serves[b] or scores[a] <= scores[b]


@LAW
@given(some.node_lists, some.class_lists.filter(bool), CHECKS)
def test_a_second_class_with_the_same_constraints_changes_no_score(
    nodes: list[Node], classes: list[RuntimeClass], check: HandlerCheck
) -> None:
    names = [node.name for node in nodes]
    twin = replace(classes[0], name="twin")
    assert ask(snapshot_of(nodes, classes), None, names, check) == ask(
        snapshot_of(nodes, [*classes, twin]), None, names, check
    )


def test_nodes_that_serve_more_classes_than_a_byte_counts_are_scored_alike() -> None:
    """Costs up to 254 are bytes; beyond, the same rule holds."""
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
    for each in classes:  # of the pod's own class no node is kept free
        assert ask(snapshot, each, names, HandlerCheck.AUTO) == dict.fromkeys(names, 10)


@LAW
@given(some.node_lists, some.class_lists, CHECKS, st.data())
def test_a_soft_or_condition_taint_changes_no_score(
    nodes: list[Node], classes: list[RuntimeClass], check: HandlerCheck, data: st.DataObject
) -> None:
    soft = st.builds(Taint, some.KEYS, some.VALUES, st.just("PreferNoSchedule"))
    condition = st.builds(
        Taint, st.sampled_from(CONDITION_KEYS), some.VALUES, st.sampled_from(sorted(HARD_EFFECTS))
    )
    names = [node.name for node in nodes]
    tainted = [
        replace(node, taints=(*node.taints, data.draw(st.one_of(soft, condition))))
        for node in nodes
    ]
    assert ask(snapshot_of(nodes, classes), None, names, check) == ask(
        snapshot_of(tainted, classes), None, names, check
    )


@LAW
@given(some.node_lists, some.class_lists, CHECKS, st.data())
def test_both_wire_modes_give_the_same_scores(
    nodes: list[Node], classes: list[RuntimeClass], check: HandlerCheck, data: st.DataObject
) -> None:
    snapshot = snapshot_of(nodes, classes)
    own = data.draw(st.sampled_from([None, *snapshot.runtime_classes.values()]))
    preferences = Preferences(check)
    names = bodies.run_of([node.name for node in nodes])
    by_name = preferences.scores(own, snapshot, names)
    assert by_name.scores == preferences.scores_of_nodes(own, snapshot, nodes).scores


@LAW
@given(st.lists(st.tuples(some.node_lists, some.class_lists), min_size=2, max_size=4), CHECKS)
def test_what_is_remembered_of_one_snapshot_is_not_told_of_another(
    states: list[tuple[list[Node], list[RuntimeClass]]], check: HandlerCheck
) -> None:
    """One Preferences over a changing cluster scores as a fresh one would each time."""
    from extender.cluster.snapshot_store import SnapshotStore

    store, preferences = SnapshotStore(), Preferences(check)
    for nodes, classes in states:
        replace_nodes(store, nodes)
        store.replace_runtime_classes(classes)
        names = bodies.run_of([node.name for node in nodes])
        fresh = Preferences(check).scores(None, store.snapshot, names)
        assert preferences.scores(None, store.snapshot, names) == fresh


def test_nothing_is_remembered_of_shapes_that_were_numbered_anew() -> None:
    """Of 200 shapes half are gone, and the others get their numbers."""
    from extender.cluster.snapshot_store import SnapshotStore

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
