"""The shape of a node: its parts that decide about RuntimeClasses, on which all checks are done.

A label counts with its value if a nodeSelector asks for it. Of terms only the requirements that a
node meets count: a requirement such as `NotIn` holds for thousands of values, which so share one
shape. Thousands of nodes have a handful of shapes.
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

    selector_entries are those of the node's labels that some RuntimeClass's nodeSelector asks for,
    taints those with a hard effect, in the node's order. met and conditions are what the node meets
    of the terms and conditions that classes ask for by annotation. suspects: handlers that failed.
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
    """The shape of a node, given all nodeSelector entries that matter."""
    return Shape(
        frozenset(entry for entry in node.labels.items() if entry in wanted),
        tuple(taint for taint in node.taints if taint.effect in HARD_EFFECTS),
        node.handlers,
        node.unschedulable,
        node.is_docker,
        node.kubelet,
    )


def requirements_in(term: SelectorTerm) -> tuple[NodeRequirement, ...]:
    """The requirements of a term, each once, in the order of the keys."""
    return tuple(sorted({requirement for _, requirement in placed_requirements(term)}))


def readable_terms(rules: ClassRules) -> list[tuple[NodeRequirement, ...]]:
    """The requirements of each term that some node could match.

    A term that is empty or does not parse matches none (component-helpers nodeaffinity, v1.36.2).
    """
    found = map(requirements_in, rules.terms or ())
    return [each for each in found if each and not any(map(unreadable, each))]


def unreadable(requirement: NodeRequirement) -> str:
    """Why a requirement does not parse; "" for one that does."""
    try:
        requirement_test(requirement)
    except ValueError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class Wanted:
    """nodeSelector entries, requirements of terms, and conditions that some class asks for."""

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
        """verdict(shape) for each node, called once for nodes that are alike.

        Taints, handlers, kubelets and conditions of equal text are mostly one object (NodeReader),
        so they are compared by identity, and none is hashed.
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
