"""The requirements of a pod on a node, in the order in which they are judged, and their origin.

plugin/pkg/admission/runtimeclass copies a class's nodeSelector and tolerations into the pod
(v1.36.2). An entry that class and pod share has the origin `Both`, whoever wrote it first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from extender.explain.own_checks import Question
from extender.model.objects import ClassRules, Pod, RuntimeClass, SelectorRequirement, SelectorTerm
from extender.model.pod_needs import Toleration
from extender.model.reasons import Code, shown
from extender.rules.kubelet_checks import KubeletCheck
from extender.rules.node_checks import HandlerCheck, Policy, is_condition_taint, joined_tolerations
from extender.rules.node_selector import missing_labels
from extender.rules.node_shape import Shape, requirements_in
from extender.rules.resource_fit import PODS, Request, amount_text
from extender.rules.tolerations import find_untolerated_taint


class Origin(StrEnum):
    RUNTIME_CLASS = "RuntimeClass"
    POD = "Pod"
    BOTH = "Both"
    NODE = "Node"


#: The origin of a reason by its code. For other codes the origin depends on pod, class and node.
_ORIGINS: Final = {
    Code.HANDLER: Origin.RUNTIME_CLASS,
    Code.NOT_FOUND: Origin.RUNTIME_CLASS,
    Code.CONFLICT: Origin.RUNTIME_CLASS,
    Code.CONDITION: Origin.RUNTIME_CLASS,
    Code.UNSUPPORTED: Origin.RUNTIME_CLASS,
    Code.FEATURE: Origin.POD,
    Code.OS: Origin.POD,
    Code.NODE_FEATURE: Origin.POD,
    Code.POD_SELECTOR: Origin.POD,
    Code.POD_AFFINITY: Origin.POD,
    Code.POD_TAINT: Origin.POD,
    Code.POD_FEATURES: Origin.POD,
    Code.CORDONED: Origin.NODE,
    Code.SUSPECT: Origin.NODE,
    Code.UNKNOWN_NODE: Origin.NODE,
}


def normal(toleration: Toleration) -> Toleration:
    """The toleration with its default operator written out, and without seconds."""
    key, operator, value, effect, _ = toleration
    return Toleration(key, operator or "Equal", value, effect)


def carries_terms(pod: Pod, runtime_class: RuntimeClass) -> bool:
    """Whether each term of the pod's required node affinity contains one of the class's."""
    if runtime_class.rules is None or not runtime_class.rules.terms or not pod.node_affinity:
        return False
    of_class = [frozenset(requirements_in(each)) for each in runtime_class.rules.terms]
    return all(
        any(one <= frozenset(requirements_in(each)) for one in of_class if one)
        for each in pod.node_affinity
    )


def origin_of(code: Code, asked: Question, shape: Shape | None) -> Origin:
    """The origin of a reason. shape: of a node refused for it, None for an unknown node."""
    pod, runtime_class = asked.pod, asked.runtime_class
    if code in _ORIGINS:
        return _ORIGINS[code]
    if runtime_class is None or shape is None:
        return Origin.POD
    selector = runtime_class.node_selector
    if code is Code.TAINT:
        tolerations = joined_tolerations(pod.tolerations, runtime_class, asked.policy)
        taint = find_untolerated_taint(shape.taints, tolerations)
        if taint is not None and is_condition_taint(taint):
            return Origin.NODE
        given = {normal(each) for each in runtime_class.tolerations}
        carried = bool(selector or given) and given <= set(map(normal, pod.tolerations))
        return _of_class_or_both(carried and not missing_labels(selector, pod.node_selector))
    missing = [each for each in selector if each not in shape.selector_entries]
    if missing:
        return _of_class_or_both(not missing_labels(missing, pod.node_selector))
    return _of_class_or_both(carries_terms(pod, runtime_class))


def _of_class_or_both(carried: bool) -> Origin:
    """carried: whether the pod has the class's entry too."""
    return Origin.BOTH if carried else Origin.RUNTIME_CLASS


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement. kind: the field of the pod or class that states it."""

    kind: str
    text: str
    origin: Origin


def requirements_of(
    pod: Pod, runtime_class: RuntimeClass | None, policy: Policy, request: Request | None
) -> Sequence[Requirement]:
    return [
        *_of_class(pod, runtime_class),
        *_of_handler(pod, runtime_class, policy),
        *_of_kubelet(pod, policy),
        *_of_pod(pod, runtime_class),
        *_of_resources(request),
    ]


def _of_resources(request: Request | None) -> Iterator[Requirement]:
    if request is None:
        return
    for name, amount in sorted(request.total.items()):
        overhead = request.overhead.get(name, 0)
        text, origin = f"{shown(name)}={amount_text(name, amount)}", Origin.POD
        if overhead == amount:
            text, origin = f"{text} (overhead)", Origin.RUNTIME_CLASS
        elif overhead:
            text, origin = f"{text} ({amount_text(name, overhead)} of it overhead)", Origin.BOTH
        if amount and name != PODS:
            yield Requirement("request", text, origin)


def _of_class(pod: Pod, runtime_class: RuntimeClass | None) -> Iterator[Requirement]:
    if pod.runtime_class_name:
        yield Requirement("runtimeClass", shown(pod.runtime_class_name), Origin.POD)
    if runtime_class is None:
        return
    rules = runtime_class.rules or ClassRules()
    for fault in rules.faults:
        yield Requirement("annotation", f"{shown(fault[0])} can't be read", Origin.RUNTIME_CLASS)
    for word in rules.unsupported:
        yield Requirement("unsupported", shown(word), Origin.RUNTIME_CLASS)
    for key, value in runtime_class.node_selector:
        origin = _of_class_or_both(pod.node_selector.get(key) == value)
        yield Requirement("nodeSelector", _entry(key, value), origin)
    if rules.terms is not None:
        origin = _of_class_or_both(carries_terms(pod, runtime_class))
        yield Requirement("nodeSelectorTerms", _affinity(rules.terms), origin)
    own = set(map(normal, pod.tolerations))
    for toleration in runtime_class.tolerations:
        origin = _of_class_or_both(normal(toleration) in own)
        yield Requirement("toleration", toleration_text(toleration), origin)
    for kind, status in rules.conditions:
        yield Requirement("condition", _entry(kind, status), Origin.RUNTIME_CLASS)


def _of_handler(
    pod: Pod, runtime_class: RuntimeClass | None, policy: Policy
) -> Iterator[Requirement]:
    if policy.handler_check is HandlerCheck.OFF:
        return
    if runtime_class is not None:
        yield Requirement("handler", shown(runtime_class.handler), Origin.RUNTIME_CLASS)
    if pod.features.user_namespaces:
        yield Requirement("feature", "user namespaces", Origin.POD)
    if pod.features.recursive_read_only_mounts:
        yield Requirement("feature", "recursive read-only mounts", Origin.POD)


def _of_kubelet(pod: Pod, policy: Policy) -> Iterator[Requirement]:
    needs = pod.kubelet_needs
    if needs is None or policy.kubelet_check is KubeletCheck.OFF:
        return
    if needs.system is not None:
        yield Requirement("os", shown(needs.system), Origin.POD)
    if needs.system_label is not None:
        yield Requirement("label", _entry("kubernetes.io/os", needs.system_label), Origin.POD)
    if needs.strict_groups:
        yield Requirement("supplementalGroupsPolicy", "Strict", Origin.POD)
    if needs.pod_resources:
        yield Requirement("resources", "of the pod as a whole", Origin.POD)


def _of_pod(pod: Pod, runtime_class: RuntimeClass | None) -> Iterator[Requirement]:
    given = {normal(each) for each in runtime_class.tolerations} if runtime_class else set()
    for toleration in pod.tolerations:
        if normal(toleration) not in given:
            yield Requirement("toleration", toleration_text(toleration), Origin.POD)
    of_class = dict(runtime_class.node_selector) if runtime_class else {}
    for key, value in sorted(pod.node_selector.items()):
        if of_class.get(key) != value:
            yield Requirement("nodeSelector", _entry(key, value), Origin.POD)
    terms = runtime_class.rules.terms if runtime_class and runtime_class.rules else None
    if pod.node_affinity is not None and pod.node_affinity != terms:
        merged = runtime_class is not None and carries_terms(pod, runtime_class)
        origin = Origin.BOTH if merged else Origin.POD
        yield Requirement("nodeAffinity", _affinity(pod.node_affinity), origin)
    for feature in sorted(pod.declared_needs):
        yield Requirement("declaredFeature", feature, Origin.POD)


def _entry(key: str, value: str) -> str:
    return f"{shown(key)}={shown(value)}"


def toleration_text(toleration: Toleration) -> str:
    """As `kubectl describe` prints it: KEY=VALUE:EFFECT, KEY:EFFECT op=Exists."""
    each = normal(toleration)
    text = f"{each.key}={each.value}" if each.value else each.key
    if each.effect:
        text += f":{each.effect}"
    if each.operator != "Equal":
        text += f" op={each.operator}"
    return shown(text.strip())


def _affinity(terms: Sequence[SelectorTerm]) -> str:
    told = (
        " and ".join(map(_expression, (*each.match_expressions, *each.match_fields)))
        or "an empty term, which no node matches"
        for each in terms
    )
    return " or ".join(told) or "no term, which no node matches"


def _expression(requirement: SelectorRequirement) -> str:
    words = [requirement.key, requirement.operator]
    if requirement.values:
        words.append(f"({', '.join(requirement.values)})")
    return shown(" ".join(words))
