"""The shape of a node: its parts that decide about RuntimeClasses. Checks look at nothing else.

A label belongs to the shape if some nodeSelector asks for its key and value. For terms, the shape
has the requirements that the node meets, not its labels: thousands of values may meet a `NotIn`,
and their nodes share one shape. Thousands of nodes have a handful of shapes.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from extender.model.objects import (
    HARD_EFFECTS,
    UNKNOWN_KUBELET,
    ClassRules,
    Condition,
    Handler,
    Kubelet,
    Node,
    NodeRequirement,
    RuntimeClass,
    SelectorTerm,
    Suspect,
    Taint,
)
from extender.rules.node_selector import placed_requirements, requirement_test

T = TypeVar("T")

_Test = Callable[[Mapping[str, str], str], bool]


@dataclass(frozen=True, slots=True)
class Shape:
    """The parts of a node that decide about RuntimeClasses; nodes of equal shape share one verdict.

    selector_entries: the node's labels that some RuntimeClass's nodeSelector asks for. taints: the
    taints with a hard effect, in the node's order. met, conditions: the term requirements and the
    conditions of classes' annotations that the node meets. suspects: handlers that failed.
    """

    selector_entries: frozenset[tuple[str, str]] = frozenset()
    taints: tuple[Taint, ...] = ()
    handlers: frozenset[Handler] = frozenset()
    unschedulable: bool = False
    is_docker: bool = False
    kubelet: Kubelet = UNKNOWN_KUBELET
    met: frozenset[NodeRequirement] = frozenset()
    conditions: frozenset[Condition] = frozenset()
    suspects: frozenset[Suspect] = frozenset()

    def suspect(self, handler: str) -> Suspect | None:
        return next((each for each in self.suspects if each.handler == handler), None)


def shape_of(node: Node, wanted: Collection[tuple[str, str]]) -> Shape:
    """A node's shape without met, conditions and suspects. wanted: entries of all nodeSelectors."""
    return Shape(
        frozenset(entry for entry in node.labels.items() if entry in wanted),
        tuple(taint for taint in node.taints if taint.effect in HARD_EFFECTS),
        node.handlers,
        node.unschedulable,
        node.is_docker,
        node.kubelet,
    )


def requirements_in(term: SelectorTerm) -> tuple[NodeRequirement, ...]:
    """The requirements of a term, sorted by key, without duplicates."""
    return tuple(sorted({requirement for _, requirement in placed_requirements(term)}))


def readable_terms(rules: ClassRules) -> list[tuple[NodeRequirement, ...]]:
    """The requirements of each term that some node could match.

    An empty or unreadable term matches no node (component-helpers nodeaffinity, v1.36.2).
    """
    found = map(requirements_in, rules.terms or ())
    return [each for each in found if each and not any(map(unreadable, each))]


def unreadable(requirement: NodeRequirement) -> str:
    """Why a requirement does not parse, "" if it does."""
    try:
        requirement_test(requirement)
    except ValueError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class Wanted:
    """The nodeSelector entries, term requirements and conditions that the classes ask for."""

    entries: frozenset[tuple[str, str]] = frozenset()
    requirements: frozenset[NodeRequirement] = frozenset()
    conditions: frozenset[Condition] = frozenset()

    @classmethod
    def of(cls, runtime_classes: Iterable[RuntimeClass]) -> "Wanted":
        entries: set[tuple[str, str]] = set()
        requirements: set[NodeRequirement] = set()
        conditions: set[Condition] = set()
        for each in runtime_classes:
            entries.update(each.node_selector)
            if each.rules is not None:
                conditions.update(each.rules.conditions)
                for term in readable_terms(each.rules):
                    requirements.update(term)
        return cls(frozenset(entries), frozenset(requirements), frozenset(conditions))

    @cached_property
    def _tests(self) -> tuple[tuple[NodeRequirement, _Test], ...]:
        return tuple((each, requirement_test(each)) for each in self.requirements)

    @cached_property
    def _values(self) -> tuple[tuple[str, dict[str | None, str]], ...]:
        values: dict[str, dict[str | None, str]] = {}
        for key, value in self.entries:
            values.setdefault(key, {})[value] = value
        return tuple(values.items())

    @property
    def is_more_than_entries(self) -> bool:
        return bool(self.requirements or self.conditions)

    def met_by(self, labels: Mapping[str, str], name: str) -> frozenset[NodeRequirement]:
        return frozenset([each for each, test in self._tests if test(labels, name)])

    def shape_of(self, node: Node) -> Shape:
        met, conditions = self.met_by(node.labels, node.name), node.conditions & self.conditions
        return replace(shape_of(node, self.entries), met=met, conditions=conditions)

    def judge(self, nodes: Iterable[Node], verdict: Callable[[Shape], T]) -> list[T]:
        """verdict(shape) for each node; equal nodes share one call.

        NodeReader gives nodes with equal taints, handlers, kubelet or conditions mostly the same
        object for them. So these are compared by identity, which needs no hashing.
        """
        known: dict[tuple[object, ...], T] = {}
        found = []
        for node in nodes:
            labels = node.labels
            key: tuple[object, ...] = (
                tuple([values.get(labels.get(key)) for key, values in self._values]),
                id(node.taints),
                id(node.handlers),
                id(node.kubelet),
                node.unschedulable,
                node.is_docker,
            )
            if self.is_more_than_entries:
                key = (*key, self.met_by(labels, node.name), id(node.conditions))
            if key not in known:
                known[key] = verdict(self.shape_of(node))
            found.append(known[key])
        return found
