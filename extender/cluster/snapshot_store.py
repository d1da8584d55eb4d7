"""Writes snapshots: takes changes of nodes and RuntimeClasses, and swaps the result in whole.

Any thread may write: those that follow the sources (reflectors or manifests), and one that answers
a request and had to look up a RuntimeClass. Each method that writes holds the store's own lock
while it works. Readers only read `snapshot`, which needs no lock.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import orjson
from msgspec import Struct

from extender.cluster.node_tables import Changes, NodeState, NodeTables
from extender.cluster.shape_ids import ShapeIds
from extender.decoding.decoder import decode
from extender.names import NodeIndex
from extender.objects import Condition, Node, RuntimeClass
from extender.predicates.shape_parts import Wanted
from extender.shape import Shape, shape_of
from extender.snapshot import NodeTable, Shapes, Snapshot

_StringDict = dict[str, str]

#: nodeSelector entries that no class asks for any more are dropped when they are more than half of
#: all; below this number it is not worth going through the nodes.
_MIN_WANTED: Final = 64

#: Up to this many entries it is cheaper to search the labels' JSON for each than to decode it.
_FEW_NEEDLES: Final = 32


class ObservedNode(Struct, frozen=True, gc=False):
    """A node as a reflector hands it to the store.

    labels is their JSON with sorted keys and no blanks (see canonical_labels); bare is the node's
    shape without selector entries, terms met and conditions: only the store knows which of them
    matter. allocatable is status.allocatable as JSON, empty where there is none.
    """

    name: bytes
    labels: bytes
    bare: Shape
    allocatable: bytes = b""
    conditions: frozenset[Condition] = frozenset()


def canonical_labels(labels: Mapping[str, str]) -> bytes:
    """Labels as the store keeps them; kube-apiserver writes them in the same way."""
    dumped = orjson.dumps(dict(labels), option=orjson.OPT_SORT_KEYS)
    # Copied, because the bytes that orjson returns keep its buffer: 4 KiB for 300 bytes of labels.
    return bytes(memoryview(dumped))


def observed(node: Node) -> ObservedNode:
    """A whole node as the store takes it."""
    return ObservedNode(
        node.name.encode(),
        canonical_labels(node.labels),
        shape_of(node, ()),
        node.allocatable,
        node.conditions,
    )


@dataclass(frozen=True, slots=True)
class Swap:
    """One snapshot has replaced another; changed has the names of the nodes that differ.

    Listeners must not keep it: while an old snapshot is kept, its dictionaries can't be used again.
    """

    old: Snapshot
    new: Snapshot
    changed: Collection[bytes]


def _needles(entries: Iterable[tuple[str, str]]) -> tuple[bytes, ...]:
    """The bytes that are in the labels' JSON when the node has one of the entries."""
    return tuple(orjson.dumps({key: value})[1:-1] for key, value in entries)


def _has_any(labels: bytes, needles: Iterable[bytes]) -> bool:
    return any(needle in labels for needle in needles)


#: The conditions of a node that is known by its name.
ConditionsOf = Callable[[bytes], frozenset[Condition]]


def no_conditions(name: bytes) -> frozenset[Condition]:
    """No conditions are kept: nodes and classes come together, as from manifests."""
    return frozenset()


class SnapshotStore:
    """The one writer of snapshots."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self._lock = threading.Lock()
        self._shape_ids = ShapeIds()
        self._tables = NodeTables()
        self._conditions_of: ConditionsOf = no_conditions
        #: The parts of nodes that matter; any thread may read it, only writers change it.
        self.wanted = Wanted()
        self._needles: tuple[bytes, ...] = ()
        self._pending: Changes = {}
        self._listeners: list[Callable[[Swap], None]] = []

    def subscribe(self, listener: Callable[[Swap], None]) -> None:
        """Have a function called after each swap, on the thread that has written.

        The store's lock is free by then, but the writer may hold one of its own, as
        RuntimeClassFeed does: so a listener must be quick, and wait for nothing. When two threads
        write at the same moment, the second one's listeners may be called first.
        """
        self._listeners.append(listener)

    def ask_for_conditions(self, conditions_of: ConditionsOf) -> None:
        """Say where the conditions of known nodes are kept, in case a class comes to ask for one.

        The function is called with the store's lock held, and from any thread.
        """
        self._conditions_of = conditions_of

    def replace_observed(self, nodes: Iterable[ObservedNode]) -> None:
        """Replace all nodes: those not among these are dropped. Swaps only if something differs."""
        with self._lock:
            self._note_all(nodes)
            swap = self._swap(nodes_synced=True)
        self._tell(swap)

    def replace_all(self, nodes: Iterable[Node], runtime_classes: Iterable[RuntimeClass]) -> None:
        """Nodes and RuntimeClasses in one swap, as from manifests."""
        with self._lock:
            classes = self._noted_classes(runtime_classes)
            self._note_all(map(observed, nodes))
            swap = self._swap(
                runtime_classes=classes, nodes_synced=True, runtime_classes_synced=True
            )
        self._tell(swap)

    def change_observed(self, changed: Iterable[ObservedNode], deleted: Iterable[bytes]) -> None:
        """Change single nodes, with one swap at the most. No name is in both."""
        with self._lock:
            for node in changed:
                self._note(node)
            for name in deleted:
                self._delete(name)
            swap = self._swap()
        self._tell(swap)

    def replace_runtime_classes(self, runtime_classes: Iterable[RuntimeClass]) -> None:
        """Replace all RuntimeClasses. One that did not change stays the same object."""
        with self._lock:
            swap = self._swap(
                runtime_classes=self._noted_classes(runtime_classes), runtime_classes_synced=True
            )
        self._tell(swap)

    def _noted_classes(
        self, runtime_classes: Iterable[RuntimeClass]
    ) -> Mapping[str, RuntimeClass] | None:
        """The classes by name, their labels wanted from now on; None when none has changed."""
        old = self.snapshot.runtime_classes
        new = {}
        for each in runtime_classes:
            before = old.get(each.name)
            new[each.name] = before if before and before.same_as(each) else each
        if new.keys() == old.keys() and all(new[name] is old[name] for name in new):
            return None
        self._want(Wanted.of(new.values()))
        return new

    def _note_all(self, nodes: Iterable[ObservedNode]) -> None:
        gone = set(self.snapshot.nodes)
        for node in nodes:
            self._note(node)
            gone.discard(node.name)
        for name in gone:
            self._pending[name] = None

    def _tell(self, swap: Swap | None) -> None:
        if swap is not None:
            for listener in self._listeners:
                listener(swap)

    def _note(self, node: ObservedNode) -> None:
        """Note a node's state if it differs from the snapshot's."""
        current, name, labels = self.snapshot, node.name, node.labels
        entries, shape = self._entries(labels), node.bare
        if entries:
            shape = replace(shape, selector_entries=entries)
        if self.wanted.is_more_than_entries:
            shape = self._with_rules(shape, node)
        shape_id = self._shape_ids.of(shape)
        if (
            current.nodes[name] == shape_id
            and current.labels.get(name) == labels
            and current.allocatable.get(name, b"") == node.allocatable
        ):
            self._pending.pop(name, None)
        else:
            self._pending[name] = NodeState(shape_id, labels, node.allocatable)

    def _delete(self, name: bytes) -> None:
        if name in self.snapshot.nodes:
            self._pending[name] = None
        else:
            self._pending.pop(name, None)

    def _entries(self, labels: bytes) -> frozenset[tuple[str, str]]:
        """Those of a node's labels that some class asks for."""
        if len(self._needles) <= _FEW_NEEDLES and not _has_any(labels, self._needles):
            return frozenset()
        return frozenset(decode(labels, _StringDict).items() & self.wanted.entries)

    def _with_rules(self, shape: Shape, node: ObservedNode) -> Shape:
        """The shape with what the node meets of the classes' terms and conditions."""
        wanted, met = self.wanted, shape.met
        if wanted.requirements:
            met = wanted.met_by(decode(node.labels, _StringDict), node.name.decode())
        conditions = node.conditions & wanted.conditions
        return replace(shape, met=met, conditions=conditions) if met or conditions else shape

    def _want(self, wanted: Wanted) -> None:
        """Update the nodes that have any of the labels and conditions that matter from now on."""
        before, entries = self.wanted, wanted.entries
        added = entries - before.entries
        shrink = len(before.entries | added) > 2 * max(len(entries), _MIN_WANTED)
        other_rules = wanted.requirements != before.requirements or (
            wanted.conditions != before.conditions
        )
        if not added and not shrink and not other_rules:
            return
        kept = entries if shrink else before.entries | added
        self.wanted = replace(wanted, entries=kept)
        self._needles = _needles(kept)
        # A dropped entry may be in any node's shape, and any node may meet other rules.
        everywhere = shrink or other_rules
        sought = () if everywhere else _needles(added)
        shapes = self.snapshot.shapes
        for name, labels in self.snapshot.labels.items():
            if everywhere or _has_any(labels, sought):
                shape = shapes[self.snapshot.nodes[name]]
                bare = replace(
                    shape, selector_entries=frozenset(), met=frozenset(), conditions=frozenset()
                )
                allocatable = self.snapshot.allocatable.get(name, b"")
                conditions = self._conditions_of(name)
                self._note(ObservedNode(name, labels, bare, allocatable, conditions))

    def _swap(
        self,
        *,
        runtime_classes: Mapping[str, RuntimeClass] | None = None,
        nodes_synced: bool = False,
        runtime_classes_synced: bool = False,
    ) -> Swap | None:
        """Make the pending changes a snapshot; None when there is nothing to change."""
        old, changed = self.snapshot, self._pending
        if (
            not self._pending
            and runtime_classes is None
            and nodes_synced <= old.nodes_synced
            and runtime_classes_synced <= old.runtime_classes_synced
        ):
            return None
        table = self._table()
        self.snapshot = Snapshot(
            table,
            self._shapes(),
            old.runtime_classes if runtime_classes is None else runtime_classes,
            nodes_synced or old.nodes_synced,
            runtime_classes_synced or old.runtime_classes_synced,
        )
        return Swap(old, self.snapshot, changed.keys())

    def _table(self) -> NodeTable:
        """A table with the pending changes; the current one is not changed."""
        current = self.snapshot.table
        if not self._pending:
            return current
        new = self._tables.changed(current, self._pending)
        self._pending = {}
        return self._renumbered(new)

    def _renumbered(self, table: NodeTable) -> NodeTable:
        """The table without the shapes that no node has, when there are many of them."""
        new_id = self._shape_ids.drop_unused(table.nodes.values())
        if new_id is None:
            return table
        self._tables.forget()
        nodes = NodeIndex((name, new_id[old]) for name, old in table.nodes.items())
        return NodeTable(nodes, table.labels, table.allocatable)

    def _shapes(self) -> Shapes:
        shapes = self.snapshot.shapes
        current = self._shape_ids.shapes
        if current == shapes.shapes:
            return shapes
        grown = current[: len(shapes)] == shapes.shapes
        return Shapes(current, shapes if grown else None)
