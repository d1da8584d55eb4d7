"""The state of the cluster at one moment: immutable, swapped whole, read without a lock.

Written by `extender.cluster.snapshot_store`. Node names are bytes: the content of the name's JSON
string, as it stands in requests and answers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from extender.model.errors import not_synced
from extender.model.names import NodeIndex, ShapeId
from extender.model.objects import RuntimeClass, Suspect
from extender.rules.node_shape import Shape
from extender.rules.verdicts import Shapes


@dataclass(frozen=True, eq=False)
class NodeTable:
    """By node name: the shape id, and labels and status.allocatable as JSON objects."""

    nodes: NodeIndex = field(default_factory=NodeIndex)
    labels: dict[bytes, bytes] = field(default_factory=dict)
    allocatable: dict[bytes, bytes] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The known state of the cluster. Readers keep it as long as they need it.

    suspects: node name → its handlers that failed. The node's shape has them too.
    """

    table: NodeTable = field(default_factory=NodeTable)
    shapes: Shapes = field(default_factory=Shapes)
    runtime_classes: Mapping[str, RuntimeClass] = field(default_factory=dict)
    nodes_synced: bool = False
    runtime_classes_synced: bool = False
    suspects: Mapping[bytes, frozenset[Suspect]] = field(default_factory=dict)

    @property
    def nodes(self) -> NodeIndex:
        return self.table.nodes

    @property
    def is_synced(self) -> bool:
        return self.nodes_synced and self.runtime_classes_synced

    @cached_property
    def classes_by_name(self) -> Sequence[RuntimeClass]:
        return sorted(self.runtime_classes.values(), key=lambda each: each.name)

    @cached_property
    def nodes_per_shape(self) -> tuple[int, ...]:
        """The number of nodes of each shape, by shape id. Index 0 is unused."""
        counts = [0] * (len(self.shapes) + 1)
        for shape_id in self.nodes.values():
            counts[shape_id] += 1
        return tuple(counts)

    def shapes_in_use(self) -> Iterator[tuple[ShapeId, Shape, int]]:
        """Each shape that some node has, with its id and the number of its nodes."""
        counts = zip(self.shapes.shapes, self.nodes_per_shape[1:], strict=True)
        for number, (shape, count) in enumerate(counts, 1):
            if count:
                yield ShapeId(number), shape, count

    def shape(self, name: bytes) -> Shape | None:
        shape_id = self.nodes[name]
        return self.shapes[shape_id] if shape_id else None


class SnapshotSource(Protocol):
    @property
    def snapshot(self) -> Snapshot: ...


#: Asks the API server for a class that the snapshot lacks, and waits for the answer: None if there
#: is no such class. Raises UndecidedError if the API server does not answer.
ClassLookup = Callable[[str], RuntimeClass | None]


def no_lookup(name: str) -> RuntimeClass | None:
    """The lookup for manifests, where there is no API server to ask."""
    return None


def find_class(name: str, snapshot: Snapshot, lookup: ClassLookup) -> RuntimeClass | None:
    """The class of that name, None if the name is empty or there is no such class.

    Waits for the API server if the snapshot lacks the class. Raises UndecidedError while the
    classes are not synced, and if the API server does not answer.
    """
    if not name:
        return None
    if not snapshot.runtime_classes_synced:
        raise not_synced("RuntimeClasses")
    return snapshot.runtime_classes.get(name) or lookup(name)
