"""The prioritize verb: keep nodes that serve rare RuntimeClasses free for those classes' pods.

cost(node) = the number of distinct constraint sets (nodeSelector, tolerations, and the terms and
conditions of annotations) among the RuntimeClasses that the node serves, the pod's own class's set
left out. Distinct, because one installer may make 18 classes with one selector. A node's score is
10 // (1 + its cost above the cheapest known node of the request); an unknown node scores 0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Self

from extender.names import NameRun
from extender.objects import Node, RuntimeClass
from extender.predicates.node_checks import HandlerCheck
from extender.shape import ShapeId
from extender.snapshot import Snapshot
from extender.verbs.class_index import (
    ClassIndex,
    ConstraintKey,
    KnownShapes,
    ShapeMemo,
    constraint_key,
)

#: extenderv1.MaxExtenderPriority.
MAX_SCORE: Final = 10

#: Stands for the cost of a node that is not known.
UNKNOWN_COST: Final = -1

#: The same where costs are bytes.
_NO_COST: Final = 255


def _cost(served: frozenset[ConstraintKey], own: ConstraintKey | None) -> int:
    return len(served) - (own in served)


@cache
def _scores_above(least: int) -> bytes:
    """Scores indexed by cost, where the cheapest node costs `least`; 0 for an unknown node."""
    known = (MAX_SCORE // (1 + max(cost - least, 0)) for cost in range(_NO_COST))
    return bytes((*known, 0))


@cache
def _above(least: int, greatest: int) -> bytes:
    """The same, less the score of the dearest node; 0 for costs that are higher still."""
    scores = _scores_above(least)
    return bytes(max(0, score - scores[greatest]) for score in scores)


@dataclass(frozen=True, slots=True)
class Scores:
    """One score of 0..MAX_SCORE per node of the request, in its order.

    costs has what the nodes cost; least and greatest are the lowest and the highest of these, where
    that of a node that is not known, _NO_COST, is the highest.
    """

    costs: bytes
    least: int
    greatest: int

    @classmethod
    def of(cls, costs: bytes, most: int) -> Self:
        """The scores of nodes that cost this, `most` at most, or _NO_COST if they are not known."""
        # A search for a value stops at the first one; min() would look at every node.
        least, greatest = 0, most
        while least <= most and least not in costs:
            least += 1
        if least > most:
            return cls(costs, _NO_COST, _NO_COST)
        while greatest > least and greatest not in costs:
            greatest -= 1
        return cls(costs, least, _NO_COST if _NO_COST in costs else greatest)

    @property
    def scores(self) -> bytes:
        return self.costs.translate(_scores_above(self.least))

    @property
    def above_lowest(self) -> bytes | None:
        """Each node's score less the lowest score of the request; None where all are equal."""
        table = _above(self.least, self.greatest)
        return self.costs.translate(table) if table[self.least] else None


def _scores_of(costs: Sequence[int]) -> Scores:
    """The scores of nodes that cost this, UNKNOWN_COST for unknown ones; the costs may be any."""
    least = min((cost for cost in costs if cost != UNKNOWN_COST), default=0)
    # MAX_SCORE above the least, and more, is a score of 0.
    codes = (_NO_COST if cost == UNKNOWN_COST else min(cost - least, MAX_SCORE) for cost in costs)
    return Scores.of(bytes(codes), MAX_SCORE)


@dataclass(frozen=True, slots=True)
class CostTable:
    """What a node costs the pods of a class, indexed by shape id; 0 is the unknown node's.

    codes are the costs as bytes, with _NO_COST for unknown nodes; None where a cost does not fit
    into a byte. most is the highest cost.
    """

    costs: tuple[int, ...]
    codes: bytes | None
    most: int

    @classmethod
    def of(cls, served: Iterable[frozenset[ConstraintKey]], own: ConstraintKey | None) -> Self:
        """served has the constraints that each known shape serves, in the order of shape ids."""
        costs = tuple(_cost(each, own) for each in served)
        most = max(costs, default=0)
        codes = bytes((_NO_COST, *costs)) if most < _NO_COST else None
        return cls((UNKNOWN_COST, *costs), codes, most)


@dataclass(frozen=True, slots=True)
class _Costs:
    """The cost tables worked out so far, by class and by constraints."""

    known: KnownShapes[frozenset[ConstraintKey]]
    by_class: dict[RuntimeClass | None, CostTable] = field(default_factory=dict)
    by_constraints: dict[ConstraintKey | None, CostTable] = field(default_factory=dict)


class Preferences:
    """The costs of nodes, worked out once per shape and set of RuntimeClasses.

    Owned by the service, shared by prioritize and explain and by all their threads. The cost
    tables are added as pods ask for them, and dropped when shapes or RuntimeClasses change.
    """

    def __init__(self, check: HandlerCheck) -> None:
        self._memo = ShapeMemo(check, ClassIndex.served_constraints, frozenset[ConstraintKey]())
        self._costs = _Costs(self._memo.of(Snapshot()))

    def takes_long(self, snapshot: Snapshot) -> bool:
        """Whether costs have to be worked out, and that takes more than milliseconds."""
        return self._memo.takes_long(snapshot)

    def scores(self, own: RuntimeClass | None, snapshot: Snapshot, names: NameRun) -> Scores:
        """Score nodes of the snapshot by name; own is the pod's RuntimeClass."""
        table = self.cost_table(own, snapshot)
        if table.codes is None:
            return _scores_of(snapshot.nodes.translate(names, table.costs))
        return Scores.of(bytes(snapshot.nodes.translate(names, table.codes)), table.most)

    def scores_of_nodes(
        self, own: RuntimeClass | None, snapshot: Snapshot, nodes: Sequence[Node]
    ) -> Scores:
        """Score nodes as the request describes them, by the snapshot's RuntimeClasses."""
        index = self._memo.of(snapshot).index
        key = constraint_key(own) if own else None
        known: dict[tuple[object, ...], int] = {}
        costs = []
        wanted, wanted_values = index.wanted.entries, index.wanted_values
        has_rules = index.wanted.is_more_than_entries
        for node in nodes:
            labels = node.labels
            # Go through the wanted keys or the node's labels, whichever are fewer.
            found: tuple[object, ...] = (
                tuple([values.get(labels.get(key)) for key, values in wanted_values])
                if len(wanted_values) < len(labels)
                else tuple([entry for entry in labels.items() if entry in wanted])
            )
            # Taints and handlers by identity, as in match_nodes: only the entries are hashed.
            state: tuple[object, ...] = (
                found,
                id(node.taints),
                id(node.handlers),
                node.is_docker,
            )
            if has_rules:
                met = index.wanted.met_by(labels, node.name)
                state = (*state, met, id(node.conditions))
            cost = known.get(state)
            if cost is None:
                shape = index.wanted.shape_of(node)
                cost = known[state] = _cost(index.served_constraints(shape), key)
            costs.append(cost)
        return _scores_of(costs)

    def served_classes(self, snapshot: Snapshot, shape_id: ShapeId) -> Sequence[str]:
        """The names, in order, of the classes that a known node of the shape serves."""
        index = self._memo.of(snapshot).index
        groups = index.served(snapshot.shapes[shape_id])
        return sorted(name for group in groups for name in group.names)

    def cost_table(self, own: RuntimeClass | None, snapshot: Snapshot) -> CostTable:
        """What nodes cost a pod of the class."""
        known, costs = self._memo.of(snapshot), self._costs
        if costs.known is not known:
            costs = self._costs = _Costs(known)
        table = costs.by_class.get(own)
        if table is None:
            key = constraint_key(own) if own else None
            table = costs.by_constraints.get(key)
            if table is None:
                table = costs.by_constraints[key] = CostTable.of(known.found[1:], key)
            costs.by_class[own] = table
        return table
