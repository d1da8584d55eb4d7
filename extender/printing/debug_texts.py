"""The debug answers as text: made from their documents, so that text and JSON agree.

Everything from a pod or the cluster passes through `shown` before it reaches a terminal.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from extender.objects import Toleration
from extender.printable import printable
from extender.printing.debug_documents import NAMED_NODES
from extender.printing.tables import Cell, Colour, Row, Screen, paragraph, table
from extender.reasons import shown
from extender.verbs.explain.requirements import toleration_text

Document = Mapping[str, Any]

NOT_JUDGED: Final = (
    "Requests are compared with all that a node has (status.allocatable), whatever other pods use"
    " of it: a node that fits here may still be full. Not judged: ports, volumes, claims of devices"
    " and extended resources by DRA, pod affinity and topology spread, other scheduler plugins and"
    " extenders. Not judged of a kubelet's rejections: feature gates switched off on a node,"
    " sysctls, AppArmor, device, CPU and topology managers, the Windows build of an image,"
    " id-mapped volumes."
)

_MAX_TEXT: Final = 2000


def _safe(text: object) -> str:
    """Foreign text that may be longer than a name, without control characters."""
    return printable(str(text)[:_MAX_TEXT])


def explanation_text(document: Document, screen: Screen) -> str:
    """Why a pod fits or does not: the nodes by reason, the requirements, the warnings."""
    name = document["runtimeClass"]
    unnamed = " (without a name)" if document["pod"].endswith("/") else ""
    head = f"{document.get('kind', 'Pod')} {shown(document['pod'])}{unnamed}" + (
        f", RuntimeClass {shown(name)}" if name else ""
    )
    parts = [
        screen.paint(head, Colour.STRONG) + "\n\n",
        *(paragraph(screen, _safe(each)) + "\n" for each in document.get("state", ())),
        paragraph(screen, _safe(document["summary"])),
        "\n" + _reasons_table(document, screen),
        "\n" + _heading(screen, "Requirements, in the order they are judged:"),
        _requirements_table(document["requirements"], screen),
    ]
    if document["warnings"]:
        parts.append("\n" + _heading(screen, "Warnings:"))
        parts += [_warning(screen, each) for each in document["warnings"]]
    if "nodes" in document:
        rows = [_node_row(*item) for item in document["nodes"].items()]
        parts.append("\n" + table(screen, ("NODE", "REASON"), rows))
    if document.get("scores"):
        parts.append("\n" + _scores_table(document["scores"], screen))
    parts.append("\n" + paragraph(screen, NOT_JUDGED))
    return "".join(parts)


def _warning(screen: Screen, text: str) -> str:
    """The end of a warning that is to be copied gets a line of its own, not wrapped."""
    head, colon, rest = text.partition(": {")
    if not colon:
        return paragraph(screen, _safe(text), "  ", "- ")
    return paragraph(screen, _safe(f"{head}:"), "  ", "- ") + f"  {_safe('{' + rest)}\n"


def _heading(screen: Screen, text: str) -> str:
    return screen.paint(text, Colour.STRONG) + "\n"


def _reasons_table(document: Document, screen: Screen) -> str:
    rows: list[Row] = []
    if document["feasible"]:
        rows.append([str(document["feasible"]), Cell("fits", Colour.GOOD), "", ""])
    rows += [
        [
            str(each["count"]),
            Cell(_safe(each["reason"]), Colour.BAD),
            each["origin"],
            names_text(each["nodes"], each["count"]),
        ]
        for each in document["reasons"]
    ]
    return table(screen, ("NODES", "REASON", "ORIGIN", "WHICH"), rows)


def names_text(names: Sequence[str], count: int) -> str:
    """The first names of `count`, and how many more there are."""
    listed = ", ".join(map(shown, names))
    more = count - len(names)
    return f"{listed}, {more} more" if names and more else listed


def _requirements_table(requirements: Sequence[Document], screen: Screen) -> str:
    rows = [[each["kind"], each["origin"], _safe(each["text"])] for each in requirements]
    return table(screen, ("KIND", "ORIGIN", "REQUIREMENT"), rows)


def _node_row(name: str, reason: str) -> Row:
    said = Cell(_safe(reason), Colour.BAD) if reason else Cell("fits", Colour.GOOD)
    return [shown(name), said]


def _scores_table(scores: Mapping[str, Document], screen: Screen) -> str:
    rows = [
        [
            shown(name),
            _number(each["cost"]),
            str(each["score"]),
            ", ".join(map(shown, each["serves"])),
        ]
        for name, each in scores.items()
    ]
    return table(screen, ("NODE", "COST", "SCORE", "SERVES"), rows)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def scores_text(document: Document, screen: Screen) -> str:
    """The nodes of a prioritize request, a line each."""
    return _scores_table(document["scores"], screen)


def classes_text(document: Document, screen: Screen) -> str:
    """Every RuntimeClass, a line each."""
    rows: list[Row] = [
        [
            shown(each["name"]),
            shown(each["handler"]),
            _matching_cell(each["matchingNodes"]),
            str(each["notMatchingNodes"]),
            _safe(", ".join(f"{key}={value}" for key, value in each["nodeSelector"].items())),
        ]
        for each in document["items"]
    ]
    headers = ("NAME", "HANDLER", "MATCHING", "OTHERS", "NODE SELECTOR")
    parts = [table(screen, headers, rows)]
    # A finding about several classes is shown once.
    warnings = dict.fromkeys(warning for each in document["items"] for warning in each["warnings"])
    if warnings:
        parts.append("\n" + _heading(screen, "Warnings:"))
        parts += [paragraph(screen, _safe(each), "  ", "- ") for each in warnings]
    return "".join(parts)


def class_text(document: Document, screen: Screen) -> str:
    """One RuntimeClass: its line in the list, and the details that the list leaves out."""
    parts = [classes_text({"items": [document]}, screen)]
    rows: list[Row] = [["toleration", _safe(_toleration(each))] for each in document["tolerations"]]
    rows += [
        ["overhead", _safe(f"{name}={amount}")]
        for name, amount in sorted(document["overhead"].items())
    ]
    if rows:
        parts.append("\n" + table(screen, ("FIELD", "VALUE"), rows))
    return "".join(parts)


def _toleration(fields: Document) -> str:
    """As `kubectl describe` prints it, as in explain."""
    names = ("key", "operator", "value", "effect")
    return toleration_text(Toleration(*(fields.get(name, "") for name in names)))


def nodes_text(document: Document, screen: Screen) -> str:
    """Every node, a line each."""
    rows: list[Row] = [
        [
            shown(each["node"]),
            _safe(", ".join(each["supported"])),
            _safe(", ".join(each["state"])),
        ]
        for each in document["items"]
    ]
    text = table(screen, ("NODE", "SUPPORTED", "STATE"), rows)
    left_out = document["leftOut"]
    return f"{text}\nleft out: {left_out} (?limit= lists more)\n" if left_out else text


def _matching_cell(count: int) -> Cell:
    return Cell(str(count), Colour.GOOD if count else Colour.BAD)


def class_nodes_text(document: Document, screen: Screen) -> str:
    """The nodes that match a RuntimeClass, and the others by reason."""
    matching = document["matching"]
    others = document["notMatching"]
    state = document["state"]
    rows: list[Row] = [
        [Cell(shown(each), Colour.GOOD), _safe(", ".join(state.get(each, ())))] for each in matching
    ]
    refused = sum(each["count"] for each in others)
    unnamed = document["leftOut"] - sum(each["count"] - len(each["nodes"]) for each in others)
    match = len(matching) + unnamed
    parts = [
        _heading(
            screen,
            f"Nodes that match RuntimeClass {shown(document['runtimeClass'])},"
            f" {match} of {match + refused}:",
        ),
        table(screen, ("NODE", "STATE"), rows) if any(state.values()) else _list(screen, matching),
    ]
    if others:
        reasons: list[Row] = [
            [
                str(each["count"]),
                Cell(_safe(each["reason"]), Colour.BAD),
                names_text(each["nodes"][:NAMED_NODES], each["count"]),
            ]
            for each in others
        ]
        parts.append("\n" + _heading(screen, "The others:"))
        parts.append(table(screen, ("NODES", "REASON", "WHICH"), reasons))
    if document["leftOut"]:
        parts.append(f"\n{document['leftOut']} names left out\n")
    return "".join(parts)


def _list(screen: Screen, names: Sequence[str]) -> str:
    return "".join(f"{screen.paint(shown(each), Colour.GOOD)}\n" for each in names) or "none\n"


def node_text(document: Document, screen: Screen) -> str:
    """The RuntimeClasses that a node supports, and why it does not support the others."""
    handlers = [each or '""' for each in document["handlers"]]
    state = ", ".join(document["state"])
    rows: list[Row] = [
        [shown(each), Cell("supported", Colour.GOOD)] for each in document["supported"]
    ]
    rows += [
        [shown(each["runtimeClass"]), Cell(_safe(each["reason"]), Colour.BAD)]
        for each in document["notSupported"]
    ]
    parts = [
        screen.paint(f"Node {shown(document['node'])}", Colour.STRONG) + "\n",
        paragraph(screen, _safe(f"runtime handlers: {', '.join(handlers) or 'not reported'}")),
    ]
    if state:
        parts.append(paragraph(screen, _safe(f"state: {state}")))
    parts.append("\n" + table(screen, ("RUNTIMECLASS", "VERDICT"), rows))
    return "".join(parts)
