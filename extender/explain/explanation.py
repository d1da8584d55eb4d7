"""The explain verb: why a pod fits or does not, node by node, by all static requirements.

The RuntimeClass is judged as by the filter verb, then the pod by kube-scheduler's own checks. The
first requirement that fails is the node's reason. Nothing that depends on other pods (their usage,
ports, volumes, spreading) is judged.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from itertools import chain
from typing import Final

from extender.explain import warnings
from extender.explain.own_checks import AskVersion, OwnChecks, Question, Room, request_of_pod
from extender.explain.requirements import Origin, Requirement, origin_of, requirements_of
from extender.kubernetes.namespaces import NamespaceRules
from extender.model.errors import Effort
from extender.model.names import ShapeId
from extender.model.objects import UNSCHEDULABLE_TAINT_KEY, Pod
from extender.model.pod_needs import Toleration
from extender.model.reasons import TERMS_CONFLICT, Code, Reason, number_of, resources_lacking, shown
from extender.rules.node_checks import Policy
from extender.rules.pools import Candidates, nodes_of
from extender.rules.resource_fit import PODS, Insufficient, amount_text
from extender.rules.snapshot import Snapshot
from extender.rules.verdicts import VerdictCode, Verdicts, group_refusals


@dataclass(frozen=True, slots=True)
class ReasonGroup:
    """The nodes refused with the same text for the same cause, in the order of the candidates.

    told: the texts that kube-scheduler's event has for each of these nodes.
    """

    text: str
    code: Code
    origin: Origin
    nodes: Sequence[bytes]
    told: Sequence[str]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdicts about a pod. Reasons are sorted by number of nodes, most first, then by text."""

    pod: Pod
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
        if not self.reasons:
            return f"{available}."
        if all(group.text == TERMS_CONFLICT.text for group in self.reasons):
            # kube-scheduler reports this before it looks at nodes, so without a number of nodes.
            return f"{available}: {TERMS_CONFLICT.text}."
        counts = Counter[str]()
        for group in self.reasons:
            counts.update(dict.fromkeys(group.told, len(group.nodes)))
        return fit_error(self.feasible, self.total, counts)


def fit_error(feasible: int, total: int, counts: Mapping[str, int]) -> str:
    """The text of FitError.Error: each reason after its number of nodes, sorted as strings."""
    told = ", ".join(sorted(f"{count} {text}" for text, count in counts.items() if count))
    return f"{feasible}/{total} nodes are available:{f' {told}.' if told else ''}"


def explain(
    asked: Question,
    rules: NamespaceRules | None = None,
    effort: Effort | None = None,
    now: datetime | None = None,
) -> Explanation:
    """Judge a pod on nodes. Raises TooMuchEffortError if the effort is limited and runs out.

    rules: of the pod's namespace, None if unknown. now: the time from which ages are computed.
    """
    pod, candidates = asked.pod, asked.candidates
    request, own = request_of_pod(asked), OwnChecks(asked, effort)
    room = Room(request, candidates.allocatable)
    # Cordons, also as the node controller's taint, are judged among kube-scheduler's own checks.
    by_class = judge_class(replace(asked, pod=past_cordons(pod)))
    verdicts, held_off = _judge_pod(own, room, by_class, candidates)
    passing = verdicts.passing(candidates.ids)
    return Explanation(
        pod,
        len(candidates.names),
        verdicts.passing(candidates.names),
        _group(asked, verdicts, room),
        requirements_of(pod, asked.runtime_class, asked.policy, request),
        [
            *warnings.forbidden(pod, rules),
            *warnings.unreadable(own.unreadable_terms),
            *warnings.doubtful_kubelets(asked, passing),
            *warnings.suspect_nodes(asked, passing),
            *warnings.missing_tolerations(asked, held_off),
            *warnings.stale_merge(pod, asked.runtime_class),
        ],
        warnings.state_sentences(pod, _reason_there(asked, verdicts), now),
    )


#: The number of cached explanations. Of thousands of pods, most ask for the same.
_REMEMBERED: Final = 256


class Explainer:
    """Explains pods on the nodes of one snapshot, and caches the latest explanations.

    version: returns the control plane's version. Called at most once, for declared features.
    """

    def __init__(
        self, snapshot: Snapshot, policy: Policy, version: AskVersion = lambda: None
    ) -> None:
        self.snapshot, self.policy = snapshot, policy
        self._version = cache(version)
        self._candidates = nodes_of(snapshot)
        self._known: dict[str, Explanation] = {}

    def explain(self, pod: Pod) -> Explanation:
        """The explanation of the pod. Pods that differ only in name, namespace and UID share it."""
        alike = repr(replace(pod, namespace="", name="", uid=pod.uid and "of the cluster"))
        found = self._known.get(alike)
        if found is None:
            own = self.snapshot.runtime_classes.get(pod.runtime_class_name)
            asked = Question(pod, own, self._candidates, self.policy, self._version)
            found = explain(asked)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[alike] = found
        return found


def _reason_there(asked: Question, verdicts: Verdicts) -> Reason | str | None:
    """Why the pod's own node refuses it; None if it passes, "" if the node is not judged."""
    name, candidates = asked.pod.state.node_name.encode(), asked.candidates
    if not name or name not in candidates.names:
        return ""
    position = candidates.names.index(name)
    return verdicts.reason(position) if candidates.ids[position] else ""


def past_cordons(pod: Pod, *taints: str) -> Pod:
    """The pod as it would be judged if no node were cordoned, or had taints of these keys."""
    passing = (Toleration(key, "Exists") for key in (UNSCHEDULABLE_TAINT_KEY, *taints))
    return replace(pod, tolerations=(*pod.tolerations, *passing))


def judge_class(asked: Question) -> Verdicts:
    """The verdicts of the filter verb; unknown nodes are refused too."""
    candidates = asked.candidates
    table = candidates.shapes.verdicts(asked.pod, asked.runtime_class, asked.policy)
    return Verdicts(list(map(table.codes.__getitem__, candidates.ids)), table.reasons)


def _judge_pod(
    own: OwnChecks, room: Room, by_class: Verdicts, candidates: Candidates
) -> tuple[Verdicts, Mapping[ShapeId, int]]:
    """The verdicts of class and pod. The pod's requirements are judged only where the class passes.

    Also, by shape id, the number of nodes that only lack a toleration of the pod itself: it fits
    there but for a taint.
    """
    number = {reason: code for code, reason in enumerate(by_class.reasons)}
    passes = number.setdefault(None, len(number))
    held_off = Counter[ShapeId]()
    codes = list(by_class.codes)
    for position, code in enumerate(codes):
        if code != passes:
            continue
        lacking = room.reason(position) or own.after_resources(position)
        reason = own.before_resources(position) or lacking
        if not (lacking or own.untolerated(position) is None or own.by_labels(position)):
            held_off[candidates.ids[position]] += 1
        if reason is not None:
            codes[position] = number.setdefault(reason, len(number))
    return Verdicts(codes, tuple(number)), held_off


def _group(asked: Question, verdicts: Verdicts, room: Room) -> Sequence[ReasonGroup]:
    """The refused nodes by text and, within a text, by cause (code and origin)."""
    candidates, groups = asked.candidates, []
    example = dict(zip(verdicts.codes, candidates.ids, strict=True))
    for group in group_refusals(verdicts).groups:
        causes: dict[tuple[Code, Origin], list[VerdictCode]] = {}
        for code in group.codes:
            reason = verdicts.reasons[code]
            assert reason is not None
            if reason.code is Code.RESOURCES:
                positions = verdicts.select(range(len(candidates.names)), [code])
                names = [candidates.names[position] for position in positions]
                groups.append(_lacking_group(room.lacking_by_resource(positions), names))
                continue
            shape_id = example[code]
            shape = candidates.shapes[shape_id] if shape_id else None
            origin = origin_of(reason.code, asked, shape)
            causes.setdefault((reason.code, origin), []).append(code)
        for (short, origin), codes in causes.items():
            nodes = verdicts.select(candidates.names, codes)
            groups.append(ReasonGroup(group.text, short, origin, nodes, [group.text]))
    return sorted(groups, key=lambda each: (-len(each.nodes), each.text, each.code))


def _lacking_group(
    lacking: Mapping[str, Sequence[Insufficient]], nodes: Sequence[bytes]
) -> ReasonGroup:
    # The class is the origin if the pod would fit without the overhead.
    every = chain.from_iterable(lacking.values())
    by_class = all(each.asked - each.overhead <= each.allocatable for each in every)
    return ReasonGroup(
        "; ".join(_lacking_text(found, len(nodes)) for found in lacking.values()),
        Code.RESOURCES,
        Origin.RUNTIME_CLASS if by_class else Origin.POD,
        nodes,
        [resources_lacking((name,)).text for name in lacking],
    )


def _lacking_text(found: Sequence[Insufficient], nodes: int) -> str:
    """The text about one resource. found: an entry for each machine type."""
    name, asked, overhead = found[0].resource, found[0].asked, found[0].overhead
    amounts = {each.allocatable for each in found}
    on_nodes = f"allocatable on {number_of(nodes, 'node')}"
    if name == PODS:
        return f"Too many pods: {max(amounts)} {on_nodes}"
    of_class = f" ({amount_text(name, overhead)} of it RuntimeClass overhead)" if overhead else ""
    at_most = "at most " if len(amounts) > 1 else ""
    return (
        f"Insufficient {shown(name)}: {amount_text(name, asked)} asked{of_class},"
        f" {at_most}{amount_text(name, max(amounts))} {on_nodes}"
    )
