"""Why the pods of a template fit no node: which of its fields to leave out so that they fit."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from extender.checks.finding import Finding, Severity
from extender.checks.template_fields import Found, Place, Template
from extender.checks.template_nodes import Placing
from extender.objects import UNSCHEDULABLE_TAINT_KEY, Pod, RuntimeClass, Taint, Toleration
from extender.predicates.node_checks import is_condition_taint
from extender.reasons import Code, number_of, shown
from extender.verbs.explain.explanation import Explanation
from extender.verbs.explain.warnings import toleration_json

_EVERY_TAINT: Final = Toleration(operator="Exists")

#: The words of class_annotations.FEATURES that are fields of a pod's spec.
_SPEC_FIELDS: Final = ("hostNetwork", "hostPID", "hostIPC")

#: What the reason says of the first resource that is lacking.
_LACKING: Final = re.compile(r"Insufficient ([^:;]+)")

#: The number of the pod's nodeSelector entries that are left out one by one; a pod may have
#: thousands.
_TRIED: Final = 5


@dataclass(frozen=True, slots=True)
class _Case:
    """A pod that fits no node; explanation says why."""

    placing: Placing
    template: Template
    pod: Pod
    runtime_class: RuntimeClass | None
    explanation: Explanation

    def without(self, **changed: object) -> Explanation:
        """The same for the pod with some of its fields changed."""
        return self.placing.explain(replace(self.pod, **changed), self.runtime_class)  # type: ignore[arg-type]

    def found(
        self,
        code: str,
        what: str,
        fix: str,
        place: Place,
        severity: Severity = Severity.ERROR,
    ) -> Found:
        names = (self.runtime_class.name,) if self.runtime_class else ()
        return Finding(severity, code, what, self.explanation.summary, fix, names), place

    @property
    def fits_none(self) -> str:
        return f"the pods fit none of {number_of(self.explanation.total, 'node')}"


def unplaced(
    placing: Placing, template: Template, pod: Pod, runtime_class: RuntimeClass | None
) -> Found:
    """The finding about a pod that fits no node."""
    case = _Case(placing, template, pod, runtime_class, placing.explain(pod, runtime_class))
    checks = (_unsupported, _state, _taints, _labels, _features, _kubelet, _resources)
    return next((found for check in checks for found in check(case)), None) or _anything(case)


def _unsupported(case: _Case) -> Iterator[Found]:
    for group in case.explanation.reasons:
        if group.code is Code.UNSUPPORTED:
            detail = group.text.rpartition("(")[2].rstrip(")")
            name = shown(case.pod.runtime_class_name)
            what = f'{detail} for pods of RuntimeClass "{name}"'
            fix = "do without it, or use another RuntimeClass"
            used = detail.partition(" ")[0]
            field = used if used in _SPEC_FIELDS else "runtimeClassName"
            yield case.found("unsupported", what, fix, case.template.spec(field))


def _state(case: _Case) -> Iterator[Found]:
    """The nodes that match are cordoned, not ready or full: no fault of the template."""
    keys = {each.key for each in case.placing.taints if is_condition_taint(each)}
    conditions = (Toleration(key, "Exists") for key in sorted({UNSCHEDULABLE_TAINT_KEY, *keys}))
    feasible = case.without(tolerations=(*case.pod.tolerations, *conditions)).feasible
    if feasible:
        yield case.found(
            "fits_nowhere",
            f"{case.fits_none} at the moment: {number_of(feasible, 'node')} would do, and"
            f" {'is' if feasible == 1 else 'are'} cordoned or not ready",
            "kubectl get nodes",
            case.template.spec("runtimeClassName"),
            Severity.WARNING,
        )


def _taints(case: _Case) -> Iterator[Found]:
    tolerant = case.without(tolerations=(*case.pod.tolerations, _EVERY_TAINT))
    lacking = Counter[tuple[Taint, ...]]()
    for name in tolerant.passing:
        lacking[case.placing.untolerated(case.pod, case.runtime_class, name)] += 1
    if not lacking:
        return
    taints, nodes = min(lacking.items(), key=lambda item: (len(item[0]), -item[1], str(item[0])))
    tolerations = [
        Toleration(each.key, "Equal" if each.value else "Exists", each.value, each.effect)
        for each in taints
    ]
    yield case.found(
        "missing_toleration",
        f"{case.fits_none}: they would fit {number_of(nodes, 'node')} if they tolerated"
        f" {' and '.join(shown(str(each)) for each in taints)}",
        f"tolerations: [{', '.join(map(toleration_json, tolerations))}]",
        case.template.spec("tolerations"),
    )


def _labels(case: _Case) -> Iterator[Found]:
    """The labels that the pod itself asks for: one entry, all of them, its affinity."""
    selector, template = case.pod.node_selector, case.template
    of_class = dict(case.runtime_class.node_selector) if case.runtime_class else {}
    own = [key for key in selector if key not in of_class]
    tried: list[tuple[dict[str, object], str, Place]] = [
        (
            {"node_selector": {name: value for name, value in selector.items() if name != key}},
            f"nodeSelector {shown(key)}={shown(selector[key])}",
            template.spec("nodeSelector", key),
        )
        for key in own[:_TRIED]
    ]
    if len(own) > 1:
        left = {name: value for name, value in selector.items() if name in of_class}
        tried.append(({"node_selector": left}, "nodeSelector", template.spec("nodeSelector")))
    if case.pod.node_affinity is not None:
        place = template.spec("affinity")
        tried.append(({"node_affinity": None}, "required node affinity", place))
    for changed, text, place in tried:
        feasible = case.without(**changed).feasible
        if feasible:
            yield case.found(
                "fits_nowhere",
                f"{case.fits_none}: they would fit {number_of(feasible, 'node')} without {text}",
                f"kubectl get nodes -L {shown(str(place[-1]))}"
                if len(place) > len(template.spec("nodeSelector"))
                else "kubectl get nodes --show-labels",
                place,
            )


def _features(case: _Case) -> Iterator[Found]:
    needs = case.pod.features
    of_users = {"sets_host_users": False, "declared_needs": frozenset[str]()}
    tried = (
        (
            needs.user_namespaces,
            {"features": needs._replace(user_namespaces=False), **of_users},
            "hostUsers: false",
            case.template.spec("hostUsers"),
        ),
        (
            needs.recursive_read_only_mounts,
            {"features": needs._replace(recursive_read_only_mounts=False)},
            "recursiveReadOnly: Enabled",
            case.template.read_only_mount(),
        ),
        (
            needs.user_namespaces and needs.recursive_read_only_mounts,
            {"features": type(needs)(), **of_users},
            "hostUsers: false and recursiveReadOnly: Enabled",
            case.template.spec("hostUsers"),
        ),
    )
    for needed, changed, text, place in tried:
        feasible = case.without(**changed).feasible if needed else 0
        if feasible:
            yield case.found(
                "feature",
                f"{case.fits_none}: they would fit {number_of(feasible, 'node')} without {text}",
                "do without it, or use a RuntimeClass whose handler has the feature",
                place,
            )


def _kubelet(case: _Case) -> Iterator[Found]:
    """The requirements that only the kubelet checks, and the features that nodes declare."""
    needs, template = case.pod.kubelet_needs, case.template
    feasible = case.without(kubelet_needs=None, declared_needs=frozenset[str]()).feasible
    if not feasible:
        return
    code, text, place = "node_feature", "what they need of the kubelet", template.spec()
    if needs is not None and needs.system is not None:
        code, text = "os", f"spec.os.name {shown(needs.system)}"
        place = template.spec("os", "name")
    elif needs is not None and needs.system_label is not None:
        code, text = "os", f"the label kubernetes.io/os={shown(needs.system_label)}"
        place = (*template.place, "metadata", "labels", "kubernetes.io/os")
    elif needs is not None and needs.strict_groups:
        text = "supplementalGroupsPolicy: Strict"
        place = template.spec("securityContext", "supplementalGroupsPolicy")
    elif needs is not None and needs.pod_resources:
        text, place = "resources of the pod as a whole", template.spec("resources")
    yield case.found(
        code,
        f"{case.fits_none}: they would fit {number_of(feasible, 'node')} without {text}",
        "do without it, or add nodes that have it",
        place,
    )


def _resources(case: _Case) -> Iterator[Found]:
    """Empty nodes lack what is asked for, the class's overhead included."""
    if not case.without(resources=None).feasible:
        return
    groups = [each for each in case.explanation.reasons if each.code is Code.RESOURCES]
    for group in groups[:1]:
        lacking = _LACKING.match(group.text)
        resource = lacking[1] if lacking else "pods"
        yield case.found(
            "resources",
            f"{case.fits_none}: {group.text}",
            f"lower the request for {shown(resource)}, or add larger nodes",
            case.template.asking(resource),
        )


def _anything(case: _Case) -> Found:
    """Several causes together, or the class itself."""
    name = case.pod.runtime_class_name
    return case.found(
        "fits_nowhere",
        case.fits_none,
        f"kubectl runtimeclass nodes {shown(name)}" if name else "kubectl get nodes --show-labels",
        case.template.spec("runtimeClassName"),
    )
