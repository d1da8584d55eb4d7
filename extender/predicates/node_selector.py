"""nodeSelector and required node affinity against a node's labels and name.

Follows k8s.io/component-helpers/scheduling/corev1/nodeaffinity, v1.36.2.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extender.objects import NodeRequirement, SelectorRequirement, SelectorTerm

_LABEL_NAME: Final = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)"
_DNS_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_LABEL_KEY: Final = re.compile(rf"(?:(?P<prefix>{_DNS_LABEL}(?:\.{_DNS_LABEL})*)/)?{_LABEL_NAME}")
_LABEL_VALUE: Final = re.compile(rf"{_LABEL_NAME}?")
_MAX_PREFIX: Final = 253
_GO_INT64: Final = re.compile(r"[+-]?[0-9]+")
_INT64: Final = range(-(2**63), 2**63)

#: The only field of a node that can be selected.
NAME_FIELD: Final = "metadata.name"

Match = Callable[[str | None], bool]


def missing_labels(
    selector: Iterable[tuple[str, str]], labels: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """The entries of a nodeSelector that the labels do not have, in the selector's order."""
    return tuple(entry for entry in selector if labels.get(entry[0]) != entry[1])


def conflicting_key(
    pod_selector: Mapping[str, str], class_selector: Iterable[tuple[str, str]]
) -> tuple[str, str, str] | None:
    """(key, pod's value, class's value) of the first key to which both give different values."""
    conflicts = [
        (key, pod_selector[key], value)
        for key, value in class_selector
        if key in pod_selector and pod_selector[key] != value
    ]
    return min(conflicts, default=None)


def _go_int64(text: str) -> int | None:
    # strconv.ParseInt(text, 10, 64): a sign and leading zeros are accepted, underscores and digits
    # of other scripts are not. The length limit keeps int() fast.
    if len(text) > 4096 or _GO_INT64.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number in _INT64 else None


def _comparison(operator: str, values: tuple[str, ...]) -> Match | None:
    bound = _go_int64(values[0]) if len(values) == 1 else None
    if bound is None:
        return None

    def compare(value: str | None) -> bool:
        number = None if value is None else _go_int64(value)
        if number is None:
            return False
        return number > bound if operator == "Gt" else number < bound

    return compare


@dataclass(frozen=True, slots=True)
class UnreadableTerm:
    """A term that does not parse, by its index: what is wrong, and in which field."""

    index: int
    field: str
    fault: str


def _label_test(requirement: SelectorRequirement) -> Match | str:
    """The test of one matchExpressions entry, or why labels.NewRequirement refuses it."""
    parts = _LABEL_KEY.fullmatch(requirement.key)
    if parts is None or len(parts["prefix"] or "") > _MAX_PREFIX:
        return f'key "{requirement.key}" is no label key'
    for value in requirement.values:
        if not _LABEL_VALUE.fullmatch(value):
            return f'"{value}" is no label value'
    return _operation(requirement.operator, requirement.values)


def _operation(operator: str, values: tuple[str, ...]) -> Match | str:
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
            return _comparison(operator, values) or f"{operator} needs one whole number"
        case "In" | "NotIn":
            return f"{operator} needs values"
        case "Exists" | "DoesNotExist":
            return f"{operator} takes no values"
    return f'there is no operator "{operator}"'


def _name_test(requirement: SelectorRequirement) -> Callable[[str], bool] | str:
    """The test of one matchFields entry: In or NotIn, one value.

    A node has the field metadata.name; any other is empty (extractNodeFields).
    """
    if requirement.operator not in ("In", "NotIn"):
        return f'there is no operator "{requirement.operator}" for fields'
    if len(requirement.values) != 1:
        return f"{requirement.operator} needs one value for a field"
    (wanted,) = requirement.values
    equal = requirement.operator == "In"
    if requirement.key != NAME_FIELD:
        return lambda name: (wanted == "") is equal
    return lambda name: (wanted == name) is equal


def requirement_test(requirement: NodeRequirement) -> Callable[[Mapping[str, str], str], bool]:
    """The test of one requirement by a node's labels and name. Raises ValueError, saying why not.

    The requirements of a term are judged one by one where many terms share them.
    """
    key, operator, values, is_field = requirement
    plain = SelectorRequirement(key, operator, values)
    if is_field:
        name_test = _name_test(plain)
        if isinstance(name_test, str):
            raise ValueError(name_test)
        return lambda labels, name: name_test(name)
    label_test = _label_test(plain)
    if isinstance(label_test, str):
        raise ValueError(label_test)
    return lambda labels, name: label_test(labels.get(key))


class _CompiledTerm:
    __slots__ = ("_labels", "_names")

    def __init__(self, labels: list[tuple[str, Match]], names: list[Callable[[str], bool]]) -> None:
        self._labels = labels
        self._names = names

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        return all(test(labels.get(key)) for key, test in self._labels) and all(
            test(name) for test in self._names
        )


def _compile_term(index: int, term: SelectorTerm) -> _CompiledTerm | UnreadableTerm:
    labels: list[tuple[str, Match]] = []
    for place, each in enumerate(term.match_expressions):
        label_test = _label_test(each)
        if isinstance(label_test, str):
            return UnreadableTerm(index, f"matchExpressions[{place}]", label_test)
        labels.append((each.key, label_test))
    names: list[Callable[[str], bool]] = []
    for place, each in enumerate(term.match_fields):
        name_test = _name_test(each)
        if isinstance(name_test, str):
            return UnreadableTerm(index, f"matchFields[{place}]", name_test)
        names.append(name_test)
    return _CompiledTerm(labels, names)


class RequiredNodeAffinity:
    """requiredDuringSchedulingIgnoredDuringExecution, parsed once, matched against many nodes.

    Terms are alternatives, the requirements within a term must all hold; a term that is empty or
    does not parse matches no node; no terms at all match no node. `unreadable` are those that do
    not parse, each with the first of its faults.
    """

    __slots__ = ("_terms", "unreadable")

    def __init__(self, terms: Iterable[SelectorTerm]) -> None:
        compiled = [
            _compile_term(index, term)
            for index, term in enumerate(terms)
            if term.match_expressions or term.match_fields
        ]
        self._terms = [each for each in compiled if isinstance(each, _CompiledTerm)]
        self.unreadable = tuple(each for each in compiled if isinstance(each, UnreadableTerm))

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        return any(term.matches(labels, name) for term in self._terms)


def names_left(terms: Sequence[SelectorTerm]) -> frozenset[str] | None:
    """The nodes that a required node affinity leaves before any filter looks at one.

    None stands for all of them; an empty set means that the terms contradict each other. Every
    matchFields entry for names counts, also in terms that do not parse. Upstream:
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
