"""nodeSelector and required node affinity against a node's labels and name.

Follows k8s.io/component-helpers/scheduling/corev1/nodeaffinity, v1.36.2.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extender.kubernetes.name_rules import label_key_fault, label_value_fault
from extender.model.objects import NodeRequirement, SelectorTerm

#: Integers as Go's strconv.ParseInt accepts them: with a sign and leading zeros, no underscores.
_GO_INT64: Final = re.compile(r"[+-]?[0-9]+")
_INT64: Final = range(-(2**63), 2**63)

#: The only field of a node that can be selected.
NAME_FIELD: Final = "metadata.name"

Match = Callable[[str | None], bool]
_Test = Callable[[Mapping[str, str], str], bool]


def missing_labels(
    selector: Iterable[tuple[str, str]], labels: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """The entries of a nodeSelector that the labels lack, in the selector's order."""
    return tuple(entry for entry in selector if labels.get(entry[0]) != entry[1])


def conflicting_key(
    pod_selector: Mapping[str, str], class_selector: Iterable[tuple[str, str]]
) -> tuple[str, str, str] | None:
    """(key, pod's value, class's value) of the smallest key with different values, else None."""
    conflicts = [
        (key, pod_selector[key], value)
        for key, value in class_selector
        if key in pod_selector and pod_selector[key] != value
    ]
    return min(conflicts, default=None)


def int64_of(text: str, syntax: re.Pattern[str]) -> int | None:
    """The text as an int64, None if it is not one. The length limit keeps int() fast."""
    number = int(text) if len(text) <= 4096 and syntax.fullmatch(text) else _INT64.stop
    return number if number in _INT64 else None


def _comparison(operator: str, values: tuple[str, ...]) -> Match:
    bound = int64_of(values[0], _GO_INT64) if len(values) == 1 else None
    if bound is None:
        raise ValueError(f"{operator} needs one whole number")

    def compare(value: str | None) -> bool:
        number = int64_of(value or "", _GO_INT64)
        return number is not None and (number > bound if operator == "Gt" else number < bound)

    return compare


@dataclass(frozen=True, slots=True)
class UnreadableTerm:
    """A term that does not parse: its index, the field at fault, and the fault."""

    index: int
    field: str
    fault: str


def _label_test(requirement: NodeRequirement) -> Match:
    """The test of one matchExpressions entry.

    Raises ValueError if labels.NewRequirement would reject the entry.
    """
    if label_key_fault(requirement.key):
        raise ValueError(f'key "{requirement.key}" is no label key')
    for value in requirement.values:
        if label_value_fault(value):
            raise ValueError(f'"{value}" is no label value')
    return _operation(requirement.operator, requirement.values)


def _operation(operator: str, values: tuple[str, ...]) -> Match:
    match operator:
        case "In" if values:
            return frozenset[str | None](values).__contains__
        case "NotIn" if values:
            forbidden = frozenset[str | None](values)
            return lambda value: value not in forbidden
        case "Exists" if not values:
            return lambda value: value is not None
        case "DoesNotExist" if not values:
            return lambda value: value is None
        case "Gt" | "Lt":
            return _comparison(operator, values)
        case "In" | "NotIn":
            raise ValueError(f"{operator} needs values")
        case "Exists" | "DoesNotExist":
            raise ValueError(f"{operator} takes no values")
    raise ValueError(f'there is no operator "{operator}"')


def _name_test(requirement: NodeRequirement) -> Callable[[str], bool]:
    """The test of one matchFields entry: In or NotIn, with one value. Raises ValueError.

    The only field of a node is metadata.name. Any other field counts as "" (extractNodeFields).
    """
    if requirement.operator not in ("In", "NotIn"):
        raise ValueError(f'there is no operator "{requirement.operator}" for fields')
    if len(requirement.values) != 1:
        raise ValueError(f"{requirement.operator} needs one value for a field")
    (wanted,) = requirement.values
    equal = requirement.operator == "In"
    if requirement.key != NAME_FIELD:
        return lambda name: (wanted == "") is equal
    return lambda name: (wanted == name) is equal


def requirement_test(requirement: NodeRequirement) -> _Test:
    """The test of one requirement, which takes a node's labels and name.

    Raises ValueError with the fault if the requirement does not parse.
    """
    if requirement.is_field:
        name_test = _name_test(requirement)
        return lambda labels, name: name_test(name)
    key, label_test = requirement.key, _label_test(requirement)
    return lambda labels, name: label_test(labels.get(key))


#: A requirement of a label selector, as kubectl reads -l (labels.Parse, apimachinery v0.36.2).
_SELECTOR_PART: Final = re.compile(
    r"\s*(?:(?P<key>[^\s!=<>,()]+)\s*(?:(?P<operator>==|=|!=|>|<)\s*(?P<value>[^\s,()=!<>]*)"
    r"|(?P<word>in|notin)\s*\((?P<values>[^()]*)\))?|!\s*(?P<absent>[^\s!=<>,()]+))\s*"
)
_OPERATORS: Final = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}


def label_selector(text: str) -> Callable[[Mapping[str, str]], bool]:
    """The test of a label selector such as `a=b,c!=d,e in (f,g),!h`. Raises ValueError."""
    tests, end = [], -1
    while end < len(text):
        found = _SELECTOR_PART.match(text, end + 1)
        if found is None or text[found.end() : found.end() + 1] not in ("", ","):
            raise ValueError(f'"{text}" is no label selector such as pool=sandbox')
        tests.append(requirement_test(_selector_requirement(found)))
        end = found.end()
    return lambda labels: all(test(labels, "") for test in tests)


def _selector_requirement(found: re.Match[str]) -> NodeRequirement:
    if found["absent"]:
        return NodeRequirement(found["absent"], "DoesNotExist")
    if found["word"]:
        values = tuple(each.strip() for each in found["values"].split(","))
        return NodeRequirement(found["key"], "In" if found["word"] == "in" else "NotIn", values)
    if found["operator"]:
        return NodeRequirement(found["key"], _OPERATORS[found["operator"]], (found["value"],))
    return NodeRequirement(found["key"], "Exists")


class RequiredNodeAffinity:
    """requiredDuringSchedulingIgnoredDuringExecution, parsed once, matched against many nodes.

    Terms are alternatives. A term that is empty or does not parse matches no node. unreadable: the
    terms that do not parse, each with its first fault.
    """

    __slots__ = ("_terms", "unreadable")

    def __init__(self, terms: Iterable[SelectorTerm]) -> None:
        self._terms: list[list[_Test]] = []
        self.unreadable: list[UnreadableTerm] = []
        for index, term in enumerate(terms):
            tests: list[_Test] = []
            for place, requirement in placed_requirements(term):
                try:
                    tests.append(requirement_test(requirement))
                except ValueError as error:
                    self.unreadable.append(UnreadableTerm(index, place, str(error)))
                    break
            else:
                self._terms += [tests] if tests else []

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        return any(all(test(labels, name) for test in tests) for tests in self._terms)


def placed_requirements(term: SelectorTerm) -> Iterator[tuple[str, NodeRequirement]]:
    """The requirements of a term, each with its place, such as matchFields[0]."""
    for index, each in enumerate(term.match_expressions):
        yield f"matchExpressions[{index}]", NodeRequirement(each.key, each.operator, each.values)
    for index, each in enumerate(term.match_fields):
        requirement = NodeRequirement(each.key, each.operator, each.values, is_field=True)
        yield f"matchFields[{index}]", requirement


def names_left(terms: Sequence[SelectorTerm]) -> frozenset[str] | None:
    """The names of the nodes that a required node affinity leaves for the filters.

    None: all nodes. An empty set: the terms contradict each other. Every `In` entry for the name in
    matchFields counts, even in a term that does not parse. Upstream:
    pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go PreFilter, v1.36.2.
    """
    left: set[str] = set()
    for term in terms:
        asked = [
            frozenset(each.values)
            for each in term.match_fields
            if each.key == NAME_FIELD and each.operator == "In"
        ]
        if not asked:
            return None
        left |= frozenset.intersection(*asked)
    return frozenset(left) if terms else None
