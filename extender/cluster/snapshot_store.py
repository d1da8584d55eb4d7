"""Writes snapshots: takes changes of nodes and RuntimeClasses, and swaps the result in whole.

Any thread may write, under the store's own lock. Readers only read `snapshot`, without a lock.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from msgspec import Struct

from extender.kubernetes.decoder import decode
from extender.model.names import NodeIndex, ShapeId
from extender.model.objects import Condition, Node, RuntimeClass, Suspect
from extender.rules.node_shape import Shape, Wanted, shape_of
from extender.rules.snapshot import NodeTable, Snapshot
from extender.rules.verdicts import Shapes

_StringDict = dict[str, str]


class ObservedNode(Struct, frozen=True, gc=False):
    """A node as a reflector hands it to the store.

    labels: see canonical_labels. bare: the node's shape without the parts that classes ask for
    (selector entries, terms, conditions). allocatable: status.allocatable as JSON, or empty.
    """

    name: bytes
    labels: bytes
    bare: Shape
    allocatable: bytes = b""
    conditions: frozenset[Condition] = frozenset()


def canonical_labels(labels: Mapping[str, str]) -> bytes:
    """Labels as JSON with sorted keys, as the store keeps and kube-apiserver writes them."""
    dumped = orjson.dumps(dict(labels), option=orjson.OPT_SORT_KEYS)
    # A copy: the bytes that orjson returns keep its whole buffer, 4 KiB for 300 bytes of labels.
    return bytes(memoryview(dumped))


def observed(node: Node) -> ObservedNode:
    """A decoded node in the form that the store takes."""
    return ObservedNode(
        node.name.encode(),
        canonical_labels(node.labels),
        shape_of(node, ()),
        node.allocatable,
        node.conditions,
    )


@dataclass(frozen=True, slots=True)
class _NodeState:
    """The kept part of a node; labels and allocatable are JSON."""

    shape_id: ShapeId
    labels: bytes
    allocatable: bytes


@dataclass(frozen=True, slots=True)
class Swap:
    """The swap of one snapshot for another. changed: the names of the nodes that differ."""

    old: Snapshot
    new: Snapshot
    changed: Collection[bytes]


class SnapshotStore:
    """The one writer of snapshots."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self._lock = threading.Lock()
        self._shape_ids = _ShapeIds()
        #: The conditions of each node, also if no class asks for any yet: a later class may.
        self._conditions: dict[bytes, frozenset[Condition]] = {}
        #: What classes ask of nodes. Any thread may read it; only writers replace it.
        self.wanted = Wanted()
        #: The states of new and changed nodes by name; None for a deleted node.
        self._pending: dict[bytes, _NodeState | None] = {}
        self._listeners: list[Callable[[Swap], None]] = []

    def subscribe(self, listener: Callable[[Swap], None]) -> None:
        """Call the listener after each swap, on the thread that wrote.

        The store's lock is held meanwhile: a listener must be quick and must not block.
        """
        self._listeners.append(listener)

    def replace_observed(self, nodes: Iterable[ObservedNode]) -> None:
        """Replace all nodes; other known nodes are dropped. Swaps only if something differs."""
        with self._lock:
            self._note_all(nodes)
            self._swap(nodes_synced=True)

    def replace_all(self, nodes: Iterable[Node], runtime_classes: Iterable[RuntimeClass]) -> None:
        """Replace all nodes and RuntimeClasses in one swap, for manifests."""
        with self._lock:
            classes = self._noted_classes(runtime_classes)
            self._note_all(map(observed, nodes))
            self._swap(runtime_classes=classes, nodes_synced=True, runtime_classes_synced=True)

    def change_observed(self, changes: Mapping[bytes, ObservedNode | None]) -> None:
        """Change nodes in one swap; None deletes a node."""
        with self._lock:
            for name, node in changes.items():
                if node is not None:
                    self._note(node)
                elif name in self.snapshot.nodes:
                    self._pending[name] = None
            self._swap()

    def replace_runtime_classes(self, runtime_classes: Iterable[RuntimeClass]) -> None:
        """Replace all RuntimeClasses. An unchanged class stays the same object."""
        with self._lock:
            classes = self._noted_classes(runtime_classes)
            self._swap(runtime_classes=classes, runtime_classes_synced=True)

    def replace_suspects(self, suspects: Mapping[bytes, frozenset[Suspect]]) -> None:
        """Replace the handlers that failed, by node."""
        with self._lock:
            before, current = self.snapshot.suspects, self.snapshot
            for name in before.keys() | suspects.keys():
                shape = current.shape(name)
                if shape is not None and before.get(name) != suspects.get(name):
                    shape = replace(shape, suspects=suspects.get(name, frozenset()))
                    self._pending[name] = _NodeState(
                        self._shape_ids.of(shape),
                        current.table.labels[name],
                        current.table.allocatable.get(name, b""),
                    )
            self._swap(suspects=suspects if before != suspects else before)

    def _noted_classes(self, runtime_classes: Iterable[RuntimeClass]) -> Mapping[str, RuntimeClass]:
        """Set `wanted`. Returns the classes by name, in the old mapping if none differs."""
        old = self.snapshot.runtime_classes
        new = {}
        for each in runtime_classes:
            before = old.get(each.name)
            new[each.name] = before if before and before.same_as(each) else each
        if new.keys() == old.keys() and all(new[name] is old[name] for name in new):
            return old
        self._want(Wanted.of(new.values()))
        return new

    def _note_all(self, nodes: Iterable[ObservedNode]) -> None:
        gone = set(self.snapshot.nodes)
        for node in nodes:
            self._note(node)
            gone.discard(node.name)
        for name in gone:
            self._pending[name] = None

    def _note(self, node: ObservedNode) -> None:
        """Note a node's state if it differs from the snapshot's."""
        current, name, labels, shape = self.snapshot, node.name, node.labels, node.bare
        self._conditions[name] = node.conditions
        if self.wanted.entries:
            entries = frozenset(decode(labels, _StringDict).items() & self.wanted.entries)
            shape = replace(shape, selector_entries=entries) if entries else shape
        if self.wanted.is_more_than_entries:
            shape = self._with_rules(shape, node)
        if name in current.suspects:
            shape = replace(shape, suspects=current.suspects[name])
        shape_id = self._shape_ids.of(shape)
        if (
            current.nodes[name] == shape_id
            and current.table.labels.get(name) == labels
            and current.table.allocatable.get(name, b"") == node.allocatable
        ):
            self._pending.pop(name, None)
        else:
            self._pending[name] = _NodeState(shape_id, labels, node.allocatable)

    def _with_rules(self, shape: Shape, node: ObservedNode) -> Shape:
        """The shape with the terms and conditions of classes that the node meets."""
        wanted, met = self.wanted, shape.met
        if wanted.requirements:
            met = wanted.met_by(decode(node.labels, _StringDict), node.name.decode())
        conditions = node.conditions & wanted.conditions
        return replace(shape, met=met, conditions=conditions) if met or conditions else shape

    def _want(self, wanted: Wanted) -> None:
        """Set `wanted`, and update the nodes whose shapes may change by it."""
        before, self.wanted = self.wanted, wanted
        changed = wanted.entries ^ before.entries
        # Any node may meet changed terms or conditions.
        everywhere = wanted.requirements != before.requirements or (
            wanted.conditions != before.conditions
        )
        if not changed and not everywhere:
            return
        current = self.snapshot
        for name, labels in current.table.labels.items():
            if everywhere or decode(labels, _StringDict).items() & changed:
                bare = replace(
                    current.shapes[current.nodes[name]],
                    selector_entries=frozenset(),
                    met=frozenset(),
                    conditions=frozenset(),
                    suspects=frozenset(),
                )
                allocatable = current.table.allocatable.get(name, b"")
                conditions = self._conditions[name]
                self._note(ObservedNode(name, labels, bare, allocatable, conditions))

    def _swap(self, **fields: Any) -> None:
        """Swap in a snapshot with the pending changes and these fields, if anything differs."""
        old, changed = self.snapshot, self._pending
        fields = {"table": self._table(), "shapes": self._shapes(), **fields}
        if all(getattr(old, name) is value for name, value in fields.items()):
            return
        self.snapshot = replace(old, **fields)
        for listener in self._listeners:
            listener(Swap(old, self.snapshot, changed.keys()))

    def _table(self) -> NodeTable:
        """A table with the pending changes; the current one is not changed."""
        current, changes = self.snapshot.table, self._pending
        if not changes:
            return current
        self._pending = {}
        new = NodeTable(current.nodes.copy(), dict(current.labels), dict(current.allocatable))
        for name, state in changes.items():
            if state is None:
                new.nodes.forget(name)
                new.labels.pop(name, None)
                self._conditions.pop(name, None)
            else:
                new.nodes[name] = state.shape_id
                new.labels[name] = state.labels
            if state is not None and state.allocatable:
                new.allocatable[name] = state.allocatable
            else:
                new.allocatable.pop(name, None)
        new_id = self._shape_ids.drop_unused(new.nodes.values())
        if new_id is None:
            return new
        nodes = NodeIndex((name, new_id[old]) for name, old in new.nodes.items())
        return NodeTable(nodes, new.labels, new.allocatable)

    def _shapes(self) -> Shapes:
        shapes = self.snapshot.shapes
        current = self._shape_ids.shapes
        if current == shapes.shapes:
            return shapes
        grown = current[: len(shapes)] == shapes.shapes
        return Shapes(current, shapes if grown else None)


#: Shapes are checked for use when there are this many, and then twice as many as were in use at the
#: last check. Unused shapes are dropped if at most half of all shapes are in use.
MIN_SHAPES: Final = 16


class _ShapeIds:
    """The shapes by id, from 1; id 0 means an unknown node. The store's lock guards it."""

    def __init__(self) -> None:
        self._ids: dict[Shape, ShapeId] = {}
        self._look_at = MIN_SHAPES

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """All shapes in the order of their ids, without a gap."""
        return tuple(self._ids)

    def of(self, shape: Shape) -> ShapeId:
        """The id of a shape, a new one if it has none yet."""
        known = self._ids.get(shape)
        if known is None:
            known = self._ids[shape] = ShapeId(len(self._ids) + 1)
        return known

    def drop_unused(self, in_use: Collection[ShapeId]) -> Mapping[ShapeId, ShapeId] | None:
        """Drop unused shapes. Returns old id → new id of the others, None if all shapes stay."""
        if len(self._ids) < self._look_at:
            return None
        ids = set(in_use)
        self._look_at = max(MIN_SHAPES, 2 * len(ids))
        if 2 * len(ids) > len(self._ids):
            return None
        new_id = {old: ShapeId(new) for new, old in enumerate(sorted(ids), 1)}
        self._ids = {shape: new_id[old] for shape, old in self._ids.items() if old in new_id}
        return new_id
