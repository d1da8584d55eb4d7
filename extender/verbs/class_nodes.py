"""Which nodes can run which RuntimeClasses, regardless of any pod: for lists and gauges.

Checks 3 to 5 with the class's own tolerations, ignoring condition taints
(predicates.node_checks.Requirements.without_pod).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from extender.objects import RuntimeClass
from extender.predicates.node_checks import (
    HandlerCheck,
    Policy,
    Requirements,
    is_condition_taint,
)
from extender.reasons import Reason
from extender.shape import Shape, ShapeId
from extender.snapshot import EMPTY_TABLE, Snapshot, VerdictTable, extend_table
from extender.verbs.class_index import ClassGroupId, ClassIndex, Matching, ShapeMemo
from extender.verbs.verdicts import VerdictCode, Verdicts, group_refusals


@dataclass(frozen=True, slots=True)
class SupportCounts:
    """nodes: how many nodes match each class. by_count: how many nodes support that many."""

    nodes: Mapping[str, int]
    by_count: Mapping[int, int]


class Support:
    """Which classes each shape supports. Safe to use from any thread."""

    def __init__(self, check: HandlerCheck) -> None:
        self._memo = ShapeMemo(check, ClassIndex.matching, Matching())

    def counts(self, snapshot: Snapshot) -> SupportCounts:
        known = self._memo.of(snapshot)
        groups = known.index.groups

        def classes_in(numbers: Iterable[ClassGroupId]) -> int:
            return sum(len(groups[number].names) for number in numbers)

        nodes_of_group: Counter[ClassGroupId] = Counter()
        by_count: Counter[int] = Counter()
        # There may be many classes without a nodeSelector, but few different sets of them occur. A
        # set is one object, so its identity represents it.
        shared = {id(each.without_selector): each.without_selector for each in known.found}
        sizes = {each: classes_in(others) for each, others in shared.items()}
        nodes_of_shared: Counter[int] = Counter()
        for nodes, matching in zip(snapshot.nodes_per_shape, known.found, strict=True):
            if nodes:
                others = id(matching.without_selector)
                by_count[classes_in(matching.by_selector) + sizes[others]] += nodes
                nodes_of_shared[others] += nodes
                for number in matching.by_selector:
                    nodes_of_group[number] += nodes
        for each, nodes in nodes_of_shared.items():
            for number in shared[each]:
                nodes_of_group[number] += nodes
        by_name = {
            name: nodes_of_group[ClassGroupId(number)]
            for number, group in enumerate(groups)
            for name in group.names
        }
        return SupportCounts(by_name, by_count)

    def classes(self, snapshot: Snapshot, shape_id: ShapeId) -> Sequence[str]:
        """The names, in order, of the classes that a node of the shape supports."""
        known = self._memo.of(snapshot)
        numbers = chain.from_iterable(known.found[shape_id])
        return sorted(name for number in numbers for name in known.index.groups[number].names)


@dataclass(frozen=True, slots=True)
class ClassNodes:
    """The nodes that match a class, and the others by reason; names in order."""

    matching: Sequence[bytes]
    not_matching: Sequence[tuple[Reason, Sequence[bytes]]]


def nodes_of_class(runtime_class: RuntimeClass, snapshot: Snapshot, policy: Policy) -> ClassNodes:
    """Judge every node of a snapshot; reasons with most nodes first, then by text."""
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
) -> VerdictTable:
    """Whether nodes of each shape can run the class, regardless of any pod."""
    requirements = Requirements.without_pod(runtime_class, policy.handler_check)
    return extend_table(EMPTY_TABLE, shapes, requirements.mismatch)


def classes_of_node(
    shape: Shape, runtime_classes: Iterable[RuntimeClass], policy: Policy
) -> Sequence[tuple[RuntimeClass, Reason | None]]:
    """Each class in order, and why a node of this shape does not support it; None if it does."""
    check = policy.handler_check
    return [
        (each, Requirements.without_pod(each, check).mismatch(shape)) for each in runtime_classes
    ]


def node_state(shape: Shape) -> Sequence[str]:
    """The current condition of a node, which does not affect the classes it supports."""
    taints = [str(taint) for taint in shape.taints if is_condition_taint(taint)]
    return [*taints, "unschedulable"] if shape.unschedulable else taints
