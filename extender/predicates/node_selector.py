"""nodeSelector and required node affinity against a node's labels and name.

Follows k8s.io/component-helpers/scheduling/corev1/nodeaffinity, v1.36.2.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from extender.objects import SelectorRequirement, SelectorTerm

_LABEL_NAME: Final = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)"
_DNS_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_LABEL_KEY: Final = re.compile(rf"(?:(?P<prefix>{_DNS_LABEL}(?:\.{_DNS_LABEL})*)/)?{_LABEL_NAME}")
_LABEL_VALUE: Final = re.compile(rf"{_LABEL_NAME}?")
_MAX_PREFIX: Final = 253
_GO_INT64: Final = re.compile(r"[+-]?[0-9]+")
_INT64: Final = range(-(2**63), 2**63)

Match = Callable[[str | None], bool]


def missing_labels(
    selector: Iterable[tuple[str, str]], labels: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """The entries of a nodeSelector that the labels do not have, in the selector's order."""
    return tuple(entry for entry in selector if labels.get(entry[0]) != entry[1])


def conflicting_key(
    pod_selector: Mapping[str, str], class_selector: Iterable[tuple[str, str]]
) -> tuple[str, str, str] | None:
    """(key, pod's value, class's value) of the smallest key that both have with other values."""
    conflicts = [
        (key, pod_selector[key], value)
        for key, value in class_selector
        if key in pod_selector and pod_selector[key] != value
    ]
    return min(conflicts, default=None)


def _go_int64(text: str) -> int | None:
    # strconv.ParseInt(text, 10, 64): a sign and leading zeros are fine, underscores and other
    # scripts' digits are not. The length limit keeps int() linear.
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


def _label_test(requirement: SelectorRequirement) -> Match | None:
    """The test of one matchExpressions entry; None for one that labels.NewRequirement refuses."""
    key = _LABEL_KEY.fullmatch(requirement.key)
    if key is None or len(key["prefix"] or "") > _MAX_PREFIX:
        return None
    values = requirement.values
    if not all(_LABEL_VALUE.fullmatch(value) for value in values):
        return None
    match requirement.operator:
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
            return _comparison(requirement.operator, values)
    return None


def _name_test(requirement: SelectorRequirement) -> Callable[[str], bool] | None:
    """The test of one matchFields entry: only metadata.name, In or NotIn, one value."""
    if requirement.key != "metadata.name" or len(requirement.values) != 1:
        return None
    (wanted,) = requirement.values
    match requirement.operator:
        case "In":
            return lambda name: name == wanted
        case "NotIn":
            return lambda name: name != wanted
    return None


class _CompiledTerm:
    __slots__ = ("_labels", "_names")

    def __init__(self, labels: list[tuple[str, Match]], names: list[Callable[[str], bool]]) -> None:
        self._labels = labels
        self._names = names

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        return all(test(labels.get(key)) for key, test in self._labels) and all(
            test(name) for test in self._names
        )


def _compile_term(term: SelectorTerm) -> _CompiledTerm | None:
    """None for a term that selects nothing: an empty one, or one that does not parse."""
    if not term.match_expressions and not term.match_fields:
        return None
    labels = [(each.key, _label_test(each)) for each in term.match_expressions]
    names = [_name_test(each) for each in term.match_fields]
    parsed_labels = [(key, test) for key, test in labels if test is not None]
    parsed_names = [test for test in names if test is not None]
    if len(parsed_labels) != len(labels) or len(parsed_names) != len(names):
        return None
    return _CompiledTerm(parsed_labels, parsed_names)


class RequiredNodeAffinity:
    """requiredDuringSchedulingIgnoredDuringExecution, parsed once, matched against many nodes.

    Terms are alternatives, the requirements within a term must all hold; a term that is empty or
    does not parse matches no node; no terms at all match no node.
    """

    __slots__ = ("_terms",)

    def __init__(self, terms: Iterable[SelectorTerm]) -> None:
        compiled = (_compile_term(term) for term in terms)
        self._terms = [term for term in compiled if term is not None]

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        return any(term.matches(labels, name) for term in self._terms)
