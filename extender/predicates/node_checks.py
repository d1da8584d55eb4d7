"""Whether a node of some shape can run a pod of some RuntimeClass: the checks in their order.

Whatever the nodes are (`reason_for_all_nodes`):

1. no RuntimeClass named: nothing to check but the pod's needs; not found: every node fails
2. conflict between the pod's and the class's nodeSelector: every node fails
3. the pod uses what the class says its pods can't use: every node fails

For each shape of node, in the order of `Requirements.of`, where it stands alone:

4. nodeSelector of the class, then its terms (`extender.predicates.class_rules`)
5. taints with a hard effect, by the tolerations of pod and class together
6. conditions that the class asks for
7. the class's handler among those the node reports
8. the features that the pod needs of that handler
9. what the kubelet rejects (`extender.predicates.kubelet`)
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, NamedTuple

from extender.objects import Features, Handler, Pod, RuntimeClass, Taint
from extender.predicates.class_rules import (
    condition_checks,
    readable_checks,
    term_checks,
    unsupported_reason,
)
from extender.predicates.kubelet import Check, KubeletCheck, kubelet_checks
from extender.predicates.node_selector import conflicting_key
from extender.predicates.tolerations import TolerationSet, find_untolerated_taint
from extender.reasons import (
    Reason,
    feature_lacking,
    handler_absent,
    handlers_not_reported,
    not_found,
    selector_conflict,
    selector_mismatch,
    untolerated_taint,
)
from extender.shape import Shape

#: Taints that describe a node's current condition, not what it can run.
_CONDITION_PREFIXES: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_CONDITION_KEYS: Final = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "karpenter.sh/disrupted",
    }
)

#: The handler that cri-dockerd accepts without reporting it.
_DOCKER_HANDLER: Final = "docker"


class HandlerCheck(StrEnum):
    """--handler-check: how a node that reports no handlers at all is judged."""

    # Enum's own __hash__ is written in Python, and takes ten times as long.
    __hash__ = str.__hash__

    AUTO = "auto"
    STRICT = "strict"
    OFF = "off"


class Policy(NamedTuple):
    """The flags of matching."""

    handler_check: HandlerCheck = HandlerCheck.AUTO
    comparison_operators: bool = False
    kubelet_check: KubeletCheck = KubeletCheck.AUTO


class HandlerState(Enum):
    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


def is_condition_taint(taint: Taint) -> bool:
    return taint.key.startswith(_CONDITION_PREFIXES) or taint.key in _CONDITION_KEYS


def handler_state(shape: Shape, handler: str) -> HandlerState:
    """Whether a node's runtime has a handler.

    status.runtimeHandlers is filled by kubelet >= 1.31 (pkg/kubelet/runtime.go, v1.36.2) from
    what the runtime's Status call reports; an empty list says nothing.
    """
    if shape.is_docker and handler == _DOCKER_HANDLER:
        return HandlerState.PRESENT
    if not shape.handlers:
        return HandlerState.UNKNOWN
    present = any(each.name == handler for each in shape.handlers)
    return HandlerState.PRESENT if present else HandlerState.ABSENT


def selector_reason(runtime_class: RuntimeClass, shape: Shape) -> Reason | None:
    missing = tuple(
        entry for entry in runtime_class.node_selector if entry not in shape.selector_entries
    )
    return selector_mismatch(runtime_class.name, missing) if missing else None


def handler_reason(runtime_class: RuntimeClass, shape: Shape, check: HandlerCheck) -> Reason | None:
    state = handler_state(shape, runtime_class.handler)
    if state is HandlerState.ABSENT:
        return handler_absent(runtime_class.name, runtime_class.handler)
    if state is HandlerState.UNKNOWN and check is HandlerCheck.STRICT:
        return handlers_not_reported(runtime_class.name)
    return None


def _features_of(shape: Shape, handler: str) -> Handler:
    # A handler that isn't listed has no features, as for the kubelet itself
    # (pkg/kubelet/kubelet_pods.go, v1.36.2).
    return next((each for each in shape.handlers if each.name == handler), Handler(handler))


def feature_reason(
    runtime_class: RuntimeClass | None, shape: Shape, needed: Features
) -> Reason | None:
    name, handler = (runtime_class.name, runtime_class.handler) if runtime_class else ("", "")
    offered = _features_of(shape, handler)
    # The Windows kubelet ignores hostUsers (pkg/kubelet/userns/userns_manager_windows.go, v1.36.2).
    if needed.user_namespaces and not offered.user_namespaces and not shape.kubelet.is_windows:
        return feature_lacking(name, handler, "user namespaces")
    if needed.recursive_read_only_mounts and not offered.recursive_read_only_mounts:
        return feature_lacking(name, handler, "recursive read-only mounts")
    return None


def conflict_reason(pod: Pod, runtime_class: RuntimeClass) -> Reason | None:
    """The pod's own nodeSelector contradicts the class's: no node can satisfy both."""
    conflict = conflicting_key(pod.node_selector, runtime_class.node_selector)
    return selector_conflict(runtime_class.name, *conflict) if conflict else None


def reason_for_all_nodes(pod: Pod, runtime_class: RuntimeClass | None) -> Reason | None:
    """Checks 1 to 3: why no node at all can run the pod.

    runtime_class is the one the pod names, None where it names none or there is none.
    """
    if runtime_class is not None:
        conflict = conflict_reason(pod, runtime_class) if pod.node_selector else None
        return conflict or (unsupported_reason(pod, runtime_class) if pod.uses else None)
    return not_found(pod.runtime_class_name) if pod.runtime_class_name else None


def _class_checks(
    runtime_class: RuntimeClass,
    tolerations: TolerationSet,
    check: HandlerCheck,
    *,
    with_conditions: bool,
) -> Iterator[Check]:
    """Checks 4 to 7, what the class asks of a node, in their order.

    with_conditions: taints that describe the node's current condition count too.
    """
    name = runtime_class.name

    def selector(shape: Shape) -> Reason | None:
        return selector_reason(runtime_class, shape)

    def taints(shape: Shape) -> Reason | None:
        judged: Iterable[Taint] = shape.taints
        if not with_conditions:
            judged = (taint for taint in judged if not is_condition_taint(taint))
        taint = find_untolerated_taint(judged, tolerations)
        return None if taint is None else untolerated_taint(name, taint)

    def handler(shape: Shape) -> Reason | None:
        return handler_reason(runtime_class, shape, check)

    yield from readable_checks(runtime_class)
    if runtime_class.node_selector:
        yield selector
    yield from term_checks(runtime_class)
    yield taints
    yield from condition_checks(runtime_class)
    if check is not HandlerCheck.OFF:
        yield handler


def _feature_checks(
    runtime_class: RuntimeClass | None, needed: Features, check: HandlerCheck
) -> Iterator[Check]:
    """Check 8."""
    if needed and check is not HandlerCheck.OFF:
        yield lambda shape: feature_reason(runtime_class, shape, needed)


def tolerations_together(
    pod: Pod, runtime_class: RuntimeClass | None, policy: Policy
) -> TolerationSet:
    """The tolerations of a pod and of its class, as admission merges them."""
    return TolerationSet(
        (*pod.tolerations, *(runtime_class.tolerations if runtime_class else ())),
        comparison_operators=policy.comparison_operators,
    )


@dataclass(frozen=True, slots=True)
class Requirements:
    """The requirements on a node, compiled for many nodes: tolerations, and the checks in order.

    It has only checks that this pod can fail, so that a pod without needs costs nothing.
    """

    tolerations: TolerationSet
    checks: tuple[Check, ...]

    @classmethod
    def of(cls, pod: Pod, runtime_class: RuntimeClass | None, policy: Policy) -> "Requirements":
        """The requirements of a pod and its class, with the tolerations of both."""
        tolerations = tolerations_together(pod, runtime_class, policy)
        handlers = policy.handler_check
        of_class = (
            _class_checks(runtime_class, tolerations, handlers, with_conditions=True)
            if runtime_class
            else ()
        )
        return cls(
            tolerations,
            (
                *of_class,
                *_feature_checks(runtime_class, pod.features, handlers),
                *kubelet_checks(pod, policy.kubelet_check),
            ),
        )

    @classmethod
    def without_pod(cls, runtime_class: RuntimeClass, check: HandlerCheck) -> "Requirements":
        """The requirements of a class alone: its own tolerations, condition taints left aside."""
        tolerations = TolerationSet(runtime_class.tolerations)
        checks = _class_checks(runtime_class, tolerations, check, with_conditions=False)
        return cls(tolerations, tuple(checks))

    def mismatch(self, shape: Shape) -> Reason | None:
        """The first check that a node of this shape fails; None when it passes."""
        for check in self.checks:
            reason = check(shape)
            if reason is not None:
                return reason
        return None
