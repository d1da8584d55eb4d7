"""Why the pods of a template fit no node, and the field to change; DaemonSets whose pods hang."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from extender.explain.explanation import Explainer, Explanation, past_cordons
from extender.explain.warnings import toleration_json
from extender.kubernetes.workloads import Found, Place, Template
from extender.model.finding import Finding, Severity, error
from extender.model.objects import CONTROL_PLANE, Pod, RuntimeClass, Taint
from extender.model.pod_needs import Toleration
from extender.model.reasons import Code, number_of, shown
from extender.rules.node_checks import is_condition_taint, joined_tolerations

#: A finding lists at most this many reasons for the nodes of a DaemonSet.
_NAMED: Final = 5

#: The words of class_annotations.FEATURES that are fields of a pod's spec.
_SPEC_FIELDS: Final = ("hostNetwork", "hostPID", "hostIPC")

#: Matches the first insufficient resource in the text of a reason.
_LACKING: Final = re.compile(r"Insufficient ([^:;]+)")

#: At most this many nodeSelector entries are left out one by one; a pod may have thousands.
_TRIED: Final = 5


def hanging(explainer: Explainer, template: Template, by_itself: Pod, pod: Pod) -> Iterator[Found]:
    """A finding if the DaemonSet controller creates pods for nodes on which they can't run.

    The controller looks only at the template, not at the class or the kubelet's own checks
    (pkg/controller/daemon/daemon_controller.go, v1.36.2). by_itself: the pod that it sees.
    """
    meant, explanation = explainer.explain(by_itself).passing, explainer.explain(pod)
    left = set(meant).difference(explanation.passing)
    if not left:
        return
    counts = Counter[str]()
    for group in explanation.reasons:
        counts[group.text] += len(left.intersection(group.nodes))
    told = [f"{count} {text}" for text, count in counts.most_common(_NAMED) if count]
    runtime_class = explainer.snapshot.runtime_classes.get(pod.runtime_class_name)
    selector = runtime_class.node_selector if runtime_class else ()
    codes = {group.code for group in explanation.reasons if left.intersection(group.nodes)}
    added = selector if Code.SELECTOR in codes else ()
    labels = ", ".join(f'{shown(key)}: "{shown(value)}"' for key, value in added)
    finding = error(
        "daemonset_hangs",
        f"on {len(left)} of the {number_of(len(meant), 'node')} that the DaemonSet is meant for"
        " its pod would stay Pending for ever",
        "its controller makes a pod for each node that the template allows, and looks at no"
        f" RuntimeClass: {', '.join(told)}",
        f"nodeSelector: {{{labels}}}" if labels else "give the template a narrower nodeSelector",
        *filter(None, [pod.runtime_class_name]),
    )
    yield finding, template.spec("runtimeClassName")


@dataclass(frozen=True, slots=True)
class _Case:
    """A pod that fits no node, and the explanation why."""

    explainer: Explainer
    template: Template
    pod: Pod
    explanation: Explanation

    @property
    def runtime_class(self) -> RuntimeClass | None:
        return self.explainer.snapshot.runtime_classes.get(self.pod.runtime_class_name)

    def without(self, **changed: Any) -> Explanation:
        """The explanation for the pod with some of its fields changed."""
        return self.explainer.explain(replace(self.pod, **changed))

    def untolerated(self, name: bytes) -> tuple[Taint, ...]:
        """The taints of a node that neither pod nor class tolerates."""
        shape = self.explainer.snapshot.shape(name)
        policy = self.explainer.policy
        both = joined_tolerations(self.pod.tolerations, self.runtime_class, policy)
        return tuple(each for each in shape.taints if not both.tolerates(each)) if shape else ()

    def found(
        self, code: str, what: str, fix: str, place: Place, severity: Severity = Severity.ERROR
    ) -> Found:
        names = (self.pod.runtime_class_name,) if self.pod.runtime_class_name else ()
        return Finding(severity, code, what, self.explanation.summary, fix, names), place

    def relaxed(
        self, code: str, text: str, place: Place, fix: str, **changed: Any
    ) -> Iterator[Found]:
        """A finding if the changed pod fits. text: the requirement that the change removes."""
        feasible = self.without(**changed).feasible
        if feasible:
            nodes = number_of(feasible, "node")
            what = f"{self.fits_none}: they would fit {nodes} without {text}"
            yield self.found(code, what, fix, place)

    @property
    def fits_none(self) -> str:
        return f"the pods fit none of {number_of(self.explanation.total, 'node')}"


def unplaced(explainer: Explainer, template: Template, pod: Pod) -> Found:
    case = _Case(explainer, template, pod, explainer.explain(pod))
    checks = (_unsupported, _state, _taints, _labels, _features, _kubelet, _resources, _anything)
    return next(found for check in checks for found in check(case))


def _unsupported(case: _Case) -> Iterator[Found]:
    for group in case.explanation.reasons:
        if group.code is Code.UNSUPPORTED:
            detail = group.text.rpartition("(")[2].rstrip(")")
            name = shown(case.pod.runtime_class_name)
            what = f'{detail} for pods of RuntimeClass "{name}"'
            fix = "remove it from the pod, or use another RuntimeClass"
            used = detail.partition(" ")[0]
            field = used if used in _SPEC_FIELDS else "runtimeClassName"
            yield case.found("unsupported", what, fix, case.template.spec(field))


def _state(case: _Case) -> Iterator[Found]:
    """Not the template's fault: matching nodes are cordoned, not ready or under pressure."""
    taints = case.explainer.snapshot.shapes.taints
    keys = {each.key for each in taints if is_condition_taint(each)}
    feasible = case.explainer.explain(past_cordons(case.pod, *sorted(keys))).feasible
    if feasible:
        yield case.found(
            "fits_nowhere",
            f"{case.fits_none} at the moment: {number_of(feasible, 'node')} would fit, but"
            f" {'is' if feasible == 1 else 'are'} cordoned or not ready",
            "kubectl get nodes",
            case.template.spec("runtimeClassName"),
            Severity.WARNING,
        )


def _taints(case: _Case) -> Iterator[Found]:
    tolerant = case.without(tolerations=(*case.pod.tolerations, Toleration(operator="Exists")))
    lacking = Counter(map(case.untolerated, tolerant.passing))
    if not lacking:
        return
    taints, nodes = min(lacking.items(), key=_cost)
    tolerations = [
        Toleration(each.key, "Equal" if each.value else "Exists", each.value, each.effect)
        for each in taints
        if not is_condition_taint(each)
    ]
    yield case.found(
        "missing_toleration",
        f"{case.fits_none}: they would fit {number_of(nodes, 'node')} if they tolerated"
        f" {' and '.join(shown(str(each)) for each in taints)}",
        f"tolerations: [{', '.join(map(toleration_json, tolerations))}]",
        case.template.spec("tolerations"),
    )


def _cost(lacking: tuple[tuple[Taint, ...], int]) -> tuple[bool, int, int, str]:
    """A sort key: taints of the control plane come last, then fewest taints, most nodes."""
    taints, nodes = lacking
    return any(each.key == CONTROL_PLANE for each in taints), len(taints), -nodes, str(taints)


def _labels(case: _Case) -> Iterator[Found]:
    """The pod's own label requirements: one nodeSelector entry, all of them, or its affinity."""
    code, selector, place = "fits_nowhere", case.pod.node_selector, case.template.spec
    fix = "kubectl get nodes --show-labels"
    of_class = dict(case.runtime_class.node_selector) if case.runtime_class else {}
    own = [key for key in selector if key not in of_class]
    for key in own[:_TRIED]:
        left = {name: value for name, value in selector.items() if name != key}
        text, at = f"nodeSelector {shown(key)}={shown(selector[key])}", place("nodeSelector", key)
        yield from case.relaxed(code, text, at, fix, node_selector=left)
    left = {key: selector[key] for key in selector if key in of_class}
    yield from case.relaxed(code, "nodeSelector", place("nodeSelector"), fix, node_selector=left)
    text, at = "required node affinity", place("affinity")
    yield from case.relaxed(code, text, at, fix, node_affinity=None)


def _features(case: _Case) -> Iterator[Found]:
    needs, texts, changed = case.pod.features, [], dict[str, Any]()
    place = case.template.spec("hostUsers")
    if needs.user_namespaces:
        texts.append("hostUsers: false")
        changed = {"sets_host_users": False, "declared_needs": frozenset[str]()}
    if needs.recursive_read_only_mounts:
        texts.append("recursiveReadOnly: Enabled")
        place = place if needs.user_namespaces else case.template.read_only_mount()
    text = " and ".join(texts)
    fix = "remove it, or use a RuntimeClass whose handler has the feature"
    yield from case.relaxed("feature", text, place, fix, features=type(needs)(), **changed)


def _kubelet(case: _Case) -> Iterator[Found]:
    """The requirements that only the kubelet checks, and the features that nodes declare."""
    needs, template = case.pod.kubelet_needs, case.template
    code, text, place = "node_feature", "what they need of the kubelet", template.spec()
    if needs is None:
        pass
    elif needs.system is not None:
        code, text = "os", f"spec.os.name {shown(needs.system)}"
        place = template.spec("os", "name")
    elif needs.system_label is not None:
        code, text = "os", f"the label kubernetes.io/os={shown(needs.system_label)}"
        place = (*template.place, "metadata", "labels", "kubernetes.io/os")
    elif needs.strict_groups:
        text = "supplementalGroupsPolicy: Strict"
        place = template.spec("securityContext", "supplementalGroupsPolicy")
    elif needs.pod_resources:
        text, place = "resources of the pod as a whole", template.spec("resources")
    changed = {"kubelet_needs": None, "declared_needs": frozenset[str]()}
    yield from case.relaxed(code, text, place, "remove it, or add nodes that have it", **changed)


def _resources(case: _Case) -> Iterator[Found]:
    """The pod's requests plus the class's overhead are more than an empty node has."""
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


def _anything(case: _Case) -> Iterator[Found]:
    """The last resort: several causes together, or the class itself."""
    name = case.pod.runtime_class_name
    show = f"runtimeclass nodes {shown(name)}" if name else "get nodes --show-labels"
    place = case.template.spec("runtimeClassName")
    yield case.found("fits_nowhere", case.fits_none, f"kubectl {show}", place)
