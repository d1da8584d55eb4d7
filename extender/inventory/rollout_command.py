"""rollout: how far the replacement of one RuntimeClass by another has come (KEP-585).

For example sandboxed → sandboxed-v2: nodes get the new runtime one after the other, workloads
switch to the new class, and in the end the old class is deleted.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from extender.cli.cluster_state import ClusterState, load_cluster
from extender.cli.commands import policy_of, pool_label_flag, reading_flags
from extender.cli.flags import Command, Flags, argument
from extender.cli.output import Cell, Colour, Row, Screen, print_answer, table
from extender.cli.streams import warn
from extender.explain.document import NAMED_NODES, Document, texts_of
from extender.explain.text import bullets, heading, names_text
from extender.inventory.can_delete_command import users_of, users_table
from extender.model.errors import UsageError
from extender.model.names import text_of
from extender.model.objects import RuntimeClass
from extender.model.reasons import printable, shown
from extender.model.similar import did_you_mean
from extender.rules.class_nodes import verdicts_of_class
from extender.rules.node_checks import Policy
from extender.rules.pools import Pool, Pools, pools_of
from extender.rules.snapshot import Snapshot

#: The reason for a node that matches the new class, but is not ready.
_NOT_READY: Final = "node is not ready"


def _rollout(program: str, flags: Flags) -> int:
    """Exit code 0 when the replacement is done, 1 when it is not. Raises UsageError.

    OLD may already be deleted: pods, workloads and defaults may still name it.
    """
    if flags.old == flags.new:
        raise UsageError(f"OLD and NEW are both {shown(flags.old)}")
    state = load_cluster(f"{program} rollout", flags, uses=True)
    new, snapshot = state.runtime_class(flags.new), state.snapshot
    if not snapshot.nodes:
        raise UsageError("no Node is known: which nodes run the class is unknown")
    if flags.old not in snapshot.runtime_classes:
        near = did_you_mean(flags.old, snapshot.runtime_classes)
        warn(f"{program} rollout", f'RuntimeClass "{shown(flags.old)}" not found{near}')
    pools = pools_of(snapshot, flags.pool_label)
    document = _document(flags.old, new, state, pools, policy_of(flags))
    return print_answer(flags, document, _text, yes=document["done"])


def _document(
    old: str, new: RuntimeClass, state: ClusterState, pools: Pools, policy: Policy
) -> Document:
    """Omits pools with no ready node of NEW, no node of OLD and no pod of OLD, unless all are so.

    pods: the pods of the old class. done: nothing names the old class, some node runs the new
    class, and no pool with such a node has a node that runs only the old class.
    """
    snapshot, inventory = state.snapshot, state.inventory
    pods_on = Counter[bytes]()
    for pod, *_ in inventory.pods():
        if pod.runtime_class_name == old:
            pods_on[pod.node.encode("utf-8", "replace")] += 1
    pending = pods_on.pop(b"", 0)
    old_class = snapshot.runtime_classes.get(old)
    # Once the old class is deleted, only its pods show which nodes ran it.
    of_old = set(pods_on)
    if old_class is not None:
        refused_by_old = _refusals(old_class, snapshot, policy)
        of_old = {name for name, refusal in refused_by_old.items() if not refusal}
    refusals = _refusals(new, snapshot, policy)
    for name in state.not_ready:
        refusals[name] = refusals.get(name) or _NOT_READY
    found = [(each, _progress(each, refusals, of_old, pods_on)) for each in pools.pools]
    concerned = [
        progress
        for pool, progress in found
        if progress["ready"] or progress["pods"] or not of_old.isdisjoint(pool.nodes)
    ]
    users = users_of(old, state)
    workloads, defaults = users["workloads"], users["defaults"]
    return {
        "old": old,
        "new": new.name,
        "done": not (workloads or defaults or pods_on or pending)
        and any(each["ready"] for each in concerned)
        and not any(each["ready"] and each["drain"] for each in concerned),
        "pools": concerned or [progress for _, progress in found],
        "workloads": workloads,
        "defaults": defaults,
        "pods": {"running": pods_on.total(), "pending": pending},
    }


def _refusals(runtime_class: RuntimeClass, snapshot: Snapshot, policy: Policy) -> dict[bytes, str]:
    """For each node why it does not match the class; "" if it matches."""
    verdicts = verdicts_of_class(runtime_class, snapshot.shapes.shapes, policy)
    texts = [reason.text if reason else "" for reason in verdicts.reasons]
    return {name: texts[verdicts.codes[shape_id]] for name, shape_id in snapshot.nodes.items()}


def _progress(
    pool: Pool, refusals: Mapping[bytes, str], of_old: Collection[bytes], pods_on: Counter[bytes]
) -> Document:
    """ready: the nodes that run the new class. drain: the node to drain next, "" for none."""
    by_reason: dict[str, list[bytes]] = {}
    for name in pool.nodes:
        by_reason.setdefault(refusals[name], []).append(name)
    ready = len(by_reason.pop("", ()))
    # The nodes that need the new runtime. The one with the fewest pods of OLD is drained next.
    behind = [
        name for name in pool.nodes if name in of_old and refusals[name] not in ("", _NOT_READY)
    ]
    most_first = sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))
    return {
        "pool": pool.name,
        "ready": ready,
        "total": len(pool.nodes),
        "notReady": [
            {"reason": reason, "count": len(names), "nodes": texts_of(names[:NAMED_NODES])}
            for reason, names in most_first
        ],
        "pods": sum(pods_on[name] for name in pool.nodes),
        "drain": text_of(min(behind, key=lambda name: (pods_on[name], name), default=b"")),
    }


def _text(document: Document, screen: Screen) -> str:
    old, new = shown(document["old"]), shown(document["new"])
    head = f"{old} → {new}: {'done' if document['done'] else 'not done'}"
    rows: list[Row] = []
    for each in document["pools"]:
        ready = f"{each['ready']} of {each['total']}"
        colour = Colour.GOOD if each["ready"] == each["total"] else Colour.DOUBTFUL
        reasons = each["notReady"] or [{"reason": "", "nodes": [], "count": 0}]
        for number, why in enumerate(reasons):
            first = [shown(each["pool"]), Cell(ready, colour), str(each["pods"])]
            which = names_text(why["nodes"], why["count"])
            rows.append([*(["", "", ""] if number else first), printable(why["reason"]), which])
    parts = [
        heading(screen, head) + "\n",
        table(screen, ("POOL", f"RUN {new}", f"PODS OF {old}", "THE OTHERS", "WHICH"), rows),
    ]
    users = [*document["workloads"], *document["defaults"]]
    if users:
        parts.append("\n" + heading(screen, f"Still named {old}:"))
        parts.append(users_table(users, screen))
    parts.append(bullets(screen, "Next:", _next_steps(document)))
    return "".join(parts)


def _next_steps(document: Document) -> Iterator[str]:
    old, new = shown(document["old"]), shown(document["new"])
    for each in document["pools"]:
        if each["drain"]:
            node, pool = shown(each["drain"]), shown(each["pool"])
            yield f"drain {node} of pool {pool}, and make it run {new}"
    pods = document["pods"]["running"] + document["pods"]["pending"]
    if document["workloads"] or document["defaults"]:
        yield f"name {new} instead of {old} where it is still named"
    elif pods:
        still = f"1 pod still has {old}" if pods == 1 else f"{pods} pods still have {old}"
        created = "it" if pods == 1 else "them"
        yield f"{still}, which no template names any more: re-create {created}"
    elif document["done"]:
        yield f"kubectl delete runtimeclass {old}"
    elif not any(each["ready"] for each in document["pools"]):
        yield f"no node runs {new} yet"


ROLLOUT: Final = Command(
    "rollout",
    "How far the replacement of one RuntimeClass by another has come, pool by pool, and what to do"
    " next.",
    _rollout,
    [
        argument("old", "OLD", "the RuntimeClass that is replaced"),
        argument("new", "NEW", "the RuntimeClass that replaces it"),
        pool_label_flag(),
    ],
    reading_flags(),
    examples=["kata kata-v2"],
)
