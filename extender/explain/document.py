"""The JSON of an explanation, the same from the endpoint and from the command."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, Final

from extender.explain.attempt import Attempt, outlook_of
from extender.explain.explanation import Explanation, explain, past_cordons
from extender.explain.own_checks import Question
from extender.kubernetes.namespaces import NamespaceRules
from extender.model.names import NameRun, text_of
from extender.model.objects import CONTROL_PLANE, RuntimeClass
from extender.model.reasons import Code, listed, shown
from extender.rules.node_checks import is_condition_taint
from extender.rules.resource_fit import PodsBeside
from extender.rules.snapshot import Snapshot
from extender.verbs.prioritize import Preferences

Document = Mapping[str, Any]

#: The number of nodes named for each reason.
NAMED_NODES: Final = 5


def explained(
    asked: Question, rules: NamespaceRules | None, pods_beside: PodsBeside | None
) -> tuple[Explanation, dict[str, Any]]:
    """A pod's explanation, and its document. Without pods_beside the document has no event."""
    asked, event, uncounted = replace(asked, version=cache(asked.version)), "", ""
    explanation = explain(asked, rules, now=datetime.now(UTC))
    if pods_beside is not None:
        event, uncounted = outlook_of(Attempt(asked), pods_beside)
    recovered = explanation
    if not explanation.feasible and any(each.code in _PASSING for each in explanation.reasons):
        # Only a judgement without cordons and conditions shows whether such a node would fit.
        passing = {each.key for each in asked.candidates.shapes.taints if is_condition_taint(each)}
        recovered = explain(replace(asked, pod=past_cordons(asked.pod, *passing)), rules)
        recovered = _without_vain_tolerations(asked, recovered)
    return explanation, explanation_document(explanation, event, uncounted, recovered)


def _without_vain_tolerations(asked: Question, found: Explanation) -> Explanation:
    """The explanation with the reasons that taints hide, without taints that hide one.

    The control plane's taints count only if no other step is left.
    """
    tainted = [each for each in found.reasons if each.code in _TAINTED]
    if found.feasible or not tainted:
        return found
    keys = {each.key for each in asked.candidates.shapes.taints}
    for tolerated in (keys - {CONTROL_PLANE}, keys):
        tolerant = explain(replace(asked, pod=past_cordons(asked.pod, *tolerated)))
        helped = frozenset(tolerant.passing)
        left = [replace(each, nodes=[*filter(helped.__contains__, each.nodes)]) for each in tainted]
        steps = [each for each in tolerant.reasons if each.code not in _TAINTED]
        steps += [each for each in left if each.nodes]
        if any(each.code in _STEPS for each in steps):
            break
    return replace(found, reasons=steps)


def explanation_document(
    explanation: Explanation,
    event: str = "",
    uncounted: str = "",
    recovered: Explanation | None = None,
) -> dict[str, Any]:
    """event: the text that kube-scheduler would write. lastEvent: the text that it wrote last.

    recovered: the explanation if no node were cordoned or unready, None where it is the same.
    fitting: the first nodes that fit. leftOut: the number of a reason's nodes that are not named,
    and the sum over all reasons.
    """
    pod = explanation.pod
    left_out = [max(0, len(group.nodes) - NAMED_NODES) for group in explanation.reasons]
    document: dict[str, Any] = {
        "pod": f"{pod.namespace or 'default'}/{pod.name}",
        "runtimeClass": pod.runtime_class_name,
        "feasible": explanation.feasible,
        "fitting": texts_of(explanation.passing[:NAMED_NODES]),
        "total": explanation.total,
        "nextSteps": _next_steps(explanation, recovered or explanation, event),
        "event": event,
        "lastEvent": pod.state.last_event,
        "summary": explanation.summary,
        "reasons": [
            {
                "reason": group.text,
                "code": group.code.value,
                "origin": group.origin.value,
                "count": len(group.nodes),
                "nodes": texts_of(group.nodes[:NAMED_NODES]),
                "leftOut": unnamed,
            }
            for group, unnamed in zip(explanation.reasons, left_out, strict=True)
        ],
        "leftOut": sum(left_out),
        "requirements": [
            {"kind": each.kind, "text": each.text, "origin": each.origin.value}
            for each in explanation.requirements
        ],
        "warnings": list(explanation.warnings),
    }
    if uncounted:
        document["uncounted"] = uncounted
    if explanation.state:
        document["state"] = list(explanation.state)
    return document


def nodes_document(explanation: Explanation) -> Mapping[str, str]:
    """Each node's reason, empty if the pod fits there."""
    found = dict.fromkeys(explanation.passing, "")
    for group in explanation.reasons:
        found.update(dict.fromkeys(group.nodes, group.text))
    return {text_of(name): text for name, text in sorted(found.items())}


def scores_document(
    own: RuntimeClass | None, snapshot: Snapshot, names: Sequence[bytes], preferences: Preferences
) -> Document:
    """Each node's cost and score as in prioritize, and the RuntimeClasses that it serves."""
    scores = preferences.scores(own, snapshot, NameRun.of(names)).scores
    costs = preferences.cost_table(own, snapshot).costs
    served = cache(partial(preferences.served_classes, snapshot))
    document = {}
    for name, score in zip(names, scores, strict=True):
        shape_id = snapshot.nodes[name]
        document[text_of(name)] = {
            "cost": costs[shape_id] if shape_id else 0,
            "score": score,
            "serves": list(served(shape_id)) if shape_id else [],
        }
    return document


def texts_of(names: Iterable[bytes]) -> list[str]:
    return list(map(text_of, names))


_TAINTED: Final = frozenset({Code.TAINT, Code.POD_TAINT})

#: Reasons that may pass by themselves.
_PASSING: Final = _TAINTED | {Code.CORDONED}

#: The next step for a pod that fits nowhere, by a reason's code. The smallest step comes first: it
#: belongs to the reason that is nearest to fitting.
_STEPS: Final[Mapping[Code, str]] = {
    Code.NOT_FOUND: "correct spec.runtimeClassName, or create the class: kubectl get runtimeclasses"
    " lists the classes",
    Code.CONFLICT: "remove the entry from the pod's nodeSelector that contradicts its class",
    Code.UNSUPPORTED: "remove the unsupported feature from the pod, or name another class: `fit`"
    " lists the classes that could run it",
    Code.POD_TAINT: "add a toleration for the taints of {nodes} to spec.tolerations",
    Code.TAINT: "add a toleration for the taint of {nodes} to the pod, or to the class's"
    " scheduling.tolerations",
    Code.UNKNOWN_NODE: "wait some seconds: {nodes} has just joined the cluster",
    Code.CONDITION: "wait for the condition that the class requires of {nodes}, or repair the node",
    Code.RESOURCES: "lower the pod's requests, or add a node larger than {nodes}",
    Code.POD_SELECTOR: "correct the pod's nodeSelector or node affinity, which excludes {nodes}",
    Code.POD_AFFINITY: "correct the pod's node affinity, which excludes {nodes}",
    Code.POD_FEATURES: "remove the feature from the pod that the kubelets of {nodes} lack",
    Code.FEATURE: "remove the feature from the pod that the runtime on {nodes} lacks, or name"
    " another class: `fit` lists the classes that could run it",
    Code.NODE_FEATURE: "remove the feature from the pod that the kubelets of {nodes} lack, or"
    " upgrade these kubelets",
    Code.HANDLER: "install the class's runtime on {nodes}, or take the class's label off there if"
    " no other class needs it",
    Code.OS: "name a class for the pod's operating system: `fit` lists the classes that could run"
    " the pod",
    Code.SELECTOR: "name another class, or label nodes that have the runtime: `fit` lists the"
    " classes that could run the pod",
}
_ORDER: Final = {code: rank for rank, code in enumerate(_STEPS)}


def _next_steps(explanation: Explanation, recovered: Explanation, event: str) -> list[str]:
    """The steps beside the warnings; none for a pod with a node or gates, or about to be bound.

    recovered: the explanation if no node were cordoned or unready.
    """
    if explanation.pod.state.node_name or explanation.pod.state.gates:
        return []
    if explanation.feasible:
        fitting = listed(texts_of(explanation.passing), 3)
        return [f"wait for room, make room on {fitting}, or add a node like it"] if event else []
    if recovered.feasible:
        name = recovered.passing[0]
        node = shown(text_of(name))
        if Code.CORDONED in {each.code for each in explanation.reasons if name in each.nodes}:
            return [f"wait, or kubectl uncordon {node}"]
        return [f"wait until {node} recovers; kubectl describe node {node} shows its conditions"]
    # A warning prints the toleration to add.
    tolerations = any("spec.tolerations" in each for each in explanation.warnings)
    judged = (each for each in recovered.reasons if each.code in _ORDER)
    nearest = min(judged, key=lambda each: _ORDER[each.code], default=None)
    if nearest is None or (nearest.code is Code.POD_TAINT and tolerations):
        return []
    return [_STEPS[nearest.code].format(nodes=listed(texts_of(nearest.nodes), 3))]
