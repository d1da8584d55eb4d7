"""The parts of nodes that RuntimeClasses ask for: only these belong to a node's shape.

A label counts with its value if a nodeSelector asks for it. Of terms only the requirements that a
node meets count: a requirement such as `NotIn` holds for thousands of values, which so share one
shape. Of conditions only those count that have the status some class asks for.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from extender.objects import (
    ClassRules,
    Condition,
    Node,
    NodeRequirement,
    RuntimeClass,
    SelectorTerm,
)
from extender.predicates.node_selector import requirement_test
from extender.shape import Shape, shape_of

_Test = Callable[[Mapping[str, str], str], bool]


def requirements_in(term: SelectorTerm) -> tuple[NodeRequirement, ...]:
    """The requirements of a term, each once, in the order of the keys."""
    found = {
        *(NodeRequirement(each.key, each.operator, each.values) for each in term.match_expressions),
        *(
            NodeRequirement(each.key, each.operator, each.values, True)
            for each in term.match_fields
        ),
    }
    return tuple(sorted(found))


def readable_terms(rules: ClassRules) -> list[tuple[NodeRequirement, ...]]:
    """The requirements of each term that some node could match.

    One that is empty or does not parse matches none (component-helpers nodeaffinity, v1.36.2).
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """nodeSelector entries, requirements of terms, and conditions that some class asks for."""

    entries: frozenset[tuple[str, str]] = frozenset()
    requirements: frozenset[NodeRequirement] = frozenset()
    conditions: frozenset[Condition] = frozenset()
    _tests: tuple[tuple[NodeRequirement, _Test], ...] = field(default=(), repr=False, compare=False)

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
        tests = tuple((each, requirement_test(each)) for each in sorted(requirements))
        return cls(frozenset(entries), frozenset(requirements), frozenset(conditions), tests)

    @property
    def is_more_than_entries(self) -> bool:
        return bool(self.requirements or self.conditions)

    def met_by(self, labels: Mapping[str, str], name: str) -> frozenset[NodeRequirement]:
        """The requirements that a node meets."""
        return frozenset([each for each, test in self._tests if test(labels, name)])

    def shape_of(self, node: Node) -> Shape:
        """The shape of a node."""
        shape = shape_of(node, self.entries)
        if not self.is_more_than_entries:
            return shape
        return replace(
            shape,
            met=self.met_by(node.labels, node.name),
            conditions=node.conditions & self.conditions,
        )
