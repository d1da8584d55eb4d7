"""What uses the RuntimeClasses, as text: made of the documents, so that text and JSON agree."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from extender.printing.debug_texts import names_text
from extender.printing.tables import Cell, Colour, Row, Screen, paragraph, table
from extender.printing.usage_documents import PodRow
from extender.reasons import shown
from extender.verbs.placement import State

Document = Mapping[str, Any]

_COLOURS: Final = {
    State.RUNNING: Colour.GOOD,
    State.PENDING: Colour.DOUBTFUL,
    State.STRANDED: Colour.BAD,
    State.DRIFTED: Colour.DOUBTFUL,
}

#: Objects listed on a terminal that use a class; JSON has all.
_LISTED: Final = 1000


def pods_text(rows: Collection[PodRow], screen: Screen) -> str:
    """The pods, a line each, and how many there are of each state."""
    lines: list[Row] = [
        [
            shown(each.namespace),
            shown(each.name),
            shown(each.runtime_class),
            shown(each.handler),
            shown(each.node),
            Cell(each.state.value, _COLOURS[each.state]),
            shown(each.reason) if len(each.reason) < 200 else _cut(each.reason),
        ]
        for each in rows
    ]
    headers = ("NAMESPACE", "NAME", "CLASS", "HANDLER", "NODE", "STATE", "REASON")
    counts = {state: sum(each.state is state for each in rows) for state in State}
    told = ", ".join(f"{count} {state.value}" for state, count in counts.items() if count)
    return table(screen, headers, lines) + (f"\n{told}\n" if told else "")


def _cut(reason: str) -> str:
    """A reason that names many kinds of nodes is too long for a table."""
    return " ".join(shown(word) for word in reason[:_MAX_REASON].split(" "))


#: kube-scheduler's event is no longer than this.
_MAX_REASON: Final = 1024


def usage_text(document: Document, screen: Screen) -> str:
    """The classes, a line each, with a line for each pool where there are any."""
    by_pool = any("pools" in each for each in document["items"])
    rows: list[Row] = []
    for each in document["items"]:
        name = shown(each["name"]) + (" (default)" if each["default"] else "")
        head = [name, shown(each["handler"]), shown(each["isolation"])]
        rows.append([*head, *(["all"] if by_pool else ()), *_count_cells(each)])
        rows += [
            ["", "", "", shown(pool["pool"]), *_count_cells(pool)]
            for pool in each.get("pools", ())
            if pool["nodes"]["matching"] or pool["pods"]["running"]
        ]
    headers = [
        *("NAME", "HANDLER", "ISOLATION"),
        *(["POOL"] if by_pool else ()),
        *("NODES", "READY", "RUNNING", "STRANDED", "DRIFTED", "PENDING", "OVERHEAD", "FINDINGS"),
    ]
    parts = [table(screen, headers, rows)]
    # A finding about several classes is shown once.
    findings = dict.fromkeys(
        f"{finding['severity']}: {finding['what']}: {finding['why']}"
        for each in document["items"]
        for finding in each["findings"]
    )
    if findings:
        parts.append("\n" + screen.paint("Findings:", Colour.STRONG) + "\n")
        parts += [paragraph(screen, _cut(each), "  ", "- ") for each in findings]
    return "".join(parts)


def _count_cells(counts: Document) -> Iterator[str | Cell]:
    nodes, pods = counts["nodes"], counts["pods"]
    colour = Colour.GOOD if nodes["matching"] else Colour.BAD if "name" in counts else Colour.QUIET
    yield Cell(f"{nodes['matching']} of {nodes['total']}", colour)
    yield str(nodes["ready"])
    yield str(pods["running"])
    yield Cell(str(pods["stranded"] or ""), Colour.BAD)
    yield Cell(str(pods["drifted"] or ""), Colour.DOUBTFUL)
    yield str(pods["pending"])
    yield shown(", ".join(f"{name}={amount}" for name, amount in counts["overhead"].items()))
    yield str(len(counts["findings"]) or "") if "findings" in counts else ""


def can_delete_text(document: Document, screen: Screen) -> str:
    """Whether a class can be deleted, and otherwise what uses it."""
    name = f"RuntimeClass {shown(document['class'])}"
    if document["canDelete"]:
        return f"{name} can be deleted: nothing uses it.\n"
    head = f"{name} is in use; a pod whose class is gone runs until it restarts, and then no more:"
    return paragraph(screen, head) + "\n" + _users_table(document["uses"], screen)


def _users_table(users: Sequence[Document], screen: Screen) -> str:
    rows: list[Row] = [
        [shown(each["kind"]), shown(each["namespace"]), shown(each["name"]), _why(each)]
        for each in users[:_LISTED]
    ]
    more = len(users) - len(rows)
    text = table(screen, ("KIND", "NAMESPACE", "NAME", "USES IT AS"), rows)
    return f"{text}{more} more\n" if more > 0 else text


def _why(user: Document) -> str:
    return {
        "Pod": "its class",
        "Namespace": "the default of its pods",
        "RuntimeClass": "the default of the cluster",
    }.get(user["kind"], "the class of its template")


def rollout_text(document: Document, screen: Screen) -> str:
    """The pools, what still names the old class, and what is to be done next."""
    old, new = shown(document["old"]), shown(document["new"])
    done = document["done"]
    head = f"{old} → {new}: {'done' if done else 'not done'}"
    rows: list[Row] = []
    for each in document["pools"]:
        ready = f"{each['ready']} of {each['total']}"
        colour = Colour.GOOD if each["ready"] == each["total"] else Colour.DOUBTFUL
        reasons = each["notReady"] or [{"reason": "", "nodes": [], "count": 0}]
        for number, why in enumerate(reasons):
            first = [shown(each["pool"]), Cell(ready, colour), str(each["pods"])]
            which = names_text(why["nodes"], why["count"])
            rows.append([*(["", "", ""] if number else first), _cut(why["reason"]), which])
    parts = [
        screen.paint(head, Colour.STRONG) + "\n\n",
        table(screen, ("POOL", f"RUN {new}", f"PODS OF {old}", "THE OTHERS", "WHICH"), rows),
    ]
    users = [*document["workloads"], *document["defaults"]]
    if users:
        parts.append("\n" + screen.paint(f"Still named {old}:", Colour.STRONG) + "\n")
        parts.append(_users_table(users, screen))
    parts.append("\n" + screen.paint("Next:", Colour.STRONG) + "\n")
    parts += [paragraph(screen, each, "  ", "- ") for each in _next_steps(document)]
    return "".join(parts)


def _next_steps(document: Document) -> Iterator[str]:
    old, new = shown(document["old"]), shown(document["new"])
    for each in document["pools"]:
        if each["drain"]:
            node, pool = shown(each["drain"]), shown(each["pool"])
            yield f"drain {node} of pool {pool}, and make it run {new}"
    if document["workloads"] or document["defaults"]:
        yield f"name {new} instead of {old} where it is still named"
    elif document["pods"]["running"] or document["pods"]["pending"]:
        pods = document["pods"]["running"] + document["pods"]["pending"]
        still = f"1 pod still has {old}" if pods == 1 else f"{pods} pods still have {old}"
        created = "it" if pods == 1 else "them"
        yield f"{still}, which no template names any more: re-create {created}"
    elif document["done"]:
        yield f"kubectl delete runtimeclass {old}"
    elif not any(each["ready"] for each in document["pools"]):
        yield f"no node runs {new} yet"
