"""Laws of the store: a snapshot never changes, and the newest has what the store was told."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster import snapshot_store
from extender.cluster.snapshot_store import SnapshotStore
from extender.model.objects import (
    ClassRules,
    Handler,
    Node,
    RuntimeClass,
    SelectorRequirement,
    SelectorTerm,
    Taint,
)
from extender.rules.node_shape import Wanted
from extender.rules.snapshot import Snapshot
from tests.stores import change_nodes, replace_nodes

NAMES = [f"n{number}" for number in range(12)]
KEYS = ["k", "l"]
VALUES = ["", "1", '"', "ü"]

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
CONDITIONS = [("Ready", "True"), ("KataReady", "True"), ("KataReady", "False")]
conditions = st.frozensets(st.sampled_from(CONDITIONS))
requirements = st.sampled_from(
    [
        SelectorRequirement("k", "In", ("1",)),
        SelectorRequirement("k", "NotIn", ("1", "2")),
        SelectorRequirement("l", "Exists"),
        SelectorRequirement("l", "DoesNotExist"),
        SelectorRequirement("k", "Gt", ("0",)),
        SelectorRequirement("k", "Gt", ("x",)),
    ]
)
by_name = st.just(SelectorRequirement("metadata.name", "In", ("n1",)))
rules = st.builds(
    ClassRules,
    st.lists(
        st.builds(
            SelectorTerm,
            st.lists(requirements, max_size=2).map(tuple),
            st.lists(by_name, max_size=1).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
    st.lists(st.sampled_from(CONDITIONS), max_size=2).map(tuple),
)
nodes = st.builds(
    Node,
    st.sampled_from(NAMES),
    labels,
    st.lists(st.builds(Taint, st.just("t"), st.just(""), st.just("NoSchedule")), max_size=1).map(
        tuple
    ),
    st.frozensets(st.builds(Handler, st.sampled_from(["", "runsc"])), max_size=2),
    conditions=conditions,
)
classes = st.builds(
    lambda name, selector, rules: RuntimeClass(
        name, "h", tuple(sorted(selector.items())), rules=rules
    ),
    st.sampled_from(["x", "y"]),
    labels,
    st.one_of(st.none(), rules),
)
steps = st.one_of(
    st.tuples(st.just("change"), st.lists(nodes, max_size=2)),
    st.tuples(st.just("delete"), st.lists(st.sampled_from(NAMES), max_size=2)),
    st.tuples(st.just("replace"), st.lists(nodes, max_size=4)),
    st.tuples(st.just("classes"), st.lists(classes, max_size=2)),
)


def seen(snapshot: Snapshot) -> dict[bytes, object]:
    return {name: (snapshot.shape(name), snapshot.table.labels[name]) for name in snapshot.nodes}


History = list[tuple[tuple[str, list[object]], bool]]


@pytest.mark.parametrize("least", [snapshot_store.MIN_SHAPES, 1])
@given(history=st.lists(st.tuples(steps, st.booleans()), max_size=12))
def test_snapshots_are_right_when_made_and_never_change(least: int, history: History) -> None:
    """For all histories: each kept snapshot stays as it was, and the newest has each node's
    labels, and its shape as the current RuntimeClasses want it. least: the number of shapes from
    which on unused ones are dropped, once they are half of all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot_store, "MIN_SHAPES", least)
        follow(history)


def follow(history: History) -> None:
    store = SnapshotStore()
    held = {name: Node(name) for name in NAMES}
    replace_nodes(store, held.values())
    known: dict[str, RuntimeClass] = {}
    kept: list[tuple[Snapshot, dict[bytes, object]]] = []
    for (verb, items), keep in history:
        if verb == "change":
            changed = {each.name: each for each in items if isinstance(each, Node)}
            held |= changed
            change_nodes(store, changed.values(), ())
        elif verb == "delete":
            for name in items:
                held.pop(str(name), None)
            change_nodes(store, (), map(str, items))
        elif verb == "replace":
            held = {each.name: each for each in items if isinstance(each, Node)}
            replace_nodes(store, held.values())
        else:
            known = {each.name: each for each in items if isinstance(each, RuntimeClass)}
            store.replace_runtime_classes(known.values())
        snapshot = store.snapshot
        wanted = Wanted.of(known.values())
        for node in held.values():
            found = snapshot.shape(node.name.encode())
            assert found is not None
            assert json.loads(snapshot.table.labels[node.name.encode()]) == node.labels
            # Entries of earlier classes may still be there; they decide nothing.
            assert found.selector_entries <= node.labels.items()
            entries = found.selector_entries & wanted.entries
            assert replace(found, selector_entries=entries) == wanted.shape_of(node)
        assert set(snapshot.nodes) == {name.encode() for name in held}
        if keep:
            kept.append((snapshot, seen(snapshot)))
    for snapshot, as_it_was in kept:
        assert seen(snapshot) == as_it_was
