"""classes: each RuntimeClass with its nodes and pods. nodes: which nodes match a RuntimeClass."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import click

from extender.admission.defaults import is_default
from extender.cli.cluster_state import ClusterState, if_allowed, load_cluster, service_of
from extender.cli.commands import policy_of, pool_label_flag, reading_flags, server_flag
from extender.cli.flags import Command, Flags, argument, boolean, flag
from extender.cli.output import Cell, Colour, Row, Screen, class_names, print_answer, table
from extender.cli.streams import warn
from extender.explain.document import Document
from extender.explain.text import bullets, heading
from extender.inventory.headroom import Headroom
from extender.inventory.matching import class_list_text, class_nodes_document, class_nodes_text
from extender.kubernetes.decoder import DecodeError
from extender.kubernetes.quantity import stored_billionths
from extender.lint.new_nodes import NewNode, new_node_of
from extender.lint.registry import check_classes
from extender.lint.reports import finding_document
from extender.model.errors import UsageError
from extender.model.finding import Severity, worst_first
from extender.model.objects import Amounts
from extender.model.reasons import listed, shown
from extender.rules.class_nodes import NodeCounts, Support, nodes_of_class, nodes_of_each
from extender.rules.node_checks import Policy
from extender.rules.pod_state import Placement, PodUse, State, Usage, overhead_texts
from extender.rules.pools import Pools, pools_of
from extender.rules.resource_fit import Loads, counted


def _classes(program: str, flags: Flags) -> int:
    command = f"{program} classes"
    if flags.requests is not None and not flags.headroom:
        raise UsageError("--requests goes with --headroom")
    if flags.server:
        if flags.by_pool or flags.headroom:
            raise UsageError("--server can't be used with --by-pool or --headroom")
        listed: Document = service_of(flags).classes()
        names = class_names(each["name"] for each in listed["items"])
        return print_answer(flags, listed, class_list_text, names)
    state, policy = load_cluster(command, flags, uses=True), policy_of(flags)
    pools = pools_of(state.snapshot, flags.pool_label)
    loads = Loads() if flags.headroom else None
    document = _document(state, policy, pools if flags.by_pool else None, loads)
    if loads is not None:
        new = list(_new_nodes(command, state))
        room = Headroom(state.snapshot, policy, loads, flags.requests)
        classes = state.snapshot.classes_by_name
        for item, each in zip(document["items"], classes, strict=True):
            item["headroom"] = room.document(each, pools, new)
    names = class_names(each["name"] for each in document["items"])
    return print_answer(flags, document, _text, names)


def _new_nodes(command: str, state: ClusterState) -> Iterator[NewNode]:
    """The new nodes that node templates describe. Warns of templates that can't be read."""
    templates = state.inventory.node_templates
    told = if_allowed(command, "what new nodes would take", lambda: list(templates()))
    for kind, raw in told or ():
        try:
            new = new_node_of(raw, kind)
        except DecodeError as error:
            warn(command, f"left out what new nodes of a {kind} would take: {error}")
            continue
        if new is not None:
            yield new


def _document(
    state: ClusterState, policy: Policy, pools: Pools | None, loads: Loads | None
) -> Document:
    """The classes by name. running counts stranded and drifted pods too, but no starting pods."""
    snapshot = state.snapshot
    usage, placement = Usage(pools), Placement(snapshot, policy)
    for pod, _, load_of in state.inventory.pods():
        if loads is not None and (load := load_of()) is not None:
            loads.add(load, pod.runtime_class_name)
        if pod.runtime_class_name:
            usage.count(pod, placement.judge(pod)[0])
    classes = snapshot.classes_by_name
    nodes = nodes_of_each(classes, snapshot, state.not_ready, policy, pools)
    found = check_classes(snapshot, Support(policy.handler_check), policy, state.nodes)
    findings = [each for each in worst_first(found) if each.severity is not Severity.ADVICE]
    items: list[dict[str, Any]] = []
    for each in classes:
        of_all, of_pools = nodes[each.name]
        item = {
            "name": each.name,
            "handler": each.handler,
            "isolation": each.isolation,
            "default": is_default(each),
            **_counts(of_all, usage.by_class.get(each.name)),
            "findings": [finding_document(f) for f in findings if each.name in f.runtime_classes],
        }
        if pools is not None:
            item["pools"] = [
                {"pool": pool.name, **_counts(counts, usage.by_pool.get((each.name, number)))}
                for number, (pool, counts) in enumerate(zip(pools.pools, of_pools, strict=True))
            ]
        items.append(item)
    return {"items": items}


def _counts(nodes: NodeCounts, used: PodUse | None) -> Document:
    pods = used or PodUse()
    return {
        "nodes": {"matching": nodes.matching, "ready": nodes.ready, "total": nodes.total},
        "pods": {
            "running": pods.running,
            "starting": pods.states[State.STARTING],
            "pending": pods.pending,
            "stranded": pods.states[State.STRANDED],
            "drifted": pods.states[State.DRIFTED],
        },
        "overhead": dict(overhead_texts(pods.overhead)),
    }


def _text(document: Document, screen: Screen) -> str:
    by_pool = any("pools" in each for each in document["items"])
    rows: list[Row] = []
    for each in document["items"]:
        name = shown(each["name"]) + (" (default)" if each["default"] else "")
        head = [name, shown(each["handler"]), shown(each["isolation"])]
        rows.append([*head, *(["all"] if by_pool else ()), *_count_cells(each)])
        rows += [
            ["", "", "", shown(pool["pool"]), *_count_cells(pool)]
            for pool in each.get("pools", ())
            if pool["nodes"]["matching"] or pool["pods"]["running"] or pool["pods"]["starting"]
        ]
    pool_header = "POOL " if by_pool else ""
    headers = (
        f"NAME HANDLER ISOLATION {pool_header}NODES READY RUNNING STARTING STRANDED DRIFTED"
        " PENDING OVERHEAD FINDINGS"
    )
    # A finding about several classes is shown once.
    findings = dict.fromkeys(
        f"{finding['severity']}: {finding['what']}: {finding['why']}"
        for each in document["items"]
        for finding in each["findings"]
    )
    return (
        table(screen, headers.split(), rows)
        + _headroom_text(document["items"], screen)
        + bullets(screen, "Findings:", findings)
    )


def _headroom_text(items: Sequence[Document], screen: Screen) -> str:
    rows: list[Row] = []
    for each in items:
        found = each.get("headroom")
        if found is None:
            return ""
        asked = ", ".join(f"{name}={amount}" for name, amount in found["requests"].items())
        ended = shown(found["limitedBy"])
        rows.append([shown(each["name"]), "all", str(found["fits"]), ended, shown(asked), ""])
        for pool in found["pools"]:
            new = "" if pool["newNode"] is None else str(pool["newNode"])
            name, ended = shown(pool["pool"]), shown(pool["limitedBy"])
            rows.append(["", name, str(pool["fits"]), ended, "", new])
    headers = ("NAME", "POOL", "MORE PODS", "ENDED BY", "OF REQUESTS", "A NEW NODE")
    return "\n" + heading(screen, "Room for more pods:") + table(screen, headers, rows)


def _requests(text: str) -> Amounts:
    """The amounts of RESOURCE=AMOUNT,RESOURCE=AMOUNT in billionths."""
    try:
        entries = [each.partition("=")[::2] for each in text.split(",")]
        amounts = {name.strip(): stored_billionths(amount.strip()) for name, amount in entries}
    except ValueError as error:
        raise click.BadParameter(f"{shown(text)}: {error}") from None
    if min(amounts.values()) < 0 or "" in amounts:
        raise click.BadParameter(f"{shown(text)}: expected such as cpu=1,memory=2Gi")
    if unknown := listed(sorted({*amounts} - {*counted(amounts)})):
        raise click.BadParameter(f"{unknown}: no resource that kube-scheduler counts")
    return amounts


def _count_cells(counts: Document) -> Iterator[str | Cell]:
    nodes, pods = counts["nodes"], counts["pods"]
    colour = Colour.GOOD if nodes["matching"] else Colour.BAD if "name" in counts else Colour.QUIET
    yield Cell(f"{nodes['matching']} of {nodes['total']}", colour)
    yield str(nodes["ready"])
    yield str(pods["running"])
    yield Cell(str(pods["starting"] or ""), Colour.DOUBTFUL)
    yield Cell(str(pods["stranded"] or ""), Colour.BAD)
    yield Cell(str(pods["drifted"] or ""), Colour.DOUBTFUL)
    yield str(pods["pending"] or "")
    yield shown(", ".join(f"{name}={amount}" for name, amount in counts["overhead"].items()))
    yield str(len(counts["findings"]) or "") if "findings" in counts else ""


CLASSES: Final = Command(
    "classes",
    "Each RuntimeClass with the nodes that match it and are ready, its pods, the overhead that the"
    " running pods reserve, and findings.",
    _classes,
    [
        boolean("--by-pool", "add a line for each node pool"),
        boolean("--headroom", "how many more pods of each class fit, by pool, and what ends it"),
        flag(
            "--requests LIST",
            "what each of these pods would ask for, as cpu=1,memory=2Gi (default: the median of the"
            " class's running pods)",
            type=_requests,
        ),
        pool_label_flag(),
        server_flag(),
    ],
    reading_flags("name"),
    examples=["", "--by-pool", "--headroom --requests cpu=1,memory=2Gi"],
)


def _nodes(program: str, flags: Flags) -> int:
    """Exit code 0 when some node matches, 1 when none does.

    Raises UsageError, also if no Node is known: then nothing can be said about the class.
    """
    if flags.server:
        document: Document = service_of(flags).class_nodes(flags.runtimeclass, flags.limit)
    else:
        state = load_cluster(f"{program} nodes", flags)
        runtime_class, snapshot = state.runtime_class(flags.runtimeclass), state.snapshot
        if not snapshot.nodes:
            raise UsageError("no Node is known: which nodes match the RuntimeClass is unknown")
        nodes = nodes_of_class(runtime_class, snapshot, policy_of(flags))
        document = class_nodes_document(runtime_class.name, nodes, snapshot, flags.limit)
    names = [f"node/{each}" for each in document["matching"]]
    return print_answer(flags, document, class_nodes_text, names, yes=bool(document["matching"]))


NODES: Final = Command(
    "nodes",
    "The nodes that match a RuntimeClass, and why the others don't.",
    _nodes,
    [
        argument("runtimeclass", "CLASS", "the name of a RuntimeClass"),
        flag("--limit N", "names printed in each list", type=click.IntRange(1, 10**9)),
        server_flag(),
    ],
    reading_flags("name"),
    examples=["kata", "kata -o name"],
)
