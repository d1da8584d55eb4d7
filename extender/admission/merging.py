"""The changes that admission makes to a pod for its RuntimeClass, and the pods that it refuses.

Unlike the in-tree plugin it also merges the class's annotation node-selector-terms.

Upstream: plugin/pkg/admission/runtimeclass/admission.go, v1.36.2: setOverhead, setScheduling and
validateOverhead, in this order and with its texts.
"""

import math
from collections.abc import Iterator, Sequence, Set
from enum import StrEnum
from itertools import chain
from typing import Final

from extender.admission.json_patch import Operation, merged_tolerations, new_labels, required_terms
from extender.admission.reviewed_pod import ReviewedPod
from extender.kubernetes.class_annotations import PREFIX, TERMS
from extender.kubernetes.quantity import same_amounts
from extender.model.objects import (
    NO_EXECUTE,
    ClassRules,
    NodeRequirement,
    RuntimeClass,
    SelectorRequirement,
    SelectorTerm,
    size_of,
)
from extender.model.pod_needs import Toleration
from extender.model.reasons import shown
from extender.rules.node_selector import conflicting_key
from extender.rules.node_shape import readable_terms, requirements_in


def covers(one: Toleration, other: Toleration) -> bool:
    """Whether `one` tolerates all that `other` tolerates, for at least as long, by upstream's rule.

    Upstream: pkg/util/tolerations/tolerations.go, v1.36.2.
    """
    if one == other:
        return True
    if one.key != other.key and (one.key or one.operator != "Exists"):
        return False
    if one.effect not in ("", other.effect):
        return False
    if one.effect == NO_EXECUTE and _reach(one) < _reach(other):
        return False
    if one.operator in ("", "Equal"):
        return other.operator == "Equal" and one.value == other.value
    return one.operator == "Exists"


def _reach(toleration: Toleration) -> float:
    """The seconds for which a toleration of NoExecute tolerates it."""
    return math.inf if toleration.seconds is None else toleration.seconds


#: With more tolerations than this, all of the pod's are kept uncompared: comparing is quadratic.
MAX_COMPARED: Final = 1_000


def surviving(of_pod: Sequence[Toleration], of_class: Sequence[Toleration]) -> list[int]:
    """The indexes of the tolerations to keep, in the pod's list followed by the class's.

    A toleration is dropped if an earlier one that is kept covers it, or a later, unequal one.
    """
    both = [*of_pod, *of_class]
    first = 0 if len(both) <= MAX_COMPARED else len(of_pod)
    kept = [*range(first)]
    for place in range(first, len(both)):
        one = both[place]
        earlier = (both[each] for each in kept)
        later = (other for other in both[place + 1 :] if other != one)
        if not any(covers(other, one) for other in chain(earlier, later)):
            kept.append(place)
    return kept


#: The limits of a pod's joined terms: requirements, and characters of their keys and values. No Pod
#: in etcd can have that many, since etcd limits a request to 1.5 MiB.
MAX_REQUIREMENTS: Final = 10_000
MAX_CHARACTERS: Final = 2**21

Terms = tuple[SelectorTerm, ...]

#: A term that no node matches.
_NOTHING: Final = SelectorTerm()


class TooManyTermsError(ValueError):
    """The pod's terms joined with the class's are too many for a Pod."""


def joined_terms(of_pod: Terms | None, rules: ClassRules | None) -> Terms | None:
    """The pod's terms joined with the class's; None to keep the pod's. Raises TooManyTermsError.

    of_pod: None for a pod without required node affinity.
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
        return None if set(of_pod) <= {_NOTHING} else (_NOTHING,)
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
    term: SelectorTerm, of_class: Sequence[SelectorTerm], required: Sequence[Set[NodeRequirement]]
) -> Iterator[SelectorTerm]:
    """The terms that replace a term of the pod. required: the requirements of the class's terms."""
    own = frozenset(requirements_in(term))
    # An empty term matches no node. Joined with a term of the class it would match some.
    if term == _NOTHING or any(each <= own for each in required):
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


#: The beginning of the plugin's refusals.
REJECTED: Final = "pod rejected: "

_OVERHEAD_DIFFERS: Final = f"{REJECTED}Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_OVERHEAD_ALONE: Final = (
    f"{REJECTED}Pod Overhead set without corresponding RuntimeClass defined Overhead"
)


class Merge(StrEnum):
    """TOLERATIONS: only the filter handles the nodeSelector, so that events name the class."""

    ALL = "all"
    TOLERATIONS = "tolerations"


def not_found(name: str) -> str:
    if not name:
        # The text of the API server, where the plugin looks up the class.
        return "resource name may not be empty"
    return f'{REJECTED}RuntimeClass "{shown(name)}" not found'


def mutate(pod: ReviewedPod, runtime_class: RuntimeClass, merge: Merge) -> list[Operation] | str:
    """The changes that a pod needs for its class, or why it is refused. Raises DecodeError."""
    scheduling = _merged(pod, runtime_class, merge)
    if not runtime_class.has_overhead:
        return scheduling
    overhead = pod.overhead()
    if overhead and not same_amounts(overhead, runtime_class.overhead):
        return _OVERHEAD_DIFFERS
    if overhead or not runtime_class.overhead or isinstance(scheduling, str):
        return scheduling
    return [(("spec", "overhead"), dict(runtime_class.overhead)), *scheduling]


def _merged(pod: ReviewedPod, runtime_class: RuntimeClass, merge: Merge) -> list[Operation] | str:
    operations: list[Operation] = []
    rules, about = runtime_class.rules, f'{REJECTED}RuntimeClass "{runtime_class.name}"'
    if not runtime_class.has_scheduling and rules is None:
        return operations
    selector = pod.node_selector()
    conflict = conflicting_key(selector or {}, runtime_class.node_selector)
    if conflict is not None:
        key, has, wanted = conflict
        return (
            f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted};"
            f" pod.spec.nodeSelector[{key}] = {shown(has)}"
        )
    terms = None
    if merge is Merge.ALL or pod.spreads_hard_by_node_affinity():
        if rules is not None and rules.has_fault(TERMS):
            return f"{about}: annotation {PREFIX}{TERMS} can't be read"
        operations += new_labels(selector, runtime_class.node_selector)
        try:
            terms = joined_terms(pod.required_terms(), rules)
        except TooManyTermsError as error:
            return f"{about}: its {TERMS} and the pod's node affinity make {error}"
    if runtime_class.has_scheduling:
        own, of_class = pod.tolerations() or [], runtime_class.tolerations
        stay, both = surviving(own, of_class), [*own, *of_class]
        if [both[place] for place in stay] != own:
            operations += merged_tolerations(pod.toleration_items(), of_class, stay)
    if terms is not None:
        operations.append(required_terms(pod.affinity(), terms))
    return operations


def validate(pod: ReviewedPod, runtime_class: RuntimeClass | None) -> str:
    """Why a pod is refused for its overhead; "" if it is not. Raises DecodeError."""
    overhead = pod.overhead()
    if runtime_class is not None and runtime_class.has_overhead:
        equal = same_amounts(overhead or {}, runtime_class.overhead)
        return "" if equal else _OVERHEAD_DIFFERS
    return "" if overhead is None else _OVERHEAD_ALONE
