"""The JSON of an explanation, the same from the endpoint and from the command."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, Final

from extender.explain.advice import next_steps
from extender.explain.attempt import Attempt, outlook_of
from extender.explain.explanation import Explanation, explain, past_cordons
from extender.explain.own_checks import AskVersion
from extender.kubernetes.namespaces import NamespaceRules
from extender.model.names import NameRun, text_of
from extender.model.objects import Pod, RuntimeClass
from extender.model.reasons import Code
from extender.rules.node_checks import Policy
from extender.rules.pools import Candidates
from extender.rules.resource_fit import PodsBeside
from extender.rules.snapshot import Snapshot
from extender.verbs.prioritize import Preferences

Document = Mapping[str, Any]

#: Nodes named per reason.
NAMED_NODES: Final = 5


def explained(
    pod: Pod,
    runtime_class: RuntimeClass | None,
    candidates: Candidates,
    policy: Policy,
    rules: NamespaceRules | None,
    version: AskVersion,
    pods_beside: PodsBeside | None,
) -> tuple[Explanation, dict[str, Any]]:
    """A pod's explanation, and its document; without pods_beside that has no event."""
    now, version, event, uncounted = datetime.now(UTC), cache(version), "", ""
    explanation = explain(pod, runtime_class, candidates, policy, rules, version=version, now=now)
    if pods_beside is not None:
        attempt = Attempt(pod, runtime_class, candidates, policy, version)
        event, uncounted = outlook_of(attempt, pods_beside)
    uncordoned = explanation
    if any(each.code is Code.CORDONED for each in explanation.reasons):
        # Whether a cordoned node would fit shows only without its cordon.
        tolerant = past_cordons(pod)
        uncordoned = explain(tolerant, runtime_class, candidates, policy, rules, version=version)
    return explanation, explanation_document(explanation, event, uncounted, uncordoned)


def explanation_document(
    explanation: Explanation,
    event: str = "",
    uncounted: str = "",
    uncordoned: Explanation | None = None,
) -> dict[str, Any]:
    """event and lastEvent: the text kube-scheduler would write, and the one it wrote last.

    uncordoned: the explanation if no node were cordoned, where that makes a difference.
    fitting: the first nodes that fit. leftOut: the number of a reason's nodes that are not named,
    and of all reasons' together.
    """
    pod = explanation.pod
    left_out = [max(0, len(group.nodes) - NAMED_NODES) for group in explanation.reasons]
    document: dict[str, Any] = {
        "pod": f"{pod.namespace or 'default'}/{pod.name}",
        "runtimeClass": pod.runtime_class_name,
        "feasible": explanation.feasible,
        "fitting": texts_of(explanation.passing[:NAMED_NODES]),
        "total": explanation.total,
        "nextSteps": next_steps(explanation, uncordoned or explanation, event),
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
    """Each node's reason, empty where the pod fits."""
    found = dict.fromkeys(explanation.passing, "")
    for group in explanation.reasons:
        found.update(dict.fromkeys(group.nodes, group.text))
    return {text_of(name): text for name, text in sorted(found.items())}


def scores_document(
    own: RuntimeClass | None,
    snapshot: Snapshot,
    names: Sequence[bytes],
    preferences: Preferences,
) -> Document:
    """By node its cost and score, as prioritize gives them, and the RuntimeClasses it serves."""
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
