"""The explain verb: why a pod fits or does not, node by node, by all static requirements.

In order: the RuntimeClass (semantics of the filter verb), then as kube-scheduler judges the pod:
names that its required node affinity asks for, cordon, taints by the pod's own tolerations, its
nodeSelector, its required node affinity, its requests against all that the node has, the features
that its node has to declare. The first that fails is the node's reason. Nothing that depends on
other pods (their usage, ports, volumes, spreading) is judged.

The order: pkg/scheduler/apis/config/v1/default_plugins.go, v1.36.2.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extender.admission.namespace_rules import NamespaceRules
from extender.names import text_of
from extender.objects import Pod, RuntimeClass, Taint
from extender.predicates.declared_features import is_judged, undeclared_reason
from extender.predicates.kubelet import KubeletCheck
from extender.predicates.node_checks import Policy, reason_for_all_nodes
from extender.predicates.node_selector import RequiredNodeAffinity, names_left
from extender.predicates.tolerations import (
    TolerationSet,
    find_untolerated_taint,
    tolerates_cordon,
)
from extender.reasons import (
    CORDONED,
    LEFT_OUT,
    POD_AFFINITY,
    POD_SELECTOR,
    POD_TAINT,
    TERMS_CONFLICT,
    Code,
    Reason,
)
from extender.shape import Shape, ShapeId
from extender.verbs.explain.candidate_nodes import Candidates
from extender.verbs.explain.effort import Effort
from extender.verbs.explain.origin import Origin, class_part_origin
from extender.verbs.explain.pod_state import state_sentences
from extender.verbs.explain.requirements import Requirement, requirements_of
from extender.verbs.explain.static_fit import StaticFit, request_of_pod
from extender.verbs.explain.warnings import Findings, warnings_of, warnings_of_rules
from extender.verbs.verdicts import VerdictCode, Verdicts, group_refusals

_ORIGINS: Final = {
    Code.POD_SELECTOR: Origin.POD,
    Code.POD_AFFINITY: Origin.POD,
    Code.POD_TAINT: Origin.POD,
    Code.POD_FEATURES: Origin.POD,
    Code.CORDONED: Origin.NODE,
    Code.UNKNOWN_NODE: Origin.NODE,
}


@dataclass(frozen=True, slots=True)
class ReasonGroup:
    """The nodes refused with one text for one cause, in the order they were asked about.

    told: the words of kube-scheduler's event for each of them, where they differ from the text.
    """

    text: str
    code: Code
    origin: Origin
    nodes: Sequence[bytes]
    told: tuple[str, ...] = ()

    @property
    def event_texts(self) -> tuple[str, ...]:
        return self.told or (self.text,)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything to say about a pod; reasons with most nodes first, then by text.

    state has sentences about the pod itself, none of most Pending pods.
    """

    pod: Pod
    runtime_class: RuntimeClass | None
    total: int
    passing: Sequence[bytes]
    reasons: Sequence[ReasonGroup]
    requirements: Sequence[Requirement]
    warnings: Sequence[str]
    state: Sequence[str] = ()

    @property
    def feasible(self) -> int:
        return len(self.passing)

    @property
    def summary(self) -> str:
        """In kube-scheduler's form: pkg/scheduler/framework/types.go FitError.Error, v1.36.2."""
        available = f"{self.feasible}/{self.total} nodes are available"
        if self.reasons and all(group.text == TERMS_CONFLICT.text for group in self.reasons):
            # kube-scheduler says this before it looks at any node, so without their number.
            return f"{available}: {TERMS_CONFLICT.text}."
        counts: dict[str, int] = {}
        for group in self.reasons:
            for text in group.event_texts:
                counts[text] = counts.get(text, 0) + len(group.nodes)
        texts = sorted(f"{count} {text}" for text, count in counts.items())
        return f"{available}: {', '.join(texts)}." if texts else f"{available}."


def explain(
    pod: Pod,
    runtime_class: RuntimeClass | None,
    candidates: Candidates,
    policy: Policy,
    rules: NamespaceRules | None = None,
    effort: Effort | None = None,
) -> Explanation:
    """Judge a pod on nodes. Raises TooMuchEffortError where the effort is limited.

    runtime_class is the one the pod names, None where it names none or there is none; the pod has
    its required node affinity and overhead (decoding.explained_pod_of). rules: those of its
    namespace, None where they are not known; they decide about no node, but make a warning.
    """
    if effort is not None:
        effort.spend(_size_of(pod))
    by_class = _judge_class(pod, runtime_class, candidates, policy)
    affinity = None if pod.node_affinity is None else RequiredNodeAffinity(pod.node_affinity)
    request = request_of_pod(pod, runtime_class)
    fit = None if request is None else StaticFit(request, candidates.allocatable)
    judged = _judge_pod(pod, affinity, by_class, candidates, policy, fit, effort)
    findings = Findings(
        only_class_tolerates=_only_class_tolerates(
            pod, runtime_class, candidates, judged.held_off_by_taints, policy
        ),
        refused_by_own_selector=judged.refused_by_own_selector,
        unreadable_terms=affinity.unreadable if affinity else (),
        may_lack_user_namespaces=_doubtful_kubelets(pod, judged.verdicts, candidates, policy),
    )
    return Explanation(
        pod,
        runtime_class,
        len(candidates.names),
        judged.verdicts.passing(candidates.names),
        _group(pod, runtime_class, candidates, judged.verdicts, fit, policy),
        requirements_of(pod, runtime_class, policy, request),
        [*warnings_of_rules(pod, rules), *warnings_of(pod, runtime_class, findings)],
        state_sentences(pod.state, _reason_there(pod.state.node_name, judged.verdicts, candidates)),
    )


def _size_of(pod: Pod) -> int:
    """The requirements and tolerations of a pod itself."""
    terms = pod.node_affinity or ()
    of_terms = sum(1 + len(each.match_expressions) + len(each.match_fields) for each in terms)
    return of_terms + len(pod.node_selector) + len(pod.tolerations)


def _reason_there(name: str, verdicts: Verdicts, candidates: Candidates) -> Reason | str | None:
    """Why the pod is refused by a node; "" for one that is not judged, None where it passes."""
    asked = name.encode()
    if not name or asked not in candidates.names:
        return ""
    position = candidates.names.index(asked)
    return verdicts.reasons[verdicts.codes[position]] if candidates.ids[position] else ""


def _doubtful_kubelets(
    pod: Pod, verdicts: Verdicts, candidates: Candidates, policy: Policy
) -> Mapping[str, int]:
    """By kubelet version, the passing nodes that may still reject the pod for its hostUsers."""
    counts: Counter[str] = Counter()
    if not pod.sets_host_users or policy.kubelet_check is KubeletCheck.OFF:
        return counts
    for code, shape_id in zip(verdicts.codes, candidates.ids, strict=True):
        if verdicts.reasons[code] is None and shape_id:
            version = candidates.shapes[shape_id].kubelet.may_lack_user_namespaces
            if version:
                counts[version] += 1
    return counts


def _judge_class(
    pod: Pod, runtime_class: RuntimeClass | None, candidates: Candidates, policy: Policy
) -> Verdicts:
    """The verdicts of the filter verb; unknown nodes are refused too."""
    of_all = reason_for_all_nodes(pod, runtime_class)
    if of_all is not None:
        return Verdicts.uniform(len(candidates.ids), of_all)
    table = candidates.shapes.verdicts(pod, runtime_class, policy)
    codes = list(map(table.codes.__getitem__, candidates.ids))
    return Verdicts(codes, table.reasons)


@dataclass(frozen=True, slots=True)
class _Judged:
    """The verdicts, and further facts about the nodes that the class lets pass.

    refused_by_own_selector: nodes that the pod's own nodeSelector refuses, possibly among others.
    held_off_by_taints: by shape id the nodes that match the pod by labels and name, but whose
    taints it does not tolerate.
    """

    verdicts: Verdicts
    refused_by_own_selector: int
    held_off_by_taints: Mapping[ShapeId, int]


def _judge_pod(
    pod: Pod,
    affinity: RequiredNodeAffinity | None,
    by_class: Verdicts,
    candidates: Candidates,
    policy: Policy,
    fit: StaticFit | None,
    effort: Effort | None,
) -> _Judged:
    """The verdicts with those of the pod's own requirements, where the class has none to make."""
    number: dict[Reason | None, int] = {
        reason: code for code, reason in enumerate(by_class.reasons)
    }
    number.setdefault(None, len(number))
    passes = number[None]
    own = TolerationSet(pod.tolerations, comparison_operators=policy.comparison_operators)
    shapes = candidates.shapes.shapes
    by_shape = [None, *(_cordon_or_taint(shape, own) for shape in shapes)]
    tainted = [False, *(find_untolerated_taint(each.taints, own) is not None for each in shapes)]
    undeclared = [None, *_undeclared(pod, shapes)]
    label_reason = _label_check(pod, affinity, candidates, effort)
    by_selector, held_off = 0, Counter[ShapeId]()
    codes = list(by_class.codes)
    for position, code in enumerate(codes):
        if code != passes:
            continue
        shape_id = candidates.ids[position]
        by_labels = label_reason(position) if label_reason else None
        if by_labels is LEFT_OUT or by_labels is TERMS_CONFLICT:
            reason: Reason | None = by_labels
        else:
            reason = by_shape[shape_id] or by_labels
            if reason is None and fit is not None:
                reason = fit.reason(position)
            reason = reason or undeclared[shape_id]
        if by_labels is None and tainted[shape_id]:
            held_off[shape_id] += 1
        by_selector += by_labels is POD_SELECTOR
        if reason is not None:
            codes[position] = number.setdefault(reason, len(number))
    return _Judged(Verdicts(codes, tuple(number)), by_selector, held_off)


def _undeclared(pod: Pod, shapes: Sequence[Shape]) -> Sequence[Reason | None]:
    """By shape kube-scheduler's reason for features that the pod needs and nodes do not declare."""
    needed = pod.declared_needs
    if not needed or not is_judged(shapes):
        return [None] * len(shapes)
    return [undeclared_reason(needed, shape) for shape in shapes]


def _cordon_or_taint(shape: Shape, own: TolerationSet) -> Reason | None:
    if shape.unschedulable and not tolerates_cordon(own):
        return CORDONED
    return POD_TAINT if find_untolerated_taint(shape.taints, own) is not None else None


def _label_check(
    pod: Pod,
    affinity: RequiredNodeAffinity | None,
    candidates: Candidates,
    effort: Effort | None,
) -> Callable[[int], Reason | None] | None:
    """The check of a node's labels and name by the pod's own requirements; None without any.

    Remembered by the labels looked at: of 65,000 nodes few differ in those.
    """
    if not pod.node_selector and affinity is None:
        return None
    terms = pod.node_affinity or ()
    left = names_left(terms)
    # Names are compared only with these, so all other names have the same result.
    named = {value for term in terms for each in term.match_fields for value in each.values}
    keys = {*pod.node_selector, *(each.key for term in terms for each in term.match_expressions)}
    glimpse = candidates.labels.glimpse(keys)
    known: dict[Hashable, Reason | None] = {}
    size = _size_of(pod)

    def judge(labels: Mapping[str, str], name: str) -> Reason | None:
        if left is not None and name not in left:
            return LEFT_OUT if left else TERMS_CONFLICT
        if any(labels.get(key) != value for key, value in pod.node_selector.items()):
            return POD_SELECTOR
        return None if affinity is None or affinity.matches(labels, name) else POD_AFFINITY

    def check(position: int) -> Reason | None:
        name = text_of(candidates.names[position]) if named else ""
        seen = (name if name in named else None, glimpse(position))
        if seen not in known:
            if effort is not None:
                effort.spend(size)
            known[seen] = judge(candidates.labels(position), name)
        return known[seen]

    return check


def _group(
    pod: Pod,
    runtime_class: RuntimeClass | None,
    candidates: Candidates,
    verdicts: Verdicts,
    fit: StaticFit | None,
    policy: Policy,
) -> Sequence[ReasonGroup]:
    """The refused nodes by text, and within one text by cause, which plain texts don't show."""
    example = dict(zip(verdicts.codes, candidates.ids, strict=True))
    groups = []
    for group in group_refusals(verdicts).groups:
        causes: dict[tuple[Code, Origin], list[VerdictCode]] = {}
        for code in group.codes:
            reason = verdicts.reasons[code]
            assert reason is not None
            if fit is not None and reason.code is Code.RESOURCES:
                nodes = verdicts.select(candidates.names, [code])
                text, told = fit.text(reason, len(nodes)), fit.told(reason)
                groups.append(ReasonGroup(text, reason.code, fit.origin(reason), nodes, told))
                continue
            origin = _ORIGINS.get(reason.code)
            if origin is None:
                shape_id = example[code]
                shape = candidates.shapes[shape_id] if shape_id else None
                origin = class_part_origin(reason.code, pod, runtime_class, shape, policy)
            causes.setdefault((reason.code, origin), []).append(code)
        for (short, origin), codes in causes.items():
            nodes = verdicts.select(candidates.names, codes)
            groups.append(ReasonGroup(group.text, short, origin, nodes))
    return sorted(groups, key=lambda each: (-len(each.nodes), each.text, each.code))


def _only_class_tolerates(
    pod: Pod,
    runtime_class: RuntimeClass | None,
    candidates: Candidates,
    held_off: Mapping[ShapeId, int],
    policy: Policy,
) -> Mapping[Taint, int]:
    """Taints that keep the pod away though its class tolerates them, with their nodes' number."""
    counts: Counter[Taint] = Counter()
    if runtime_class is None:
        return counts
    own = TolerationSet(pod.tolerations, comparison_operators=policy.comparison_operators)
    # On a node that the class lets pass, pod or class tolerates every taint.
    for shape_id, nodes in held_off.items():
        for taint in candidates.shapes[shape_id].taints:
            if not own.tolerates(taint):
                counts[taint] += nodes
    return counts
