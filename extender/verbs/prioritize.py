"""The prioritize verb: keep nodes that serve rare RuntimeClasses free for those classes' pods.

cost(node) = the number of distinct constraint sets (nodeSelector, tolerations) among the
RuntimeClasses that the node serves, the pod's own class's set left out. Distinct, because one
installer may make 18 classes with one selector. A node's score is 10 // (1 + its cost above the
cheapest known node of the request); an unknown node scores 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from extender.names import NameRun
from extender.objects import Node, RuntimeClass, Shape, Toleration, shape_of, untimed
from extender.predicates.runtimeclass import HandlerCheck, is_condition_taint, serves
from extender.predicates.tolerations import TolerationSet
from extender.snapshot import Snapshot, selector_entries

#: extenderv1.MaxExtenderPriority.
MAX_SCORE: Final = 10

#: The cost of a node that is not known: none.
UNKNOWN_COST: Final = -1

#: Stands for it where costs are bytes.
_NO_COST: Final = 255

#: By the lowest score: each score less that.
_ABOVE: Final = tuple(
    bytes(max(0, score - lowest) for score in range(MAX_SCORE + 1)).ljust(256, b"\0")
    for lowest in range(MAX_SCORE + 1)
)

Entry = tuple[str, str]
ConstraintKey = tuple[tuple[Entry, ...], frozenset[Toleration]]


@dataclass(frozen=True, slots=True)
class ConstraintSet:
    """RuntimeClasses that ask the same of a node, but perhaps for different handlers.

    One class per handler stands for the others.
    """

    key: ConstraintKey
    classes: tuple[RuntimeClass, ...]
    tolerations: TolerationSet

    def serves(self, shape: Shape, check: HandlerCheck) -> bool:
        return any(serves(each, self.tolerations, shape, check) for each in self.classes)


def constraint_key(runtime_class: RuntimeClass) -> ConstraintKey:
    return runtime_class.node_selector, frozenset(map(untimed, runtime_class.tolerations))


class ConstraintIndex:
    """The distinct constraint sets, found by what a node has: few of 1,000 concern one node."""

    def __init__(self, runtime_classes: Iterable[RuntimeClass]) -> None:
        runtime_classes = tuple(runtime_classes)
        #: The labels that matter, for nodes that are described in a request.
        self.wanted = selector_entries(runtime_classes)
        self.wanted_keys = sorted({key for key, _ in self.wanted})
        by_key: dict[ConstraintKey, dict[str, RuntimeClass]] = {}
        for each in runtime_classes:
            by_key.setdefault(constraint_key(each), {}).setdefault(each.handler, each)
        self._without_selector: list[ConstraintSet] = []
        self._by_entry: dict[Entry, list[ConstraintSet]] = {}
        for key, by_handler in by_key.items():
            found = ConstraintSet(key, tuple(by_handler.values()), TolerationSet(key[1]))
            # A node must have all entries, so looking at one of them is enough to find the set.
            selector = key[0]
            same = self._by_entry.setdefault(selector[0], []) if selector else None
            (self._without_selector if same is None else same).append(found)

    def served_by(self, shape: Shape, check: HandlerCheck) -> frozenset[ConstraintKey]:
        """The constraint sets of the classes that a node of this shape serves."""
        candidates = [
            found for entry in shape.selector_entries for found in self._by_entry.get(entry, ())
        ]
        if any(not is_condition_taint(taint) for taint in shape.taints):
            candidates += self._without_selector
        return frozenset(each.key for each in candidates if each.serves(shape, check))


def _cost(served: frozenset[ConstraintKey], own: ConstraintKey | None) -> int:
    return len(served) - (own in served)


def _score(cost: int, least: int) -> int:
    return 0 if cost == UNKNOWN_COST else MAX_SCORE // (1 + max(cost - least, 0))


@dataclass(frozen=True, slots=True)
class Scores:
    """One integer of 0..MAX_SCORE per node of the request, in its order."""

    scores: bytes

    @property
    def above_lowest(self) -> bytes:
        """For each node by how much it is above the lowest score of the request."""
        lowest = next((score for score in range(MAX_SCORE + 1) if score in self.scores), 0)
        return self.scores.translate(_ABOVE[lowest])


@cache
def _scores_above(least: int) -> bytes:
    """The score by cost, where the cheapest node costs `least`; of an unknown node 0."""
    return bytes((*(_score(cost, least) for cost in range(_NO_COST)), 0))


class Preferences:
    """What nodes cost, worked out once per shape and set of RuntimeClasses.

    Owned by the service, shared by prioritize and explain and by all their threads. What it knows
    of a set of shapes and RuntimeClasses is replaced whole; the costs by a class's constraints are
    added to that as pods ask for them, one a constraint set. Two threads that find something
    missing do the same work twice.
    """

    def __init__(self, check: HandlerCheck) -> None:
        self._check = check
        self._known = _Known({}, (), ConstraintIndex(()), (frozenset(),), {}, {})

    def scores(self, own: RuntimeClass | None, snapshot: Snapshot, names: NameRun) -> Scores:
        """Score nodes of the snapshot by name; own is the pod's RuntimeClass."""
        costs = self.cost_table(own, snapshot)
        codes = self._codes(own, snapshot)
        if codes is None:
            found = snapshot.nodes.translate(names, costs)
            least = min((cost for cost in found if cost != UNKNOWN_COST), default=0)
            return Scores(bytes(_score(cost, least) for cost in found))
        found_codes = bytes(snapshot.nodes.translate(names, codes))
        # Looking for a value stops at its first place; min() would look at every node.
        least = next((cost for cost in range(_NO_COST) if cost in found_codes), 0)
        return Scores(found_codes.translate(_scores_above(least)))

    def scores_of_nodes(
        self, own: RuntimeClass | None, snapshot: Snapshot, nodes: Sequence[Node]
    ) -> Scores:
        """Score nodes as the request describes them, by the snapshot's RuntimeClasses."""
        index = self._of(snapshot).index
        key = constraint_key(own) if own else None
        known: dict[tuple[object, ...], int] = {}
        costs = []
        wanted, keys = index.wanted, index.wanted_keys
        for node in nodes:
            labels = node.labels
            # Whichever of the two are fewer, what is wanted or what the node has.
            entries = (
                [(key, labels[key]) for key in keys if key in labels]
                if len(keys) < len(labels)
                else labels.items()
            )
            found = tuple([entry for entry in entries if entry in wanted])
            # By identity, as in match_nodes: nothing but the entries is hashed.
            state = (found, id(node.taints), id(node.handlers), node.is_docker)
            cost = known.get(state)
            if cost is None:
                shape = shape_of(node, wanted)
                cost = known[state] = _cost(index.served_by(shape, self._check), key)
            costs.append(cost)
        least = min(costs, default=0)
        return Scores(bytes(MAX_SCORE // (1 + cost - least) for cost in costs))

    def served(self, snapshot: Snapshot) -> Sequence[frozenset[ConstraintKey]]:
        """By shape id: the constraint sets that a node of the shape serves."""
        return self._of(snapshot).served

    def cost_table(self, own: RuntimeClass | None, snapshot: Snapshot) -> Sequence[int]:
        """By shape id: what a node costs a pod of the class; id 0 is the unknown node's."""
        known = self._of(snapshot)
        key = constraint_key(own) if own else None
        table = known.costs.get(key)
        if table is None:
            costs = (_cost(served, key) for served in known.served[1:])
            table = known.costs[key] = (UNKNOWN_COST, *costs)
        return table

    def _codes(self, own: RuntimeClass | None, snapshot: Snapshot) -> bytes | None:
        """The cost table as bytes, _NO_COST for unknown nodes; None where a cost is no byte."""
        known = self._of(snapshot)
        key = constraint_key(own) if own else None
        if key not in known.codes:
            costs = self.cost_table(own, snapshot)
            known.codes[key] = bytes((_NO_COST, *costs[1:])) if max(costs) < _NO_COST else None
        return known.codes[key]

    def _of(self, snapshot: Snapshot) -> "_Known":
        known, shapes = self._known, snapshot.shapes.shapes
        if known.runtime_classes is not snapshot.runtime_classes:
            index = ConstraintIndex(snapshot.runtime_classes.values())
            known = _Known(snapshot.runtime_classes, (), index, (frozenset(),), {}, {})
        if known.shapes is not shapes:
            same = len(known.shapes)
            if known.shapes != shapes[:same]:
                same = 0
            added = [known.index.served_by(shape, self._check) for shape in shapes[same:]]
            served = (*known.served[: same + 1], *added)
            known = _Known(known.runtime_classes, shapes, known.index, served, {}, {})
        self._known = known
        return known


@dataclass(frozen=True, slots=True)
class _Known:
    runtime_classes: Mapping[str, RuntimeClass]
    shapes: tuple[Shape, ...]
    index: ConstraintIndex
    served: tuple[frozenset[ConstraintKey], ...]
    costs: dict[ConstraintKey | None, tuple[int, ...]]
    codes: dict[ConstraintKey | None, bytes | None]
