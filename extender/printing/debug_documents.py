"""The JSON shapes of the debug answers, the same from an endpoint and from a command.

The keys are those of the interface; a list may have further ones for people (scores, state,
leftOut).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from extender.checks.finding import Finding, Severity
from extender.names import text_of
from extender.objects import RuntimeClass, fields_of, untimed
from extender.reasons import Reason
from extender.shape import Shape
from extender.snapshot import Snapshot
from extender.verbs.class_nodes import ClassNodes, node_state
from extender.verbs.explain.explanation import Explanation, ReasonGroup
from extender.verbs.explain.scores import NodeScore

Document = dict[str, object]

#: Nodes named per reason.
NAMED_NODES: Final = 5


def explanation_document(explanation: Explanation) -> Document:
    """state, of a pod that no scheduler is about to place, says why.

    leftOut is how many nodes a reason has beyond those it names, and how many in all.
    """
    pod = explanation.pod
    document: Document = {
        "pod": f"{pod.namespace or 'default'}/{pod.name}",
        "runtimeClass": pod.runtime_class_name,
        "feasible": explanation.feasible,
        "total": explanation.total,
        "summary": explanation.summary,
        "reasons": [
            {
                "reason": group.text,
                "code": group.code.value,
                "origin": group.origin.value,
                "count": len(group.nodes),
                "nodes": _texts(group.nodes[:NAMED_NODES]),
                "leftOut": _left_out(group),
            }
            for group in explanation.reasons
        ],
        "leftOut": sum(map(_left_out, explanation.reasons)),
        "requirements": [
            {"kind": each.kind, "text": each.text, "origin": each.origin.value}
            for each in explanation.requirements
        ],
        "warnings": list(explanation.warnings),
    }
    if explanation.state:
        document["state"] = list(explanation.state)
    return document


def _left_out(group: ReasonGroup) -> int:
    return max(0, len(group.nodes) - NAMED_NODES)


def nodes_document(explanation: Explanation) -> Mapping[str, str]:
    """Each node's reason, empty where the pod fits."""
    found = dict.fromkeys(explanation.passing, "")
    for group in explanation.reasons:
        found.update(dict.fromkeys(group.nodes, group.text))
    return {text_of(name): text for name, text in sorted(found.items())}


def scores_document(scores: Iterable[tuple[bytes, NodeScore]]) -> Mapping[str, object]:
    return {
        text_of(name): {"cost": each.cost, "score": each.score, "serves": list(each.serves)}
        for name, each in scores
    }


def classes_document(
    snapshot: Snapshot, matching: Mapping[str, int], findings: Iterable[Finding]
) -> Document:
    """Every class by name, with the number of nodes that match it, and the findings about it."""
    warnings = _warnings_by_class(findings)
    total = len(snapshot.nodes)
    return {
        "items": [
            _class_document(each, matching[each.name], total, warnings.get(each.name, []))
            for each in snapshot.classes_by_name
        ]
    }


def class_document(
    runtime_class: RuntimeClass,
    snapshot: Snapshot,
    matching: Mapping[str, int],
    findings: Iterable[Finding],
) -> Document:
    """One class of the snapshot, as in the list of all."""
    name, total = runtime_class.name, len(snapshot.nodes)
    warnings = _warnings_by_class(findings).get(name, [])
    return _class_document(runtime_class, matching.get(name, 0), total, warnings)


def _warnings_by_class(findings: Iterable[Finding]) -> Mapping[str, list[str]]:
    warnings: dict[str, list[str]] = {}
    for finding in findings:
        if finding.severity is not Severity.ADVICE:
            for name in finding.runtime_classes:
                warnings.setdefault(name, []).append(f"{finding.what}: {finding.why}")
    return warnings


def _class_document(
    runtime_class: RuntimeClass, matching: int, total: int, warnings: Sequence[str]
) -> Document:
    return {
        "name": runtime_class.name,
        "handler": runtime_class.handler,
        "nodeSelector": dict(runtime_class.node_selector),
        "tolerations": [fields_of(untimed(each)) for each in runtime_class.tolerations],
        "overhead": dict(runtime_class.overhead),
        "matchingNodes": matching,
        "notMatchingNodes": total - matching,
        "warnings": list(warnings),
    }


def states_of(names: Iterable[bytes], snapshot: Snapshot) -> Mapping[bytes, Sequence[str]]:
    """The states of those nodes that have any, such as a condition taint."""
    states = {}
    for name in names:
        shape = snapshot.shape(name)
        state = node_state(shape) if shape else ()
        if state:
            states[name] = state
    return states


def class_nodes_document(
    name: str, nodes: ClassNodes, states: Mapping[bytes, Sequence[str]], limit: int | None
) -> Document:
    """limit cuts each list of names; leftOut is how many names are cut in all."""
    lists = [nodes.matching, *(names for _, names in nodes.not_matching)]
    left_out = sum(max(0, len(names) - limit) for names in lists) if limit is not None else 0
    return {
        "runtimeClass": name,
        "matching": _texts(nodes.matching[:limit]),
        "notMatching": [
            {
                "reason": reason.text,
                "code": reason.code.value,
                "count": len(names),
                "nodes": _texts(names[:limit]),
            }
            for reason, names in nodes.not_matching
        ],
        "leftOut": left_out,
        "state": {
            text_of(each): list(states[each]) for each in nodes.matching[:limit] if each in states
        },
    }


def nodes_list_document(
    listed: Iterable[tuple[bytes, Shape, Sequence[str]]], left_out: int
) -> Document:
    """Nodes with the names of the classes they support; leftOut is how many are not listed."""
    return {
        "items": [
            {
                "node": text_of(name),
                "handlers": _handlers(shape),
                "supported": supported,
                "state": list(node_state(shape)),
            }
            for name, shape, supported in listed
        ],
        "leftOut": left_out,
    }


def _handlers(shape: Shape) -> list[str]:
    return sorted(each.name for each in shape.handlers)


def node_document(
    name: str, shape: Shape, classes: Sequence[tuple[RuntimeClass, Reason | None]]
) -> Document:
    return {
        "node": name,
        "handlers": _handlers(shape),
        "supported": [each.name for each, reason in classes if reason is None],
        "notSupported": [
            {"runtimeClass": each.name, "reason": reason.text, "code": reason.code.value}
            for each, reason in classes
            if reason is not None
        ],
        "state": list(node_state(shape)),
    }


def _texts(names: Iterable[bytes]) -> list[str]:
    return list(map(text_of, names))
