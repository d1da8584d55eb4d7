"""What admission changes in a pod for its RuntimeClass, and which pods it refuses.

Beyond the plugin, what annotations of the class add: terms, and what its pods can't use.

Upstream: plugin/pkg/admission/runtimeclass/admission.go, v1.36.2: setOverhead, setScheduling and
validateOverhead, in this order and with its texts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from extender.admission.covering import surviving
from extender.admission.joining_terms import Terms, TooManyTermsError, joined_terms
from extender.admission.reviewed_pod import ReviewedPod
from extender.decoding.class_annotations import PREFIX, TERMS, UNSUPPORTED
from extender.objects import NOTHING, RuntimeClass, Toleration
from extender.predicates.class_rules import unsupported_words
from extender.predicates.node_selector import conflicting_key
from extender.reasons import MAX_QUOTED, shown
from extender.validation.field_errors import go_quote
from extender.validation.quantity import canonical_quantity, same_amounts

_OVERHEAD_DIFFERS: Final = (
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
)
_OVERHEAD_ALONE: Final = (
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
)


class Merge(StrEnum):
    """What is merged into pods.

    TOLERATIONS leaves the nodeSelector to the extender's filter, so that the scheduler's event
    names the RuntimeClass.
    """

    ALL = "all"
    TOLERATIONS = "tolerations"


@dataclass(frozen=True, slots=True)
class AdmissionRefusal:
    """The pod is refused; `text` is what the in-tree plugin says."""

    text: str


@dataclass(frozen=True, slots=True)
class MergedTolerations:
    """`kept` are indexes into the pod's list, in order; `added` are the class's, after them."""

    kept: Sequence[int]
    added: Sequence[Toleration]
    dropped: int


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


#: How the plugin's refusals begin.
REJECTED: Final = "pod rejected: "


def not_found(name: str) -> AdmissionRefusal:
    """The pod names a class that does not exist."""
    if not name:
        # What the plugin's live look-up answers; the plugin's own text would have no name either.
        return AdmissionRefusal("resource name may not be empty")
    quoted = go_quote(name if len(name) <= MAX_QUOTED else f"{name[:MAX_QUOTED]}…")
    return AdmissionRefusal(f"pod rejected: RuntimeClass {quoted} not found")


def mutate(
    pod: ReviewedPod, runtime_class: RuntimeClass, merge: Merge
) -> Changes | AdmissionRefusal:
    """The changes that a pod needs for its class. Raises DecodeError."""
    overhead = None
    if runtime_class.has_overhead:
        of_pod = pod.overhead()
        if of_pod and not same_amounts(of_pod, runtime_class.overhead):
            return AdmissionRefusal(_OVERHEAD_DIFFERS)
        if not of_pod and runtime_class.overhead:
            overhead = {
                name: canonical_quantity(text) for name, text in runtime_class.overhead.items()
            }
    if not runtime_class.has_scheduling and runtime_class.rules is None:
        return Changes(overhead=overhead)
    of_pod_selector = pod.node_selector() or {}
    conflict = conflicting_key(of_pod_selector, runtime_class.node_selector)
    if conflict is not None:
        return _conflict(*conflict)
    node_selector = NOTHING
    terms: Terms | AdmissionRefusal | None = None
    if merge is Merge.ALL or pod.spreads_hard_by_node_affinity():
        node_selector = {
            key: value for key, value in runtime_class.node_selector if key not in of_pod_selector
        }
        terms = _terms(pod, runtime_class)
    if isinstance(terms, AdmissionRefusal):
        return terms
    tolerations = _merged(pod, runtime_class) if runtime_class.has_scheduling else None
    return Changes(
        overhead=overhead, node_selector=node_selector, tolerations=tolerations, terms=terms
    )


def _terms(pod: ReviewedPod, runtime_class: RuntimeClass) -> Terms | AdmissionRefusal | None:
    rules, about = runtime_class.rules, f'pod rejected: RuntimeClass "{runtime_class.name}"'
    if rules is None:
        return None
    if rules.has_fault(TERMS):
        return AdmissionRefusal(f"{about}: annotation {PREFIX}{TERMS} can't be read")
    try:
        return joined_terms(pod.required_terms(), rules)
    except TooManyTermsError as error:
        return AdmissionRefusal(f"{about}: its {TERMS} and the pod's node affinity make {error}")


def unsupported(uses: frozenset[str], runtime_class: RuntimeClass) -> Sequence[str]:
    """What the pod uses and the class says that its pods can't, a text each."""
    name, rules = f'RuntimeClass "{runtime_class.name}"', runtime_class.rules
    if rules is not None and rules.has_fault(UNSUPPORTED):
        return [f"{name}: annotation {PREFIX}{UNSUPPORTED} can't be read"]
    words = unsupported_words(uses, runtime_class)
    return [f"{name}: {shown(word)} is unsupported" for word in words]


def refused_for(texts: Sequence[str]) -> AdmissionRefusal:
    """The pod is refused for this."""
    return AdmissionRefusal(f"pod rejected: {'; '.join(texts)}")


def validate(pod: ReviewedPod, runtime_class: RuntimeClass | None) -> AdmissionRefusal | None:
    """Whether the pod's overhead is that of its class; an absent one equals only an empty one.

    runtime_class is None for a pod that names none. Raises DecodeError.
    """
    overhead = pod.overhead()
    if runtime_class is not None and runtime_class.has_overhead:
        equal = same_amounts(overhead or {}, runtime_class.overhead)
        return None if equal else AdmissionRefusal(_OVERHEAD_DIFFERS)
    return None if overhead is None else AdmissionRefusal(_OVERHEAD_ALONE)


def _conflict(key: str, of_pod: str, of_class: str) -> AdmissionRefusal:
    return AdmissionRefusal(
        f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {of_class};"
        f" pod.spec.nodeSelector[{key}] = {shown(of_pod)}"
    )


def _merged(pod: ReviewedPod, runtime_class: RuntimeClass) -> MergedTolerations | None:
    """None when the pod's list needs no change."""
    of_pod = pod.tolerations() or []
    of_class = runtime_class.tolerations
    places = surviving(of_pod, of_class)
    kept = [place for place in places if place < len(of_pod)]
    added = [of_class[place - len(of_pod)] for place in places[len(kept) :]]
    dropped = len(of_pod) - len(kept)
    return MergedTolerations(kept, added, dropped) if added or dropped else None
