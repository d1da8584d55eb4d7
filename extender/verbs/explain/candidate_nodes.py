"""The nodes that an explanation is about: all of a snapshot, or those of a request."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import orjson

from extender.decoding.decoder import decode
from extender.objects import Node
from extender.predicates.shape_parts import Wanted
from extender.shape import Shape, ShapeId
from extender.snapshot import Shapes, Snapshot

_Labels: Final = dict[str, str]

#: For more keys than this, which only a pod's author can ask for, all labels are decoded.
_MAX_NEEDLES: Final = 16


class Labels(Protocol):
    """The labels of known nodes, by position."""

    def __call__(self, position: int) -> Mapping[str, str]: ...

    def glimpse(self, keys: Collection[str]) -> Callable[[int], Hashable]:
        """A value that is equal only for nodes with the same labels of these keys; cheap."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Nodes in columns: names, and the id of each one's shape, 0 for one that is not known.

    allocatable gives a node's status.allocatable as JSON, empty where there is none.
    """

    names: Sequence[bytes]
    ids: Sequence[ShapeId]
    shapes: Shapes
    labels: Labels
    allocatable: Callable[[int], bytes]


class _StoredLabels:
    """Labels as a snapshot keeps them: canonical JSON (cluster.snapshot_store.canonical_labels)."""

    def __init__(self, snapshot: Snapshot, names: Sequence[bytes]) -> None:
        # Keeps the snapshot, not its dictionary: the store reuses that once nothing refers to its
        # table.
        self._snapshot = snapshot
        self._names = names

    def __call__(self, position: int) -> Mapping[str, str]:
        return decode(self._snapshot.labels[self._names[position]], _Labels)

    def glimpse(self, keys: Collection[str]) -> Callable[[int], Hashable]:
        """The values as they are in the JSON: decoding all labels takes twice as long."""
        if len(keys) > _MAX_NEEDLES:
            wanted = frozenset(keys)
            return lambda position: frozenset(
                each for each in self(position).items() if each[0] in wanted
            )
        # A quote within a key or value is escaped, so a quote after a comma opens a key.
        needles = [b"," + orjson.dumps(key) + b':"' for key in keys]
        labels, names = self._snapshot.labels, self._names

        def look(position: int) -> Hashable:
            raw = labels[names[position]]
            listed = b"," + raw[1:]
            values: list[bytes | None] = []
            for needle in needles:
                start = listed.find(needle)
                if start < 0:
                    values.append(None)
                    continue
                start += len(needle)
                end = listed.find(b'"', start)
                value = listed[start:end]
                # Not found if it lies within a key that no API server accepts, such as ",".
                values.append(raw if end < 0 or value.endswith(b"\\") else value)
            return tuple(values)

        return look


class _DescribedLabels:
    """Labels of nodes that came with the request."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes

    def __call__(self, position: int) -> Mapping[str, str]:
        return self._nodes[position].labels

    def glimpse(self, keys: Collection[str]) -> Callable[[int], Hashable]:
        return lambda position: tuple(map(self._nodes[position].labels.get, keys))


def nodes_of(snapshot: Snapshot, names: Sequence[bytes] | None = None) -> Candidates:
    """The named nodes of a snapshot in that order; all of them by name when None."""
    asked = sorted(snapshot.nodes) if names is None else names
    ids = list(snapshot.nodes.numbers(asked))

    def allocatable(position: int) -> bytes:
        return snapshot.allocatable.get(asked[position], b"")

    return Candidates(asked, ids, snapshot.shapes, _StoredLabels(snapshot, asked), allocatable)


def described_nodes(nodes: Sequence[Node], names: Sequence[bytes], wanted: Wanted) -> Candidates:
    """Nodes as a request describes them; names in their order."""
    number: dict[Shape, ShapeId] = {}
    ids = [number.setdefault(wanted.shape_of(node), ShapeId(len(number) + 1)) for node in nodes]
    shapes, labels = Shapes(tuple(number)), _DescribedLabels(nodes)
    return Candidates(names, ids, shapes, labels, lambda position: nodes[position].allocatable)
