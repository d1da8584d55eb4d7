"""The RuntimeClasses indexed by what they ask of a node, and those that each shape serves.

Of 1,000 classes few concern one node, and one installer may create 18 classes with the same
constraints: equal ones are judged once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Generic, NamedTuple, NewType, TypeVar

from extender.objects import Condition, RuntimeClass, SelectorTerm, Toleration, untimed
from extender.predicates.node_checks import (
    HandlerCheck,
    Requirements,
    is_condition_taint,
)
from extender.predicates.shape_parts import Wanted
from extender.shape import Shape
from extender.snapshot import FEW_SHAPES, Snapshot

T = TypeVar("T")

Entry = tuple[str, str]


class ConstraintKey(NamedTuple):
    """The requirements of a class on a node, apart from its handler."""

    node_selector: tuple[Entry, ...]
    tolerations: frozenset[Toleration]
    terms: tuple[SelectorTerm, ...] | None = None
    conditions: frozenset[Condition] = frozenset()
    #: Annotations that can't be read.
    faults: tuple[tuple[str, str], ...] = ()

    @property
    def selects(self) -> bool:
        """Whether it asks for anything that an ordinary node lacks."""
        return bool(self.node_selector or self.terms or self.conditions)


#: The index of a group in ClassIndex.groups.
ClassGroupId = NewType("ClassGroupId", int)

#: How many sets of taints and handlers are remembered; a cluster has a few dozen.
_MAX_REMEMBERED: Final = 4096


def constraint_key(runtime_class: RuntimeClass) -> ConstraintKey:
    selector = runtime_class.node_selector
    tolerations = frozenset(map(untimed, runtime_class.tolerations))
    rules = runtime_class.rules
    if rules is None:
        return ConstraintKey(selector, tolerations)
    conditions = frozenset(rules.conditions)
    return ConstraintKey(selector, tolerations, rules.terms, conditions, rules.faults)


@dataclass(frozen=True, slots=True)
class ClassGroup:
    """RuntimeClasses with equal constraints and handler: each node matches all of them or none."""

    names: tuple[str, ...]
    example: RuntimeClass
    constraints: ConstraintKey
    requirements: Requirements

    def matches(self, shape: Shape) -> bool:
        return self.requirements.mismatch(shape) is None


class Matching(NamedTuple):
    """The groups that match a shape, those that select nodes and those that don't.

    by_selector has those with a nodeSelector, terms or conditions.

    Shapes that differ only in their labels mostly share one tuple `without_selector`.
    """

    by_selector: tuple[ClassGroupId, ...] = ()
    without_selector: tuple[ClassGroupId, ...] = ()


class ClassIndex:
    """The groups, indexed by an entry of their nodeSelector. Safe to use from any thread."""

    def __init__(self, runtime_classes: Iterable[RuntimeClass], check: HandlerCheck) -> None:
        runtime_classes = tuple(runtime_classes)
        #: The labels that matter, for nodes that are described in a request.
        self.wanted = Wanted.of(runtime_classes)
        values: dict[str, dict[str | None, str]] = {}
        for key, value in self.wanted.entries:
            values.setdefault(key, {})[value] = value
        #: Their keys, each with the values that matter.
        self.wanted_values = tuple(values.items())
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
        self._by_entry: dict[Entry, list[ClassGroupId]] = {}
        self._by_rules: list[ClassGroupId] = []
        self._without_selector: list[ClassGroupId] = []
        for index, group in enumerate(self.groups):
            selector, number = group.example.node_selector, ClassGroupId(index)
            if selector:
                # A node must have all entries, so one of them is enough to find the group.
                self._by_entry.setdefault(selector[0], []).append(number)
            elif group.constraints.selects:
                self._by_rules.append(number)
            else:
                self._without_selector.append(number)
        self._remembered: dict[Shape, tuple[ClassGroupId, ...]] = {}

    def matching(self, shape: Shape) -> Matching:
        """The groups whose classes a node of this shape can run at all."""
        by_selector = tuple(
            number
            for numbers in (*map(self._of_entry, shape.selector_entries), self._by_rules)
            for number in numbers
            if self.groups[number].matches(shape)
        )
        return Matching(by_selector, self._matching_without_selector(shape))

    def _of_entry(self, entry: Entry) -> Sequence[ClassGroupId]:
        return self._by_entry.get(entry, ())

    def _matching_without_selector(self, shape: Shape) -> tuple[ClassGroupId, ...]:
        # Labels don't matter to these classes, and few nodes differ in what does.
        bare = Shape(
            taints=tuple(taint for taint in shape.taints if not is_condition_taint(taint)),
            handlers=shape.handlers,
            is_docker=shape.is_docker,
        )
        found = self._remembered.get(bare)
        if found is None:
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            found = self._remembered[bare] = tuple(
                number for number in self._without_selector if self.groups[number].matches(bare)
            )
        return found

    def served(self, shape: Shape) -> Iterator[ClassGroup]:
        """The groups for which a node of this shape is special.

        A class that selects nothing matches every untainted node, so these are special for none.
        """
        matching = self.matching(shape)
        is_tainted = any(not is_condition_taint(taint) for taint in shape.taints)
        others = matching.without_selector if is_tainted else ()
        return (self.groups[number] for number in (*matching.by_selector, *others))

    def served_constraints(self, shape: Shape) -> frozenset[ConstraintKey]:
        """The distinct constraints among the classes that a node of this shape serves."""
        return frozenset(group.constraints for group in self.served(shape))


@dataclass(frozen=True, slots=True)
class KnownShapes(Generic[T]):
    """What was worked out for a snapshot's shapes, by shape id; found[0] is for unknown nodes."""

    runtime_classes: Mapping[str, RuntimeClass]
    shapes: tuple[Shape, ...]
    index: ClassIndex
    found: tuple[T, ...]


class ShapeMemo(Generic[T]):
    """Works out something for each shape, and keeps it while shapes and classes stay the same.

    It is replaced whole: two threads that find it out of date do the same work twice.
    """

    def __init__(
        self, check: HandlerCheck, work: Callable[[ClassIndex, Shape], T], unknown: T
    ) -> None:
        """unknown: the value for a node that is not known."""
        self._check = check
        self._work = work
        self._known = KnownShapes({}, (), ClassIndex((), check), (unknown,))

    def takes_long(self, snapshot: Snapshot) -> bool:
        """Whether this has to be worked out, and that takes more than milliseconds."""
        known, shapes = self._known, snapshot.shapes.shapes
        if len(shapes) <= FEW_SHAPES:
            return False
        return known.shapes is not shapes or known.runtime_classes is not snapshot.runtime_classes

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
