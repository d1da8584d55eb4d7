"""The checks, in order, of whether a node can run a pod with its RuntimeClass.

For all nodes at once (`reason_for_all_nodes`):

1. no RuntimeClass named: nothing to check but the pod's needs; not found: every node fails
2. conflict between the pod's and the class's nodeSelector: every node fails
3. the pod uses a feature that is `unsupported` by the class: every node fails

For each shape of node, in the order that `Requirements.of` alone defines:

4. nodeSelector of the class, then its terms
5. taints with a hard effect, by the tolerations of pod and class together
6. conditions that the class asks for
7. the class's handler among those the node reports
8. the features that the pod needs of that handler
9. what the kubelet rejects (`extender.rules.kubelet_checks`)
10. whether the class is refused because its handler is suspect there (`extender.rules.suspects`)

If an annotation other than isolation can't be parsed, every node is refused: a typo allows nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Self

from extender.kubernetes.class_annotations import CAPABILITY, CONDITIONS, TERMS, UNSUPPORTED
from extender.model import reasons
from extender.model.objects import ClassRules, Condition, Handler, RuntimeClass, Taint
from extender.model.pod_needs import Features, PodNeeds, Toleration
from extender.model.reasons import Code, Reason
from extender.rules.kubelet_checks import Check, KubeletCheck, kubelet_checks
from extender.rules.node_selector import conflicting_key
from extender.rules.node_shape import Shape, readable_terms
from extender.rules.tolerations import TolerationSet, find_untolerated_taint

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
    """--handler-check: how to judge a node that reports no handlers at all."""

    # Enum's own __hash__ is written in Python, and takes ten times as long.
    __hash__ = str.__hash__

    AUTO = "auto"
    STRICT = "strict"
    OFF = "off"


class Policy(NamedTuple):
    """The flags that decide how nodes are matched."""

    handler_check: HandlerCheck = HandlerCheck.AUTO
    comparison_operators: bool = False
    kubelet_check: KubeletCheck = KubeletCheck.AUTO


def is_condition_taint(taint: Taint) -> bool:
    return taint.key.startswith(_CONDITION_PREFIXES) or taint.key in _CONDITION_KEYS


def has_handler(shape: Shape, handler: str) -> bool | None:
    """Whether a node's runtime has a handler, None if unknown.

    Kubelets >= 1.31 fill status.runtimeHandlers (pkg/kubelet/runtime.go, v1.36.2) with what the
    runtime's Status call reports. If the list is empty, the handlers are unknown.
    """
    if shape.is_docker and handler == _DOCKER_HANDLER:
        return True
    return any(each.name == handler for each in shape.handlers) if shape.handlers else None


def _feature_reason(
    runtime_class: RuntimeClass | None, shape: Shape, needed: Features
) -> Reason | None:
    name, handler = (runtime_class.name, runtime_class.handler) if runtime_class else ("", "")
    # To the kubelet, too, a handler that is not listed has no features
    # (pkg/kubelet/kubelet_pods.go, v1.36.2).
    offered = next((each for each in shape.handlers if each.name == handler), Handler(handler))
    # The Windows kubelet ignores hostUsers (pkg/kubelet/userns/userns_manager_windows.go, v1.36.2).
    if needed.user_namespaces and not offered.user_namespaces and not shape.kubelet.is_windows:
        return reasons.feature_lacking(name, handler, "user namespaces")
    if needed.recursive_read_only_mounts and not offered.recursive_read_only_mounts:
        return reasons.feature_lacking(name, handler, "recursive read-only mounts")
    return None


def unsupported_words(uses: frozenset[str] | None, runtime_class: RuntimeClass) -> tuple[str, ...]:
    """The features that a pod uses and its class lists as unsupported, in the class's order."""
    rules, used = runtime_class.rules or ClassRules(), uses or frozenset()
    adds_all = f"{CAPABILITY}ALL" in used
    return tuple(
        word
        for word in rules.unsupported
        if word in used or (adds_all and word.startswith(CAPABILITY))
    )


def unsupported_reason(uses: frozenset[str] | None, runtime_class: RuntimeClass) -> Reason | None:
    """Why no node can run a pod that uses an unsupported feature, None if it uses none."""
    words = unsupported_words(uses, runtime_class)
    return reasons.unsupported(runtime_class.name, words[0]) if words else None


def reason_for_all_nodes(needs: PodNeeds, runtime_class: RuntimeClass | None) -> Reason | None:
    """Checks 1 to 3: why no node at all can run the pod.

    runtime_class: the class that the pod names, None if it names none or the class does not exist.
    """
    if runtime_class is None:
        return reasons.not_found(needs.runtime_class_name) if needs.runtime_class_name else None
    conflict = conflicting_key(dict(needs.node_selector), runtime_class.node_selector)
    if conflict:
        return reasons.selector_conflict(runtime_class.name, *conflict)
    return unsupported_reason(needs.uses, runtime_class)


def _class_checks(
    runtime_class: RuntimeClass,
    tolerations: TolerationSet,
    check: HandlerCheck,
    *,
    with_conditions: bool,
) -> Iterator[Check]:
    """Checks 4 to 7, in order: what the class asks of a node.

    with_conditions: taints that describe the node's current condition count too.
    """
    name, rules = runtime_class.name, runtime_class.rules or ClassRules()
    if rules.has_fault(UNSUPPORTED):
        yield _always(reasons.annotation_unreadable(Code.UNSUPPORTED, name, UNSUPPORTED))
    if runtime_class.node_selector:
        yield _selects(runtime_class)
    if rules.has_fault(TERMS):
        yield _always(reasons.annotation_unreadable(Code.SELECTOR, name, TERMS))
    elif rules.terms is not None:
        yield _matches_terms(name, rules)
    yield _tolerates(name, tolerations, with_conditions=with_conditions)
    if rules.has_fault(CONDITIONS):
        yield _always(reasons.annotation_unreadable(Code.CONDITION, name, CONDITIONS))
    for condition in rules.conditions:
        yield _has(condition, reasons.condition_lacking(name, condition))
    if check is not HandlerCheck.OFF:
        yield _has_handler(runtime_class, check)


def _selects(runtime_class: RuntimeClass) -> Check:
    def check(shape: Shape) -> Reason | None:
        entries = runtime_class.node_selector
        missing = tuple(entry for entry in entries if entry not in shape.selector_entries)
        return reasons.selector_mismatch(runtime_class.name, missing) if missing else None

    return check


def _tolerates(name: str, tolerations: TolerationSet, *, with_conditions: bool) -> Check:
    def check(shape: Shape) -> Reason | None:
        judged: Iterable[Taint] = shape.taints
        if not with_conditions:
            judged = (taint for taint in judged if not is_condition_taint(taint))
        taint = find_untolerated_taint(judged, tolerations)
        return None if taint is None else reasons.untolerated_taint(name, taint)

    return check


def _has_handler(runtime_class: RuntimeClass, check: HandlerCheck) -> Check:
    name, handler = runtime_class.name, runtime_class.handler
    unknown = reasons.handlers_not_reported(name) if check is HandlerCheck.STRICT else None
    found = {True: None, False: reasons.handler_absent(name, handler), None: unknown}
    return lambda shape: found[has_handler(shape, handler)]


def _trusts(runtime_class: RuntimeClass) -> Check:
    name, handler = runtime_class.name, runtime_class.handler

    def check(shape: Shape) -> Reason | None:
        suspect = shape.suspect(handler) if shape.suspects else None
        if suspect is None or name not in suspect.refused:
            return None
        return reasons.suspect_handler(name, handler, suspect.pods)

    return check


def _always(reason: Reason) -> Check:
    return lambda _: reason


def _has(condition: Condition, lacking: Reason) -> Check:
    return lambda shape: None if condition in shape.conditions else lacking


def _matches_terms(name: str, rules: ClassRules) -> Check:
    """A node must match one of the class's node-selector-terms."""
    count, terms = len(rules.terms or ()), readable_terms(rules)
    # With several alternatives, no single requirement is the cause.
    only = terms[0] if count == 1 and terms else None

    def check(shape: Shape) -> Reason | None:
        if any(map(shape.met.issuperset, terms)):
            return None
        if only is None:
            return reasons.none_of_terms(name, count)
        return reasons.terms_mismatch(name, (each for each in only if each not in shape.met))

    return check


def joined_tolerations(
    tolerations: Iterable[Toleration], runtime_class: RuntimeClass | None, policy: Policy
) -> TolerationSet:
    """The tolerations of a pod and of its class, as admission merges them."""
    return TolerationSet(
        (*tolerations, *(runtime_class.tolerations if runtime_class else ())),
        comparison_operators=policy.comparison_operators,
    )


@dataclass(frozen=True, slots=True)
class Requirements:
    """The requirements on a node, compiled for many nodes: tolerations, and the checks in order.

    of_all: the reason to refuse every node, known or not, if one of the checks 1 to 3 fails.
    """

    tolerations: TolerationSet
    checks: tuple[Check, ...]
    of_all: Reason | None = None

    @classmethod
    def of(cls, needs: PodNeeds, runtime_class: RuntimeClass | None, policy: Policy) -> Self:
        tolerations = joined_tolerations(needs.tolerations, runtime_class, policy)
        handlers, features = policy.handler_check, needs.features
        checks: list[Check] = []
        if runtime_class:
            checks += _class_checks(runtime_class, tolerations, handlers, with_conditions=True)
        if features and handlers is not HandlerCheck.OFF:
            checks.append(lambda shape: _feature_reason(runtime_class, shape, features))
        checks += kubelet_checks(needs, policy.kubelet_check)
        if runtime_class:
            checks.append(_trusts(runtime_class))
        return cls(tolerations, tuple(checks), reason_for_all_nodes(needs, runtime_class))

    @classmethod
    def without_pod(cls, runtime_class: RuntimeClass, check: HandlerCheck) -> Self:
        """The requirements of a class alone: by its own tolerations, ignoring condition taints."""
        tolerations = TolerationSet(runtime_class.tolerations)
        checks = _class_checks(runtime_class, tolerations, check, with_conditions=False)
        return cls(tolerations, tuple(checks))

    def mismatch(self, shape: Shape) -> Reason | None:
        """The reason of the first check that a node of this shape fails, None if it passes."""
        if self.of_all is not None:
            return self.of_all
        for check in self.checks:
            reason = check(shape)
            if reason is not None:
                return reason
        return None
