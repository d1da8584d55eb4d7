"""Writes snapshots: takes node and RuntimeClass changes, folds them, swaps the result in whole.

Owner: the threads that follow the sources (reflectors or manifests); they take the store's lock
around each call. Readers only ever read `snapshot`, which needs no lock.
"""

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import orjson

from extender.decoding import decode
from extender.objects import Node, RuntimeClass, Shape, shape_of
from extender.snapshot import NodeIndex, NodeTable, Shapes, Snapshot, selector_entries

_StringDict = dict[str, str]

#: Shapes that no node has any more are dropped when the number of shapes has doubled since the
#: last look and less than half are in use; below this many they are not worth a look.
_MIN_SHAPES: Final = 64


@dataclass(frozen=True, slots=True)
class NodeState:
    """What of a node is kept: its shape's id and its labels as canonical JSON."""

    shape_id: int
    labels: bytes


Changes = dict[bytes, NodeState | None]


@dataclass(slots=True)
class _Retired:
    """The dictionaries of the table before the current one, which readers may still have.

    Once none has, they are brought up to date and used again: a change of one node costs a few
    changed entries, not a copy of 65,000. `missed` is what the current table has and these don't.
    """

    table: "weakref.ref[NodeTable]"
    nodes: NodeIndex
    labels: dict[bytes, bytes]
    missed: Changes


def _apply(changes: Changes, nodes: NodeIndex, labels: dict[bytes, bytes]) -> None:
    for name, state in changes.items():
        if state is None:
            nodes.pop(name, None)
            labels.pop(name, None)
        else:
            nodes[name] = state.shape_id
            labels[name] = state.labels


class SnapshotStore:
    """The one writer of snapshots."""

    def __init__(self) -> None:
        self.snapshot = Snapshot()
        self._lock = threading.Lock()
        self._shape_ids: dict[Shape, int] = {}
        self._wanted: frozenset[tuple[str, str]] = frozenset()
        self._pending: Changes = {}
        self._retired: _Retired | None = None
        self._look_at = _MIN_SHAPES
        self._listeners: list[Callable[[Snapshot], None]] = []

    def subscribe(self, listener: Callable[[Snapshot], None]) -> None:
        """Have a function called after each swap, on the writer's thread, with no lock held."""
        self._listeners.append(listener)

    def replace_nodes(self, nodes: Iterable[Node]) -> None:
        """All nodes at once, as from a list; swaps once, or not at all when nothing differs."""
        with self._lock:
            self._note_all(nodes)
            swapped = self._swap(nodes_synced=True)
        self._tell(swapped)

    def replace_all(self, nodes: Iterable[Node], runtime_classes: Iterable[RuntimeClass]) -> None:
        """Nodes and RuntimeClasses in one swap, as from manifests."""
        with self._lock:
            classes = self._noted_classes(runtime_classes)
            self._note_all(nodes)
            swapped = self._swap(
                runtime_classes=classes, nodes_synced=True, runtime_classes_synced=True
            )
        self._tell(swapped)

    def change_nodes(self, changed: Iterable[Node], deleted: Iterable[str]) -> None:
        """Single changes, folded into one swap; none when no shape and no label differs."""
        with self._lock:
            for node in changed:
                self._upsert(node)
            for name in deleted:
                self._delete(name.encode())
            swapped = self._swap()
        self._tell(swapped)

    def replace_runtime_classes(self, runtime_classes: Iterable[RuntimeClass]) -> None:
        """All RuntimeClasses at once. One that did not change stays the same object."""
        with self._lock:
            swapped = self._swap(
                runtime_classes=self._noted_classes(runtime_classes), runtime_classes_synced=True
            )
        self._tell(swapped)

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
        self._want(selector_entries(new.values()))
        return new

    def _note_all(self, nodes: Iterable[Node]) -> None:
        seen = {self._upsert(node) for node in nodes}
        for name in self.snapshot.nodes.keys() - seen:
            self._pending[name] = None

    def _tell(self, swapped: bool) -> None:
        if swapped:
            for listener in self._listeners:
                listener(self.snapshot)

    def _upsert(self, node: Node) -> bytes:
        """Note a node's state if it differs from the snapshot's; answers its name."""
        name = node.name.encode()
        labels = orjson.dumps(dict(node.labels), option=orjson.OPT_SORT_KEYS)
        self._note(name, NodeState(self._shape_id(shape_of(node, self._wanted)), labels))
        return name

    def _note(self, name: bytes, state: NodeState) -> None:
        current = self.snapshot
        if current.nodes[name] == state.shape_id and current.labels.get(name) == state.labels:
            self._pending.pop(name, None)
        else:
            self._pending[name] = state

    def _delete(self, name: bytes) -> None:
        if name in self.snapshot.nodes:
            self._pending[name] = None
        else:
            self._pending.pop(name, None)

    def _shape_id(self, shape: Shape) -> int:
        # Id 0 is the unknown node's.
        return self._shape_ids.setdefault(shape, len(self._shape_ids) + 1)

    def _want(self, entries: frozenset[tuple[str, str]]) -> None:
        """Labels that matter have become more: look at the nodes that may have the new ones."""
        added = entries - self._wanted
        if not added:
            return
        self._wanted |= added
        needles = [orjson.dumps({key: value})[1:-1] for key, value in added]
        known = list(self._shape_ids)
        for name, labels in self.snapshot.labels.items():
            if not any(needle in labels for needle in needles):
                continue
            found = decode(labels, _StringDict).items() & added
            shape_id = self.snapshot.nodes[name]
            if found:
                shape = known[shape_id - 1]
                shape = replace(shape, selector_entries=shape.selector_entries | found)
                self._note(name, NodeState(self._shape_id(shape), labels))

    def _swap(
        self,
        *,
        runtime_classes: Mapping[str, RuntimeClass] | None = None,
        nodes_synced: bool = False,
        runtime_classes_synced: bool = False,
    ) -> bool:
        """Make the pending changes a snapshot; False when there is nothing to change."""
        old = self.snapshot
        if (
            not self._pending
            and runtime_classes is None
            and nodes_synced <= old.nodes_synced
            and runtime_classes_synced <= old.runtime_classes_synced
        ):
            return False
        table = self._table()
        self.snapshot = Snapshot(
            table,
            self._shapes(),
            old.runtime_classes if runtime_classes is None else runtime_classes,
            nodes_synced or old.nodes_synced,
            runtime_classes_synced or old.runtime_classes_synced,
        )
        return True

    def _table(self) -> NodeTable:
        """The current table with the pending changes; the current one itself is left alone."""
        current = self.snapshot.table
        if not self._pending:
            return current
        retired = self._retired
        if retired is not None and retired.table() is None:
            nodes, labels = retired.nodes, retired.labels
            _apply(retired.missed, nodes, labels)
        else:
            nodes, labels = NodeIndex(current.nodes), dict(current.labels)
        _apply(self._pending, nodes, labels)
        self._retired = _Retired(weakref.ref(current), current.nodes, current.labels, self._pending)
        self._pending = {}
        return self._renumbered(NodeTable(nodes, labels))

    def _renumbered(self, table: NodeTable) -> NodeTable:
        """The table without the shapes that nobody has, when there are many of them."""
        if len(self._shape_ids) < self._look_at:
            return table
        used = sorted(set(table.nodes.values()))
        self._look_at = max(_MIN_SHAPES, 2 * len(used))
        if 2 * len(used) > len(self._shape_ids):
            return table
        shapes = list(self._shape_ids)
        new_id = {old: new for new, old in enumerate(used, 1)}
        self._shape_ids = {shapes[old - 1]: new for old, new in new_id.items()}
        self._retired = None
        nodes = NodeIndex((name, new_id[old]) for name, old in table.nodes.items())
        return NodeTable(nodes, table.labels)

    def _shapes(self) -> Shapes:
        shapes = self.snapshot.shapes
        current = tuple(self._shape_ids)
        if current == shapes.shapes:
            return shapes
        grown = current[: len(shapes)] == shapes.shapes
        return Shapes(current, shapes if grown else None)
