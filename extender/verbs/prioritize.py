"""The prioritize verb: keep nodes that serve rare RuntimeClasses free for those classes' pods.

cost(node) = the number of distinct constraint sets (nodeSelector, tolerations, and the terms and
conditions of annotations) among the RuntimeClasses that the node serves, without the set of the
pod's own class. Distinct, because one installer may create 18 classes with one selector. score =
10 // (1 + cost - the lowest cost of a known node in the request). An unknown node scores 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from extender.model.names import NameRun, ShapeId
from extender.model.objects import Node, RuntimeClass
from extender.rules.class_nodes import ClassIndex, ConstraintKey, ShapeMemo, constraint_key
from extender.rules.node_checks import HandlerCheck
from extender.rules.node_shape import Shape
from extender.rules.snapshot import Snapshot
from extender.verbs.bodies import Chunks

#: extenderv1.MaxExtenderPriority.
MAX_SCORE: Final = 10

#: The most different costs that are distinguished. Beyond that, the highest costs count as one.
_MAX_LEVELS: Final = 255


def _cost(served: frozenset[ConstraintKey], own: ConstraintKey | None) -> int:
    return len(served) - (own in served)


@dataclass(frozen=True, slots=True)
class Scores:
    """The score of each node of the request: by_code[code of the node], 0 to MAX_SCORE.

    lowest, highest: the lowest and the highest score in the request.
    """

    codes: bytes
    by_code: bytes
    lowest: int
    highest: int

    @classmethod
    def of(cls, codes: bytes, levels: Sequence[int]) -> Self:
        """levels: the cost of each code, ascending. The code len(levels) is for unknown nodes."""
        present = [code for code in range(len(levels) + 1) if code in codes]
        least = levels[present[0]] if present and present[0] < len(levels) else 0
        scores = [MAX_SCORE // (1 + max(cost - least, 0)) for cost in levels]
        scores.append(0)
        found = [scores[code] for code in present] or [0]
        return cls(codes, bytes(scores), min(found), max(found))

    @property
    def scores(self) -> bytes:
        return self.codes.translate(self.by_code.ljust(256, b"\0"))

    @property
    def above_lowest(self) -> bytes | None:
        """Each node's score minus the lowest score of the request. None if all are equal."""
        if self.lowest == self.highest:
            return None
        above = bytes(max(0, score - self.lowest) for score in self.by_code)
        return self.codes.translate(above.ljust(256, b"\0"))


class CostTable(NamedTuple):
    """The costs of nodes to the pods of a class, by shape id. Id 0 is the unknown node.

    levels: the different costs, ascending. codes: the index in levels of each shape's cost. A node
    where the class's handler is suspect counts as unknown, so it scores lowest.
    """

    costs: Sequence[int]
    levels: Sequence[int]
    codes: bytes

    @classmethod
    def of(cls, costs: Sequence[int | None]) -> Self:
        levels = sorted({each for each in costs if each is not None})[:_MAX_LEVELS]
        code: dict[int | None, int] = {cost: index for index, cost in enumerate(levels)}
        code[None] = len(levels)
        codes = (code.get(cost, len(levels) - 1) for cost in costs)
        return cls((0, *(each or 0 for each in costs)), levels, bytes((len(levels), *codes)))


class Preferences:
    """The costs of nodes, computed once per shape and set of RuntimeClasses. Thread-safe.

    A cost table is cached when a pod needs it, until the shapes or the RuntimeClasses change.
    """

    def __init__(self, check: HandlerCheck) -> None:
        self._memo = ShapeMemo(check, ClassIndex.served_constraints, frozenset[ConstraintKey]())
        #: The cost tables computed so far for these shapes, by the pod's class.
        self._costs: tuple[object, dict[RuntimeClass | None, CostTable]] = (None, {})

    def scores(self, own: RuntimeClass | None, snapshot: Snapshot, names: NameRun) -> Scores:
        """Score nodes of the snapshot by name. own: the pod's RuntimeClass."""
        table = self.cost_table(own, snapshot)
        codes = bytes(snapshot.table.nodes.translate(names, table.codes))
        return Scores.of(codes, table.levels)

    def scores_of_nodes(
        self, own: RuntimeClass | None, snapshot: Snapshot, nodes: Sequence[Node]
    ) -> Scores:
        """Score whole Nodes of a request, by the snapshot's RuntimeClasses."""
        index = self._memo.of(snapshot).index
        key = constraint_key(own) if own else None

        def cost(shape: Shape) -> int:
            return _cost(index.served_constraints(shape), key)

        costs: list[int | None] = [*index.wanted.judge(nodes, cost)]
        for place, node in enumerate(nodes) if snapshot.suspects and own else ():
            there = snapshot.suspects.get(node.name.encode(), ())
            if own and any(each.handler == own.handler for each in there):
                costs[place] = None
        table = CostTable.of(costs)
        return Scores.of(table.codes[1:], table.levels)

    def served_classes(self, snapshot: Snapshot, shape_id: ShapeId) -> Sequence[str]:
        """The sorted names of the classes that a known node of the shape serves."""
        index = self._memo.of(snapshot).index
        groups = index.served(snapshot.shapes[shape_id])
        return sorted(name for group in groups for name in group.names)

    def cost_table(self, own: RuntimeClass | None, snapshot: Snapshot) -> CostTable:
        known, (judged, by_class) = self._memo.of(snapshot), self._costs
        if judged is not known:
            by_class = {}
            self._costs = known, by_class
        table = by_class.get(own)
        if table is None:
            key = constraint_key(own) if own else None
            costs = zip(known.shapes, known.found[1:], strict=True)
            table = CostTable.of(
                [
                    None if own and shape.suspect(own.handler) else _cost(served, key)
                    for shape, served in costs
                ]
            )
            by_class[own] = table
        return table


_NEXT_HOST: Final = b',{"Host":"'
_SCORES: Final = tuple(b'","Score":%d}' % score + _NEXT_HOST for score in range(1, MAX_SCORE + 1))


def encode_scores(names: NameRun, above: bytes | None) -> Chunks:
    """HostPriorityList: a bare array of the hosts above the lowest score, in the request's order.

    above: each name's score above the lowest, None if all are equal. kube-scheduler adds the scores
    that it receives, and nothing to other hosts (schedule_one.go, prioritizeNodes, v1.36.2).
    """
    if above is None:
        return [b"[]"]
    _, listed = names.part(above, _SCORES, len(_NEXT_HOST), keep=False)
    return [b'[{"Host":"', listed, b"]"]
