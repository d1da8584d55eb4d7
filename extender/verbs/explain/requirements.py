"""The requirements of a pod on a node, one line each, in the order in which they are judged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from extender.objects import (
    ClassRules,
    Pod,
    RuntimeClass,
    SelectorRequirement,
    SelectorTerm,
    Toleration,
)
from extender.predicates.kubelet import KubeletCheck
from extender.predicates.node_checks import HandlerCheck, Policy
from extender.predicates.resource_fit import Request
from extender.reasons import shown
from extender.verbs.explain.origin import Origin, carries_terms, normal
from extender.verbs.explain.static_fit import request_texts


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement; kind is the field of the pod or class that it stands in."""

    kind: str
    text: str
    origin: Origin


def requirements_of(
    pod: Pod, runtime_class: RuntimeClass | None, policy: Policy, request: Request | None
) -> Sequence[Requirement]:
    """request is what the pod asks for, None where that is not known."""
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
    for name, text in request_texts(request).items():
        part = request.overhead.get(name, 0)
        origin = Origin.BOTH if part else Origin.POD
        if part and part == request.total[name]:
            origin = Origin.RUNTIME_CLASS
        yield Requirement("request", f"{shown(name)}={text}", origin)


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
        origin = Origin.BOTH if pod.node_selector.get(key) == value else Origin.RUNTIME_CLASS
        yield Requirement("nodeSelector", _entry(key, value), origin)
    if rules.terms is not None:
        origin = Origin.BOTH if carries_terms(pod, runtime_class) else Origin.RUNTIME_CLASS
        yield Requirement("nodeSelectorTerms", _affinity(rules.terms), origin)
    own = set(map(normal, pod.tolerations))
    for toleration in runtime_class.tolerations:
        origin = Origin.BOTH if normal(toleration) in own else Origin.RUNTIME_CLASS
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
    if not terms:
        return "no term, which no node matches"
    return " or ".join(map(_term, terms))


def _term(term: SelectorTerm) -> str:
    parts = [_expression(each) for each in (*term.match_expressions, *term.match_fields)]
    return " and ".join(parts) or "an empty term, which no node matches"


def _expression(requirement: SelectorRequirement) -> str:
    words = [requirement.key, requirement.operator]
    if requirement.values:
        words.append(f"({', '.join(requirement.values)})")
    return shown(" ".join(words))
