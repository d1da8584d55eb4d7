"""An explanation as text, made from its document.

Everything from a pod or the cluster passes through `shown` before it reaches a terminal.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from extender.cli.output import Cell, Colour, Row, Screen, paragraph, table
from extender.explain.attempt import filters_part
from extender.explain.document import Document
from extender.model.reasons import number_of, printable, shown

NOT_JUDGED: Final = (
    "Only the event counts what other pods use. All else compares the pod's requests with what an"
    " empty node has (status.allocatable): a node that fits here may still be full. Not judged:"
    " ports, volumes, claims of devices and extended resources by DRA, pod affinity and topology"
    " spread, other scheduler plugins and extenders; and what a kubelet rejects for a feature gate"
    " that is off, sysctls, AppArmor, device, CPU and topology managers, the Windows build of an"
    " image, id-mapped volumes."
)

_AS_WRITTEN: Final = "Judged as written: check -f judges it as admission would change it."

_MAX_TEXT: Final = 2000


def safe(text: object) -> str:
    """Like `shown`, for text that may be longer than a name: without control characters."""
    return printable(str(text)[:_MAX_TEXT])


def heading(screen: Screen, text: str) -> str:
    return screen.paint(text, Colour.STRONG) + "\n"


def names_text(names: Sequence[str], count: int) -> str:
    """The names, and how many of `count` are not among them."""
    listed = ", ".join(map(shown, names))
    more = count - len(names)
    return f"{listed}, {more} more" if names and more else listed


def explanation_text(document: Document, screen: Screen) -> str:
    name = document["runtimeClass"]
    head = f"{document.get('kind', 'Pod')} {shown(document['pod'])}"
    head += " (without a name)" if document["pod"].endswith("/") else ""
    head += f", RuntimeClass {shown(name)}" if name else ""
    asked = document["requirements"]
    requirements = [[each["kind"], each["origin"], safe(each["text"])] for each in asked]
    colour = Colour.GOOD if document["feasible"] else Colour.BAD
    parts = [
        heading(screen, head),
        screen.paint(verdict_text(document), colour) + "\n",
        *(paragraph(screen, safe(each)) for each in document.get("state", ())),
        *([paragraph(screen, _AS_WRITTEN)] if "asWritten" in document else ()),
        *("\n" + paragraph(screen, safe(each)) for each in _events(document)),
    ]
    parts += [
        bullets(screen, "What to do:", [*document["nextSteps"], *document["warnings"]]),
        "\n" + _reasons_table(document, screen),
        "\n" + heading(screen, "Requirements, in the order they are judged:"),
        table(screen, ("KIND", "ORIGIN", "REQUIREMENT"), requirements),
    ]
    if "nodes" in document:
        rows: list[Row] = [
            [shown(node), Cell(safe(reason), Colour.BAD) if reason else _FITS]
            for node, reason in document["nodes"].items()
        ]
        parts.append("\n" + table(screen, ("NODE", "REASON"), rows))
    if document.get("scores"):
        parts.append("\n" + scores_text(document, screen))
    parts.append("\n" + paragraph(screen, NOT_JUDGED))
    return "".join(parts)


def itself_text(document: Document, screen: Screen) -> str:
    """What the pod alone shows, for a user who may not read nodes."""
    last = document["lastEvent"]
    texts = [*document.get("state", ()), *([f"Last event: {last}"] if last else ())]
    rows = [[each["kind"], safe(each["text"])] for each in document["requirements"]]
    parts = [heading(screen, f"Pod {shown(document['pod'])}")]
    parts += [paragraph(screen, safe(each)) for each in texts]
    parts += ["\n", heading(screen, "It asks for:"), table(screen, ("KIND", "REQUIREMENT"), rows)]
    return "".join(parts)


def verdict_text(document: Document) -> str:
    feasible, total = document["feasible"], document["total"]
    if not feasible:
        return f"None of {number_of(total, 'node')} can run it."
    # An event says that kube-scheduler would not bind the pod now: the cluster may be full.
    can, which = "could" if document["event"] else "can", names_text(document["fitting"], feasible)
    return f"{feasible} of {number_of(total, 'node')} {can} run it: {which}."


_FITS: Final = Cell("fits", Colour.GOOD)


def _events(document: Document) -> Iterator[str]:
    event, last = document["event"], document["lastEvent"]
    if event:
        yield f"Event: {event}"
    if document.get("uncounted"):
        yield f"What runs on the nodes is not counted: {document['uncounted']}."
    if last and filters_part(last) != filters_part(event):
        yield f"Last event: {last}"
        differs = "The two differ" if event else "Nothing judged here would cause it again"
        yield f"{differs}: kube-scheduler has not tried again yet, or judges more (see the end)."


def _reasons_table(document: Document, screen: Screen) -> str:
    rows, feasible = list[Row](), document["feasible"]
    if feasible:
        rows.append([str(feasible), _FITS, "", names_text(document["fitting"], feasible)])
    for each in document["reasons"]:
        reason, which = safe(each["reason"]), names_text(each["nodes"], each["count"])
        rows.append([str(each["count"]), Cell(reason, Colour.BAD), each["origin"], which])
    return table(screen, ("NODES", "REASON", "ORIGIN", "WHICH"), rows)


def bullets(screen: Screen, title: str, texts: Iterable[str]) -> str:
    """A list with a heading; empty without texts."""
    items = [_step(screen, each) for each in texts]
    return "".join(["\n" + heading(screen, title), *items]) if items else ""


def _step(screen: Screen, text: str) -> str:
    """A step. JSON at its end, which people copy, gets an unwrapped line of its own."""
    head, colon, rest = text.partition(": {")
    if not colon:
        return paragraph(screen, safe(text), "  ", "- ")
    return paragraph(screen, safe(f"{head}:"), "  ", "- ") + f"  {safe('{' + rest)}\n"


def scores_text(document: Document, screen: Screen) -> str:
    rows = []
    for name, each in document["scores"].items():
        cost = "" if each["cost"] is None else str(each["cost"])
        rows.append([shown(name), cost, str(each["score"]), ", ".join(map(shown, each["serves"]))])
    return table(screen, ("NODE", "COST", "SCORE", "SERVES"), rows)
