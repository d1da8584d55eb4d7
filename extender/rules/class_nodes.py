"""Which nodes can run which RuntimeClasses, regardless of any pod: for lists and gauges.

The checks are those of `node_checks.Requirements.without_pod`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Generic, NamedTuple, NewType, TypeVar

from extender.model.names import ShapeId
from extender.model.objects import ClassRules, Condition, RuntimeClass, SelectorTerm
from extender.model.pod_needs import Toleration, untimed
from extender.model.reasons import Reason, failed_to_start
from extender.rules.node_checks import HandlerCheck, Policy, Requirements, is_condition_taint
from extender.rules.node_shape import Shape, Wanted
from extender.rules.pools import Pools
from extender.rules.snapshot import Snapshot
from extender.rules.verdicts import NO_SHAPES, VerdictCode, Verdicts, extended, group_refusals

T = TypeVar("T")


class ConstraintKey(NamedTuple):
    """What a class requires of a node, except the handler."""

    node_selector: tuple[tuple[str, str], ...]
    tolerations: frozenset[Toleration]
    terms: tuple[SelectorTerm, ...] | None
    conditions: frozenset[Condition]
    #: The name and the error of each annotation that can't be parsed.
    faults: tuple[tuple[str, str], ...]

    @property
    def selects(self) -> bool:
        """Whether the class selects nodes by labels, terms or conditions."""
        return bool(self.node_selector or self.terms or self.conditions)


#: The index of a group in ClassIndex.groups.
ClassGroupId = NewType("ClassGroupId", int)


def constraint_key(runtime_class: RuntimeClass) -> ConstraintKey:
    tolerations = frozenset(map(untimed, runtime_class.tolerations))
    rules = runtime_class.rules or ClassRules()
    return ConstraintKey(
        runtime_class.node_selector,
        tolerations,
        rules.terms,
        frozenset(rules.conditions),
        rules.faults,
    )


@dataclass(frozen=True, slots=True)
class ClassGroup:
    """RuntimeClasses with equal constraints and handler: each node matches all of them or none."""

    names: tuple[str, ...]
    example: RuntimeClass
    constraints: ConstraintKey
    requirements: Requirements


class ClassIndex:
    """All classes, grouped by equal requirements. Safe to use from any thread."""

    def __init__(self, runtime_classes: Iterable[RuntimeClass], check: HandlerCheck) -> None:
        runtime_classes = tuple(runtime_classes)
        #: What the classes ask of nodes. It reduces the Nodes of a request to their shapes.
        self.wanted = Wanted.of(runtime_classes)
        alike: dict[tuple[ConstraintKey, str], list[RuntimeClass]] = {}
        for each in runtime_classes:
            alike.setdefault((constraint_key(each), each.handler), []).append(each)
        self.groups = [
            ClassGroup(
                tuple(each.name for each in same),
                same[0],
                key,
                Requirements.without_pod(same[0], check),
            )
            for (key, _), same in alike.items()
        ]
        self._by_entry: dict[tuple[str, str] | None, list[ClassGroupId]] = {}
        for index, group in enumerate(self.groups):
            # A node must have all entries, so one of them is enough to find the group.
            first = next(iter(group.example.node_selector), None)
            self._by_entry.setdefault(first, []).append(ClassGroupId(index))

    def matching(self, shape: Shape) -> tuple[ClassGroupId, ...]:
        """The groups whose classes a node of this shape can run."""
        return tuple(
            number
            for entry in (*shape.selector_entries, None)
            for number in self._by_entry.get(entry, ())
            if self.groups[number].requirements.mismatch(shape) is None
        )

    def served(self, shape: Shape) -> Iterator[ClassGroup]:
        """The groups that a node of this shape serves: the node is special for their classes.

        A class that selects nothing matches every untainted node: none of them is special for it.
        """
        is_tainted = any(not is_condition_taint(taint) for taint in shape.taints)
        groups = (self.groups[number] for number in self.matching(shape))
        return (group for group in groups if is_tainted or group.constraints.selects)

    def served_constraints(self, shape: Shape) -> frozenset[ConstraintKey]:
        return frozenset(group.constraints for group in self.served(shape))


@dataclass(frozen=True, slots=True)
class KnownShapes(Generic[T]):
    """The values computed for a snapshot's shapes, by shape id. found[0] is for unknown nodes."""

    runtime_classes: Mapping[str, RuntimeClass]
    shapes: tuple[Shape, ...]
    index: ClassIndex
    found: tuple[T, ...]


class ShapeMemo(Generic[T]):
    """Computes a value for each shape, and caches it while shapes and classes stay the same.

    unknown: the value of an unknown node. Any thread may use it: the cache is replaced whole.
    """

    def __init__(
        self, check: HandlerCheck, work: Callable[[ClassIndex, Shape], T], unknown: T
    ) -> None:
        self._check = check
        self._work = work
        self._known = KnownShapes({}, (), ClassIndex((), check), (unknown,))

    def of(self, snapshot: Snapshot) -> KnownShapes[T]:
        known, shapes = self._known, snapshot.shapes.shapes
        if known.runtime_classes is not snapshot.runtime_classes:
            index = ClassIndex(snapshot.runtime_classes.values(), self._check)
            known = KnownShapes(snapshot.runtime_classes, (), index, known.found[:1])
        if known.shapes is not shapes:
            same = len(known.shapes)
            if known.shapes != shapes[:same]:
                same = 0
            added = (self._work(known.index, shape) for shape in shapes[same:])
            found = tuple(chain(known.found[: same + 1], added))
            known = KnownShapes(known.runtime_classes, shapes, known.index, found)
        self._known = known
        return known


@dataclass(frozen=True, slots=True)
class SupportCounts:
    """Node counts. nodes: by class that they match. by_count: by number of classes they match."""

    nodes: Mapping[str, int]
    by_count: Mapping[int, int]


class Support:
    """The classes that each shape supports. Safe to use from any thread."""

    def __init__(self, check: HandlerCheck) -> None:
        self._memo = ShapeMemo(check, ClassIndex.matching, tuple[ClassGroupId, ...]())

    def counts(self, snapshot: Snapshot) -> SupportCounts:
        known = self._memo.of(snapshot)
        groups = known.index.groups

        nodes_of_group: Counter[ClassGroupId] = Counter()
        by_count: Counter[int] = Counter()
        for nodes, numbers in zip(snapshot.nodes_per_shape, known.found, strict=True):
            if nodes:
                by_count[sum(len(groups[number].names) for number in numbers)] += nodes
                for number in numbers:
                    nodes_of_group[number] += nodes
        by_name = {
            name: nodes_of_group[ClassGroupId(number)]
            for number, group in enumerate(groups)
            for name in group.names
        }
        return SupportCounts(by_name, by_count)

    def classes(self, snapshot: Snapshot, shape_id: ShapeId) -> Sequence[str]:
        known = self._memo.of(snapshot)
        groups = (known.index.groups[number] for number in known.found[shape_id])
        return sorted(name for group in groups for name in group.names)


@dataclass(frozen=True, slots=True)
class ClassNodes:
    """The nodes that match a class, and the other nodes by reason. Names are sorted."""

    matching: Sequence[bytes]
    not_matching: Sequence[tuple[Reason, Sequence[bytes]]]


def nodes_of_class(runtime_class: RuntimeClass, snapshot: Snapshot, policy: Policy) -> ClassNodes:
    """The nodes of a class. The reasons are sorted by number of nodes, most first, then by text."""
    table = verdicts_of_class(runtime_class, snapshot.shapes.shapes, policy)
    names = sorted(snapshot.nodes)
    codes = [table.codes[snapshot.nodes[name]] for name in names]
    verdicts = Verdicts(codes, table.reasons)
    groups = []
    for group in group_refusals(verdicts).groups:
        by_code: dict[str, tuple[Reason, list[VerdictCode]]] = {}
        for code in group.codes:
            reason = table.reasons[code]
            assert reason is not None
            told = replace(reason, text=group.text)
            by_code.setdefault(reason.code, (told, []))[1].append(code)
        groups += [(told, verdicts.select(names, same)) for told, same in by_code.values()]
    groups.sort(key=lambda each: (-len(each[1]), each[0].text, each[0].code))
    return ClassNodes(verdicts.passing(names), groups)


def verdicts_of_class(
    runtime_class: RuntimeClass, shapes: Sequence[Shape], policy: Policy
) -> Verdicts:
    """Whether nodes of each shape can run the class, regardless of any pod."""
    requirements = Requirements.without_pod(runtime_class, policy.handler_check)
    return extended(NO_SHAPES, shapes, requirements.mismatch)


def classes_of_node(
    shape: Shape, classes: Iterable[RuntimeClass], policy: Policy
) -> Sequence[tuple[RuntimeClass, Reason | None]]:
    """Each class, and why a node of this shape does not support it, None if it does."""
    check = policy.handler_check
    return [(each, Requirements.without_pod(each, check).mismatch(shape)) for each in classes]


def node_state(shape: Shape) -> Sequence[str]:
    taints = [str(taint) for taint in shape.taints if is_condition_taint(taint)]
    suspects = [failed_to_start(each.handler, each.pods) for each in sorted(shape.suspects)]
    return [*taints, *(["unschedulable"] if shape.unschedulable else []), *suspects]


class NodeCounts(NamedTuple):
    """Numbers of nodes: those matching a class, those matching and ready, and all nodes."""

    matching: int
    ready: int
    total: int


def nodes_of_each(
    classes: Iterable[RuntimeClass],
    snapshot: Snapshot,
    not_ready: Collection[bytes],
    policy: Policy,
    pools: Pools | None = None,
) -> Mapping[str, tuple[NodeCounts, Sequence[NodeCounts]]]:
    """Class name → the counts over all nodes, and the counts of each pool.

    not_ready: the names of the nodes whose condition Ready is not True.
    """
    members = [each.nodes for each in pools.pools] if pools else []
    found = {}
    for each in classes:
        table = verdicts_of_class(each, snapshot.shapes.shapes, policy)
        fitting = {name for name, shape in snapshot.nodes.items() if not table.reason(shape)}
        counts = []
        for names in (snapshot.nodes.keys(), *members):
            matching = fitting.intersection(names)
            ready = len(matching.difference(not_ready))
            counts.append(NodeCounts(len(matching), ready, len(names)))
        found[each.name] = counts[0], counts[1:]
    return found
