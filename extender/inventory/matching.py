"""Which nodes match which RuntimeClasses: the documents, and their text.

Keys beyond those of the interface, such as state, are for people.
"""

from collections.abc import Iterable, Sequence

from extender.cli.output import Cell, Colour, Row, Screen, paragraph, table
from extender.explain.document import NAMED_NODES, Document, texts_of
from extender.explain.requirements import toleration_text
from extender.explain.text import bullets, heading, names_text, safe
from extender.lint.registry import check_classes
from extender.model.finding import Severity
from extender.model.names import text_of
from extender.model.objects import RuntimeClass
from extender.model.pod_needs import Toleration, fields_of, untimed
from extender.model.reasons import Reason, shown
from extender.rules.class_nodes import ClassNodes, Support, node_state
from extender.rules.node_checks import Policy
from extender.rules.node_shape import Shape
from extender.rules.snapshot import Snapshot


def class_documents(
    classes: Iterable[RuntimeClass], snapshot: Snapshot, support: Support, policy: Policy
) -> list[Document]:
    """A document for each class. Its warnings are the findings about it, without advice."""
    matching = support.counts(snapshot).nodes
    warnings: dict[str, list[str]] = {}
    for finding in check_classes(snapshot, support, policy):
        if finding.severity is not Severity.ADVICE:
            for name in finding.runtime_classes:
                warnings.setdefault(name, []).append(f"{finding.what}: {finding.why}")
    return [
        {
            "name": each.name,
            "handler": each.handler,
            "nodeSelector": dict(each.node_selector),
            "tolerations": [fields_of(untimed(toleration)) for toleration in each.tolerations],
            "overhead": dict(each.overhead),
            "matchingNodes": matching.get(each.name, 0),
            "notMatchingNodes": len(snapshot.nodes) - matching.get(each.name, 0),
            "warnings": warnings.get(each.name, []),
        }
        for each in classes
    ]


def class_nodes_document(
    name: str, nodes: ClassNodes, snapshot: Snapshot, limit: int | None
) -> Document:
    """limit: the length of each list of names. leftOut: the number of names cut from all lists.

    state: the matching nodes that have a state, such as a condition taint.
    """
    lists = [nodes.matching, *(names for _, names in nodes.not_matching)]
    left_out = sum(max(0, len(names) - limit) for names in lists) if limit is not None else 0
    names = nodes.matching[:limit]
    states = {name: list(node_state(snapshot.shapes[snapshot.nodes[name]])) for name in names}
    return {
        "runtimeClass": name,
        "matching": texts_of(names),
        "notMatching": [
            {
                "reason": reason.text,
                "code": reason.code.value,
                "count": len(names),
                "nodes": texts_of(names[:limit]),
            }
            for reason, names in nodes.not_matching
        ],
        "leftOut": left_out,
        "state": {text_of(name): state for name, state in states.items() if state},
    }


def listed_node_document(name: bytes, shape: Shape, supported: Sequence[str]) -> Document:
    """supported: the names of the classes that the node supports."""
    return {
        "node": text_of(name),
        "handlers": sorted(each.name for each in shape.handlers),
        "supported": supported,
        "state": list(node_state(shape)),
    }


def node_document(
    name: bytes, shape: Shape, classes: Sequence[tuple[RuntimeClass, Reason | None]]
) -> Document:
    supported = [each.name for each, reason in classes if reason is None]
    return {
        **listed_node_document(name, shape, supported),
        "notSupported": [
            {"runtimeClass": each.name, "reason": reason.text, "code": reason.code.value}
            for each, reason in classes
            if reason is not None
        ],
    }


def class_list_text(document: Document, screen: Screen) -> str:
    rows: list[Row] = []
    for each in document["items"]:
        number, others = each["matchingNodes"], str(each["notMatchingNodes"])
        matching = Cell(str(number), Colour.GOOD if number else Colour.BAD)
        labels = safe(", ".join(f"{key}={value}" for key, value in each["nodeSelector"].items()))
        rows.append([shown(each["name"]), shown(each["handler"]), matching, others, labels])
    headers = ("NAME", "HANDLER", "MATCHING", "OTHERS", "NODE SELECTOR")
    # A finding about several classes is shown once.
    warnings = dict.fromkeys(warning for each in document["items"] for warning in each["warnings"])
    return table(screen, headers, rows) + bullets(screen, "Warnings:", warnings)


def class_text(document: Document, screen: Screen) -> str:
    """The class's row in the list of classes, and the fields that the list omits."""
    keys, overhead = ("key", "operator", "value", "effect"), sorted(document["overhead"].items())
    tolerations = (Toleration(*(e.get(key, "") for key in keys)) for e in document["tolerations"])
    rows: list[Row] = [["toleration", toleration_text(each)] for each in tolerations]
    rows += [["overhead", safe(f"{name}={amount}")] for name, amount in overhead]
    fields_table = "\n" + table(screen, ("FIELD", "VALUE"), rows) if rows else ""
    return class_list_text({"items": [document]}, screen) + fields_table


def node_list_text(document: Document, screen: Screen) -> str:
    rows: list[Row] = [
        [shown(each["node"]), safe(", ".join(each["supported"])), safe(", ".join(each["state"]))]
        for each in document["items"]
    ]
    text = table(screen, ("NODE", "SUPPORTED", "STATE"), rows)
    left_out = document["leftOut"]
    return f"{text}\nleft out: {left_out} (?limit= lists more)\n" if left_out else text


def class_nodes_text(document: Document, screen: Screen) -> str:
    matching, others, state = document["matching"], document["notMatching"], document["state"]
    refused = sum(each["count"] for each in others)
    unnamed = document["leftOut"] - sum(each["count"] - len(each["nodes"]) for each in others)
    count, name = len(matching) + unnamed, shown(document["runtimeClass"])
    title = f"Nodes that match RuntimeClass {name}, {count} of {count + refused}:"
    rows: list[Row] = [
        [Cell(shown(each), Colour.GOOD), safe(", ".join(state.get(each, ())))] for each in matching
    ]
    parts = [heading(screen, title), table(screen, ("NODE", "STATE"), rows)]
    rows = []
    for each in others:
        which = names_text(each["nodes"][:NAMED_NODES], each["count"])
        rows.append([str(each["count"]), Cell(safe(each["reason"]), Colour.BAD), which])
    if rows:
        parts.append("\n" + heading(screen, "The others:"))
        parts.append(table(screen, ("NODES", "REASON", "WHICH"), rows))
    if document["leftOut"]:
        parts.append(f"\n{document['leftOut']} names left out\n")
    return "".join(parts)


def node_text(document: Document, screen: Screen) -> str:
    handlers = ", ".join(each or '""' for each in document["handlers"]) or "not reported"
    is_supported = Cell("supported", Colour.GOOD)
    rows: list[Row] = [[shown(each), is_supported] for each in document["supported"]]
    refused = ((e["runtimeClass"], e["reason"]) for e in document["notSupported"])
    rows += [[shown(name), Cell(safe(reason), Colour.BAD)] for name, reason in refused]
    parts = [
        heading(screen, f"Node {shown(document['node'])}"),
        paragraph(screen, safe(f"runtime handlers: {handlers}")),
    ]
    if document["state"]:
        parts.append(paragraph(screen, safe(f"state: {', '.join(document['state'])}")))
    return "".join([*parts, "\n", table(screen, ("CLASS", "VERDICT"), rows)])
