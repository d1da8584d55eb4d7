"""What admission changes in a pod for its RuntimeClass, and which pods it refuses.

Beyond the plugin, what annotations of the class add: terms, and what its pods can't use.

Upstream: plugin/pkg/admission/runtimeclass/admission.go, v1.36.2: setOverhead, setScheduling and
validateOverhead, in this order and with its texts.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from extender.admission.reviewed_pod import ReviewedPod
from extender.kubernetes.class_annotations import PREFIX, TERMS, UNSUPPORTED
from extender.kubernetes.quantity import same_amounts
from extender.model.objects import (
    NO_EXECUTE,
    NOTHING,
    ClassRules,
    NodeRequirement,
    RuntimeClass,
    SelectorRequirement,
    SelectorTerm,
    size_of,
)
from extender.model.pod_needs import Toleration
from extender.model.reasons import shown
from extender.rules.node_checks import unsupported_words
from extender.rules.node_selector import conflicting_key
from extender.rules.node_shape import readable_terms, requirements_in

_EXISTS: Final = "Exists"
_EQUAL: Final = "Equal"

#: Of tolerations that differ in seconds only, the two that last longest stay: one may be itself.
_BEST: Final = 2


def covers(one: Toleration, other: Toleration) -> bool:
    """Whether `one` tolerates whatever `other` tolerates, for at least as long, as Go sees it.

    Upstream: pkg/util/tolerations/tolerations.go, v1.36.2.
    """
    if one == other:
        return True
    if one.key != other.key and (one.key or one.operator != _EXISTS):
        return False
    if one.effect not in ("", other.effect):
        return False
    if one.effect == NO_EXECUTE and _reach(one) < _reach(other):
        return False
    if one.operator in ("", _EQUAL):
        return other.operator == _EQUAL and one.value == other.value
    return one.operator == _EXISTS


def _reach(toleration: Toleration) -> float:
    """For how long it tolerates NoExecute; 0 where that does not matter."""
    if toleration.effect != NO_EXECUTE:
        return 0
    return math.inf if toleration.seconds is None else toleration.seconds


class _Covering:
    """Tolerations by what they cover. Owned by one call of `surviving`."""

    def __init__(self) -> None:
        #: By key, effect, operator, and the value where the operator compares it.
        self._groups: dict[tuple[str, str, str, str], list[Toleration]] = {}

    def add(self, toleration: Toleration) -> None:
        key, operator, value, effect, _ = toleration
        group = (key, effect, operator, "" if operator == _EXISTS else value)
        best = self._groups.setdefault(group, [])
        if toleration not in best:
            best.append(toleration)
            best.sort(key=_reach, reverse=True)
            del best[_BEST:]

    def has_other_that_covers(self, toleration: Toleration) -> bool:
        """Whether a toleration that is not equal to this one covers it."""
        key, _, value, effect, _ = toleration
        return any(
            candidate != toleration and covers(candidate, toleration)
            for of_effect in {effect, ""}
            for group in (
                (key, of_effect, _EXISTS, ""),
                ("", of_effect, _EXISTS, ""),
                (key, of_effect, _EQUAL, value),
                (key, of_effect, "", value),
            )
            for candidate in self._groups.get(group, ())
        )


def surviving(of_pod: Iterable[Toleration], of_class: Iterable[Toleration]) -> list[int]:
    """The indexes, in the pod's list followed by the class's, of the tolerations that stay.

    A toleration is dropped when a later one that is not equal to it covers it, or an earlier one
    that stays.
    """
    tolerations = [*of_pod, *of_class]
    later = _Covering()
    stays = bytearray(len(tolerations))
    for place in reversed(range(len(tolerations))):
        stays[place] = not later.has_other_that_covers(tolerations[place])
        later.add(tolerations[place])
    kept = _Covering()
    seen: set[Toleration] = set()
    places = []
    for place, toleration in enumerate(tolerations):
        if stays[place] and toleration not in seen and not kept.has_other_that_covers(toleration):
            seen.add(toleration)
            kept.add(toleration)
            places.append(place)
    return places


#: The limits of a joined pod: its requirements, and the characters of their keys and values. A Pod
#: in etcd can't hold as many, since etcd takes 1.5 MiB a request.
MAX_REQUIREMENTS: Final = 10_000
MAX_CHARACTERS: Final = 2**21

Terms = tuple[SelectorTerm, ...]

#: A term that no node matches.
_NOTHING: Final = SelectorTerm()


class TooManyTermsError(ValueError):
    """The pod's terms joined with the class's come to more than a Pod can hold."""


def joined_terms(of_pod: Terms | None, rules: ClassRules | None) -> Terms | None:
    """The terms that a pod is to have, None where it may keep its own. Raises TooManyTermsError.

    of_pod is None for a pod without required node affinity.
    """
    if rules is None or rules.terms is None:
        return None
    known = set(map(frozenset, readable_terms(rules)))
    # Terms that match no node are left out.
    of_class = [
        each for each in dict.fromkeys(rules.terms) if frozenset(requirements_in(each)) in known
    ]
    if of_pod is None:
        return tuple(of_class) or (_NOTHING,)
    if not of_class:
        return None if all(map(_is_empty, of_pod)) else (_NOTHING,)
    joined: dict[SelectorTerm, None] = {}
    required = [frozenset(requirements_in(each)) for each in of_class]
    count = size = 0
    for term in of_pod:
        for each in _with_class(term, of_class, required):
            count += len(each.match_expressions) + len(each.match_fields)
            if count > MAX_REQUIREMENTS:
                raise TooManyTermsError(f"more than {MAX_REQUIREMENTS:,} requirements")
            size += size_of(each)
            if size > MAX_CHARACTERS:
                raise TooManyTermsError(f"more than {MAX_CHARACTERS:,} characters")
            joined[each] = None
    found = tuple(joined)
    return None if found == of_pod else found


def _with_class(
    term: SelectorTerm,
    of_class: Sequence[SelectorTerm],
    required: Sequence[Set[NodeRequirement]],
) -> Iterator[SelectorTerm]:
    """The terms that replace one of the pod's; required: what each of the class's requires."""
    if _is_empty(term):
        # The term matches no node; joined with another it would match some.
        yield term
        return
    own = frozenset(requirements_in(term))
    if any(each <= own for each in required):
        yield term
        return
    yield from (
        SelectorTerm(
            _with(term.match_expressions, each.match_expressions),
            _with(term.match_fields, each.match_fields),
        )
        for each in of_class
    )


def _with(
    own: tuple[SelectorRequirement, ...], added: tuple[SelectorRequirement, ...]
) -> tuple[SelectorRequirement, ...]:
    return tuple(dict.fromkeys((*own, *added)))


def _is_empty(term: SelectorTerm) -> bool:
    return not (term.match_expressions or term.match_fields)


#: How the plugin's refusals begin.
REJECTED: Final = "pod rejected: "

_OVERHEAD_DIFFERS: Final = f"{REJECTED}Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_OVERHEAD_ALONE: Final = (
    f"{REJECTED}Pod Overhead set without corresponding RuntimeClass defined Overhead"
)


class Merge(StrEnum):
    """TOLERATIONS leaves the nodeSelector to the filter, so that events name the RuntimeClass."""

    ALL = "all"
    TOLERATIONS = "tolerations"


@dataclass(frozen=True, slots=True)
class MergedTolerations:
    """`kept` are indexes into the pod's list, in order; `added` are the class's, after them."""

    kept: Sequence[int]
    added: Sequence[Toleration]


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes to a pod; what is None or empty stays as it is.

    node_selector holds the entries the pod lacks, terms all of the pod's required node affinity.
    """

    runtime_class_name: str | None = None
    overhead: Mapping[str, str] | None = None
    node_selector: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    tolerations: MergedTolerations | None = None
    terms: Terms | None = None


def not_found(name: str) -> str:
    if not name:
        # The plugin looks it up at the API server, which says so.
        return "resource name may not be empty"
    return f'{REJECTED}RuntimeClass "{shown(name)}" not found'


def mutate(pod: ReviewedPod, runtime_class: RuntimeClass, merge: Merge) -> Changes | str:
    """The changes that a pod needs for its class, or why it is refused. Raises DecodeError."""
    overhead = None
    if runtime_class.has_overhead:
        of_pod = pod.overhead()
        if of_pod and not same_amounts(of_pod, runtime_class.overhead):
            return _OVERHEAD_DIFFERS
        if not of_pod and runtime_class.overhead:
            overhead = dict(runtime_class.overhead)
    if not runtime_class.has_scheduling and runtime_class.rules is None:
        return Changes(overhead=overhead)
    of_pod_selector = pod.node_selector() or {}
    conflict = conflicting_key(of_pod_selector, runtime_class.node_selector)
    if conflict is not None:
        key, own, wanted = conflict
        return (
            f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted};"
            f" pod.spec.nodeSelector[{key}] = {shown(own)}"
        )
    node_selector = NOTHING
    terms: Terms | str | None = None
    if merge is Merge.ALL or pod.spreads_hard_by_node_affinity():
        node_selector = {
            key: value for key, value in runtime_class.node_selector if key not in of_pod_selector
        }
        terms = _terms(pod, runtime_class)
    if isinstance(terms, str):
        return terms
    tolerations = _merged(pod, runtime_class) if runtime_class.has_scheduling else None
    return Changes(
        overhead=overhead, node_selector=node_selector, tolerations=tolerations, terms=terms
    )


def _terms(pod: ReviewedPod, runtime_class: RuntimeClass) -> Terms | str | None:
    """All of the pod's terms with the class's, or why it is refused; None: as they are."""
    rules, about = runtime_class.rules, f'{REJECTED}RuntimeClass "{runtime_class.name}"'
    if rules is None:
        return None
    if rules.has_fault(TERMS):
        return f"{about}: annotation {PREFIX}{TERMS} can't be read"
    try:
        return joined_terms(pod.required_terms(), rules)
    except TooManyTermsError as error:
        return f"{about}: its {TERMS} and the pod's node affinity make {error}"


def unsupported(uses: frozenset[str], runtime_class: RuntimeClass) -> Sequence[str]:
    """What the pod uses and the class says that its pods can't, a text each."""
    name, rules = f'RuntimeClass "{runtime_class.name}"', runtime_class.rules
    if rules is not None and rules.has_fault(UNSUPPORTED):
        return [f"{name}: annotation {PREFIX}{UNSUPPORTED} can't be read"]
    words = unsupported_words(uses, runtime_class)
    return [f"{name}: {shown(word)} is unsupported" for word in words]


def validate(pod: ReviewedPod, runtime_class: RuntimeClass | None) -> str:
    """Why a pod is refused for its overhead, "" where it is let in. Raises DecodeError."""
    overhead = pod.overhead()
    if runtime_class is not None and runtime_class.has_overhead:
        equal = same_amounts(overhead or {}, runtime_class.overhead)
        return "" if equal else _OVERHEAD_DIFFERS
    return "" if overhead is None else _OVERHEAD_ALONE


def _merged(pod: ReviewedPod, runtime_class: RuntimeClass) -> MergedTolerations | None:
    """None when the pod's list needs no change."""
    of_pod = pod.tolerations() or []
    of_class = runtime_class.tolerations
    places = surviving(of_pod, of_class)
    if places == list(range(len(of_pod))):
        return None
    kept = [place for place in places if place < len(of_pod)]
    return MergedTolerations(kept, [of_class[place - len(of_pod)] for place in places[len(kept) :]])
