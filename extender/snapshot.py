"""The cluster at one moment: immutable, swapped whole, read from any thread without a lock.

Nodes of equal shape share one id, so a verdict is worked out once per shape and RuntimeClass, and
a request of N names is N dictionary look-ups in C. Snapshots are written by
`extender.cluster.snapshot_store`.

Node names are bytes here: the content of the name's JSON string, as it stands in requests and
answers. A node's name is a DNS subdomain, so it needs no escape.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from extender.names import NodeIndex
from extender.objects import (
    Features,
    KubeletNeeds,
    Pod,
    RuntimeClass,
    Taint,
    Toleration,
    has_few_words,
)
from extender.predicates.node_checks import Policy, Requirements
from extender.reasons import UNKNOWN_NODE, Reason
from extender.shape import Shape, ShapeId

#: Whatever a pod tolerates, what is asked of so many shapes is worked out in 10 ms. Most clusters
#: have some dozens.
FEW_SHAPES: Final = 1_000

#: Verdict tables kept per set of shapes; one is used per RuntimeClass and kind of tolerations. A
#: table is a byte per shape, or 8 where it has more than 256 different reasons: 1,024 tables of
#: 5,000 shapes are 5 MB, and the 390 of the larger ones that MAX_REASONS leaves are 16 MB.
MAX_TABLES: Final = 1024

#: Reasons in all these tables: with a taint of its own on every node each shape has one, of some
#: 300 bytes, in each table; 100,000 are 30 MB.
MAX_REASONS: Final = 100_000

#: How many toleration lists of pods are remembered; each is only a short cut to a table.
MAX_REMEMBERED_TOLERATIONS: Final = 1024


@dataclass(frozen=True, slots=True)
class VerdictTable:
    """The verdict for every shape: codes[shape id] is an index into reasons, 0 means it passes."""

    reasons: tuple[Reason | None, ...]
    codes: Sequence[int]

    def reason(self, shape_id: ShapeId) -> Reason | None:
        return self.reasons[self.codes[shape_id]]


#: The table for no shapes: unknown nodes are refused.
EMPTY_TABLE: Final = VerdictTable((None, UNKNOWN_NODE), bytes([1]))


def extend_table(
    table: VerdictTable, shapes: Sequence[Shape], mismatch: Callable[[Shape], Reason | None]
) -> VerdictTable:
    """The table with the verdicts of the shapes it does not cover yet.

    mismatch says why a node of a shape is refused, None where it passes.
    """
    reasons = list(table.reasons)
    number = {reason: index for index, reason in enumerate(reasons)}
    codes = list(table.codes)
    # codes[0] is the unknown node's, so shape id n stands at shapes[n - 1].
    for shape in shapes[len(codes) - 1 :]:
        reason = mismatch(shape)
        code = number.get(reason)
        if code is None:
            code = number[reason] = len(reasons)
            reasons.append(reason)
        codes.append(code)
    return VerdictTable(tuple(reasons), bytes(codes) if len(reasons) <= 256 else tuple(codes))


_TableKey = tuple[RuntimeClass | None, frozenset[Taint], Features, KubeletNeeds | None, Policy]
_PodKey = tuple[RuntimeClass | None, tuple[Toleration, ...], Features, KubeletNeeds | None, Policy]


@dataclass(frozen=True, slots=True)
class _Memo:
    """The verdicts worked out so far; `reasons` counts those in all tables.

    `tables` is never changed: another one replaces it, so that a thread that iterates over it sees
    no change. `by_tolerations` is read, added to and counted, each in one step of the interpreter,
    and never iterated over.
    """

    tables: Mapping[_TableKey, VerdictTable] = field(default_factory=dict)
    reasons: int = 0
    by_tolerations: dict[_PodKey, VerdictTable] = field(default_factory=dict)

    def with_table(self, key: _TableKey, table: VerdictTable) -> "_Memo":
        """With one more table, or only with that one where all together would be too many."""
        before = self.tables.get(key)
        count = self.reasons + len(table.reasons) - (len(before.reasons) if before else 0)
        if (before is None and len(self.tables) >= MAX_TABLES) or count > MAX_REASONS:
            return _Memo({key: table}, len(table.reasons))
        return _Memo({**self.tables, key: table}, count, self.by_tolerations)


class Shapes:
    """The different shapes of a cluster's nodes, with the verdicts worked out so far.

    shapes[id] is the shape of that id. The memo of verdicts is shared by all snapshots with the
    same shapes and by all threads. No lock guards it: it is replaced whole, each table in it stays
    right for ever, and when two threads replace it at the same moment, one table is lost, so that a
    race costs double work and nothing else.
    """

    __slots__ = ("_memo", "shapes", "taints")

    def __init__(self, shapes: tuple[Shape, ...] = (), previous: "Shapes | None" = None) -> None:
        """previous has the first of these shapes; its tables are extended as they are needed."""
        self.shapes = shapes
        self.taints: tuple[Taint, ...] = tuple(
            dict.fromkeys(taint for shape in shapes for taint in shape.taints)
        )
        self._memo: _Memo = (
            _Memo(previous._memo.tables, previous._memo.reasons) if previous else _Memo()
        )

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, shape_id: ShapeId) -> Shape:
        return self.shapes[shape_id - 1]

    def verdicts(
        self, pod: Pod, runtime_class: RuntimeClass | None, policy: Policy
    ) -> VerdictTable:
        """The verdict of every shape for this pod and class; from any thread.

        Two pods share a table when their tolerations tolerate the same taints of those that exist
        here, however they are written.
        """
        key = (runtime_class, pod.tolerations, pod.features, pod.kubelet_needs, policy)
        table = self._memo.by_tolerations.get(key)
        if table is None:
            table = self._table(pod, runtime_class, policy)
            if has_few_words(pod.tolerations):
                remembered = self._memo.by_tolerations
                if len(remembered) >= MAX_REMEMBERED_TOLERATIONS:
                    remembered.clear()
                remembered[key] = table
        return table

    def takes_long(self, pod: Pod, runtime_class: RuntimeClass | None, policy: Policy) -> bool:
        """Whether these verdicts have to be worked out, and that takes more than milliseconds."""
        if len(self.shapes) <= FEW_SHAPES:
            return False
        key = (runtime_class, pod.tolerations, pod.features, pod.kubelet_needs, policy)
        return key not in self._memo.by_tolerations

    def _table(self, pod: Pod, runtime_class: RuntimeClass | None, policy: Policy) -> VerdictTable:
        requirements = Requirements.of(pod, runtime_class, policy)
        tolerates = requirements.tolerations.tolerates
        tolerated = frozenset(taint for taint in self.taints if tolerates(taint))
        key = (runtime_class, tolerated, pod.features, pod.kubelet_needs, policy)
        table = self._memo.tables.get(key, EMPTY_TABLE)
        if len(table.codes) <= len(self.shapes):
            table = extend_table(table, self.shapes, requirements.mismatch)
            self._memo = self._memo.with_table(key, table)
        return table


@dataclass(frozen=True, eq=False)
class NodeTable:
    """The nodes by name: nodes has their shape's id, labels their labels as a JSON object.

    allocatable has status.allocatable as JSON, of those nodes that have one.

    The store reuses the dictionaries once nothing refers to the table any more, so a reader of one
    of them keeps the table, or the snapshot that has it.
    """

    nodes: NodeIndex = field(default_factory=NodeIndex)
    labels: dict[bytes, bytes] = field(default_factory=dict)
    allocatable: dict[bytes, bytes] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The known state of the cluster. Readers keep it as long as they need it."""

    table: NodeTable = field(default_factory=NodeTable)
    shapes: Shapes = field(default_factory=Shapes)
    runtime_classes: Mapping[str, RuntimeClass] = field(default_factory=dict)
    nodes_synced: bool = False
    runtime_classes_synced: bool = False

    @property
    def nodes(self) -> NodeIndex:
        return self.table.nodes

    @property
    def labels(self) -> Mapping[bytes, bytes]:
        return self.table.labels

    @property
    def allocatable(self) -> Mapping[bytes, bytes]:
        return self.table.allocatable

    @property
    def is_synced(self) -> bool:
        """Whether all Nodes and RuntimeClasses are known."""
        return self.nodes_synced and self.runtime_classes_synced

    @cached_property
    def classes_by_name(self) -> Sequence[RuntimeClass]:
        """The RuntimeClasses in the order of their names."""
        return sorted(self.runtime_classes.values(), key=lambda each: each.name)

    @cached_property
    def nodes_per_shape(self) -> tuple[int, ...]:
        """How many nodes have the shape of id n; index 0 is unused."""
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
