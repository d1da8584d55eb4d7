"""Which nodes can run which RuntimeClasses at all, no pod asked: for lists and gauges.

Checks 3 to 5 with the class's own tolerations, condition taints left aside
(predicates.runtimeclass.mismatch_without_pod).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from extender.objects import RuntimeClass, Shape, Toleration, untimed
from extender.predicates.runtimeclass import (
    HandlerCheck,
    Policy,
    is_condition_taint,
    mismatch_without_pod,
)
from extender.predicates.tolerations import TolerationSet
from extender.snapshot import Snapshot
from extender.verbs.matching import Verdicts, group_refusals
from extender.verdict import Reason

_Key = tuple[tuple[tuple[str, str], ...], frozenset[Toleration], str]


@dataclass(frozen=True, slots=True)
class _Alike:
    """RuntimeClasses of equal constraints and handler: what holds of one holds of all."""

    names: tuple[str, ...]
    example: RuntimeClass
    tolerations: TolerationSet

    def supports(self, shape: Shape, check: HandlerCheck) -> bool:
        return mismatch_without_pod(self.example, self.tolerations, shape, check) is None


_Supported = tuple[tuple[int, ...], tuple[int, ...]]


class _Index:
    """The classes found by a label they ask for: of 1,000 classes few concern one node."""

    def __init__(self, runtime_classes: Iterable[RuntimeClass], check: HandlerCheck) -> None:
        self._check = check
        by_key: dict[_Key, list[RuntimeClass]] = {}
        for each in runtime_classes:
            key = (
                each.node_selector,
                frozenset(map(untimed, each.tolerations)),
                each.handler,
            )
            by_key.setdefault(key, []).append(each)
        self.alike = [
            _Alike(tuple(each.name for each in same), same[0], TolerationSet(key[1]))
            for key, same in by_key.items()
        ]
        self._by_entry: dict[tuple[str, str], list[int]] = {}
        self._without_selector: list[int] = []
        for number, alike in enumerate(self.alike):
            selector = alike.example.node_selector
            # A node must have all entries, so looking at one of them is enough to find the class.
            same_entry = self._by_entry.setdefault(selector[0], []) if selector else None
            (self._without_selector if same_entry is None else same_entry).append(number)
        self._known: dict[Shape, tuple[int, ...]] = {}

    def names(self, numbers: Iterable[int]) -> int:
        """How many classes these numbers stand for."""
        return sum(len(self.alike[number].names) for number in numbers)

    def supported(self, shape: Shape) -> _Supported:
        """Numbers into alike: of classes with a nodeSelector, and of those without."""
        by_label = tuple(
            number
            for entry in shape.selector_entries
            for number in self._by_entry.get(entry, ())
            if self.alike[number].supports(shape, self._check)
        )
        # Labels play no part for the others, and few nodes differ in what does.
        bare = Shape(
            taints=tuple(taint for taint in shape.taints if not is_condition_taint(taint)),
            handlers=shape.handlers,
            is_docker=shape.is_docker,
        )
        others = self._known.get(bare)
        if others is None:
            others = self._known[bare] = tuple(
                number
                for number in self._without_selector
                if self.alike[number].supports(bare, self._check)
            )
        return by_label, others


@dataclass(frozen=True, slots=True)
class _Remembered:
    runtime_classes: Mapping[str, RuntimeClass]
    shapes: tuple[Shape, ...]
    index: _Index
    supported: tuple[_Supported, ...]


@dataclass(frozen=True, slots=True)
class SupportCounts:
    """nodes: how many nodes match each class. by_count: how many nodes support that many."""

    nodes: Mapping[str, int]
    by_count: Mapping[int, int]


class Support:
    """Remembers what each shape supports, for as long as shapes and RuntimeClasses stay.

    What it remembers is replaced whole: threads that find it out of date do the same work twice.
    """

    def __init__(self, check: HandlerCheck) -> None:
        self._check = check
        self._remembered = _Remembered({}, (), _Index((), check), ())

    def counts(self, snapshot: Snapshot) -> SupportCounts:
        found = self._of(snapshot)
        index = found.index
        matching: Counter[int] = Counter()
        by_count: Counter[int] = Counter()
        # The classes without a nodeSelector may be many, but few different sets of them occur;
        # a set is one object, so its identity stands for it.
        shared = {id(others): others for _, others in found.supported}
        sizes = {each: index.names(others) for each, others in shared.items()}
        nodes_of_shared: Counter[int] = Counter()
        per_shape = snapshot.nodes_per_shape[1:]
        for nodes, (by_label, others) in zip(per_shape, found.supported, strict=True):
            if nodes:
                by_count[index.names(by_label) + sizes[id(others)]] += nodes
                nodes_of_shared[id(others)] += nodes
                for number in by_label:
                    matching[number] += nodes
        for each, nodes in nodes_of_shared.items():
            for number in shared[each]:
                matching[number] += nodes
        by_name = {
            name: matching[number] for number, each in enumerate(index.alike) for name in each.names
        }
        return SupportCounts(by_name, by_count)

    def classes(self, snapshot: Snapshot, shape_id: int) -> Sequence[str]:
        """The names, in order, of the classes that a node of the shape supports."""
        found = self._of(snapshot)
        by_label, others = found.supported[shape_id - 1]
        return sorted(name for n in (*by_label, *others) for name in found.index.alike[n].names)

    def _of(self, snapshot: Snapshot) -> _Remembered:
        known, shapes = self._remembered, snapshot.shapes.shapes
        if known.runtime_classes is not snapshot.runtime_classes:
            index = _Index(snapshot.runtime_classes.values(), self._check)
            known = _Remembered(snapshot.runtime_classes, (), index, ())
        if known.shapes is not shapes:
            same = len(known.shapes)
            if known.shapes != shapes[:same]:
                same = 0
            added = map(known.index.supported, shapes[same:])
            supported = tuple(chain(known.supported[:same], added))
            known = _Remembered(known.runtime_classes, shapes, known.index, supported)
        self._remembered = known
        return known


@dataclass(frozen=True, slots=True)
class ClassNodes:
    """The nodes that match a class, and the others by reason; names in order."""

    matching: Sequence[bytes]
    not_matching: Sequence[tuple[Reason, Sequence[bytes]]]


def nodes_of_class(runtime_class: RuntimeClass, snapshot: Snapshot, policy: Policy) -> ClassNodes:
    """Judge every node of a snapshot; reasons with most nodes first, then by text."""
    table = verdicts_of_class(runtime_class, snapshot.shapes.shapes, policy)
    names = sorted(snapshot.nodes)
    codes = [table.codes[snapshot.nodes[name] - 1] for name in names]
    verdicts = Verdicts(codes, table.reasons)
    groups = []
    for group in group_refusals(verdicts).groups:
        by_code: dict[str, tuple[Reason, list[int]]] = {}
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
    """The verdict of each shape, in their order."""
    tolerations = TolerationSet(runtime_class.tolerations)
    number: dict[Reason | None, int] = {None: 0}
    codes = [
        number.setdefault(
            mismatch_without_pod(runtime_class, tolerations, shape, policy.handler_check),
            len(number),
        )
        for shape in shapes
    ]
    return Verdicts(codes, tuple(number))


def classes_of_node(
    shape: Shape, runtime_classes: Iterable[RuntimeClass], policy: Policy
) -> Sequence[tuple[RuntimeClass, Reason | None]]:
    """For each class in order why a node of this shape does not support it; None if it does."""
    check = policy.handler_check
    return [
        (each, mismatch_without_pod(each, TolerationSet(each.tolerations), shape, check))
        for each in runtime_classes
    ]


def node_state(shape: Shape) -> Sequence[str]:
    """How a node is at the moment, which says nothing about the classes it supports."""
    taints = [str(taint) for taint in shape.taints if is_condition_taint(taint)]
    return [*taints, "unschedulable"] if shape.unschedulable else taints
