"""pods: the class, node and state of each pod that uses a RuntimeClass."""

from collections import Counter
from datetime import UTC, datetime
from typing import Final

from extender.cli.cluster_state import ClusterState, load_cluster
from extender.cli.commands import policy_of, reading_flags
from extender.cli.flags import PLUGIN, Command, Flags, boolean, flag
from extender.cli.output import Cell, Colour, Row, Screen, print_answer, table
from extender.explain.document import Document
from extender.explain.explanation import Explainer
from extender.model.errors import UsageError
from extender.model.reasons import printable, shown
from extender.rules.pod_state import Placement, State

_COLOURS: Final = {State.RUNNING: Colour.GOOD, State.STRANDED: Colour.BAD}


def _pods(program: str, flags: Flags) -> int:
    """Exit code 1 if --pending or --stranded finds a pod, otherwise 0. Raises UsageError."""
    if flags.namespace and flags.all_namespaces:
        raise UsageError("--namespace can't be used with --all-namespaces")
    state = load_cluster(f"{program} pods", flags, uses=True)
    namespace = flags.namespace or ""
    if program == PLUGIN and not namespace and not flags.all_namespaces:
        namespace = state.namespace
    asked = {State.PENDING: flags.pending, State.STRANDED: flags.stranded}
    wanted = {state for state, is_asked in asked.items() if is_asked}
    items = _items(state, flags, namespace, wanted)
    if flags.runtimeclass is not None and not items:
        # Checked only without pods, since pods may name a class that is deleted.
        state.runtime_class(flags.runtimeclass)
    items.sort(key=lambda each: (each["namespace"], each["name"]))
    names = [f"pod/{each['name']}" for each in items]
    return print_answer(flags, {"items": items}, _text, names, yes=not (wanted and items))


def _items(state: ClusterState, flags: Flags, namespace: str, wanted: set[State]) -> list[Document]:
    """The pods to print. wanted: their states; empty for all states."""
    snapshot, policy = state.snapshot, policy_of(flags)
    explainer = Explainer(snapshot, policy)
    placement = Placement(snapshot, policy, datetime.now(UTC))
    items: list[Document] = []
    pending = wanted == {State.PENDING}
    for pod, explained, _ in state.inventory.pods(namespace, pending=pending):
        name = pod.runtime_class_name
        if flags.runtimeclass is not None and name != flags.runtimeclass:
            continue
        if not name and not pod.features and (pod.node or State.PENDING not in wanted):
            continue
        verdict, reason = placement.judge(pod)
        if wanted and verdict not in wanted:
            continue
        if verdict is State.PENDING:
            explanation = explainer.explain(explained())
            reason = " ".join([*explanation.state, explanation.summary])
        of_pod = snapshot.runtime_classes.get(name)
        items.append(
            {
                "namespace": pod.namespace,
                "name": pod.name,
                "class": name,
                "handler": of_pod.handler if of_pod else "",
                "node": pod.node,
                "state": verdict,
                "reason": reason,
            }
        )
    return items


def _text(document: Document, screen: Screen) -> str:
    rows: list[Row] = [
        [
            *(shown(each[key]) for key in ("namespace", "name", "class", "node")),
            Cell(each["state"], _COLOURS.get(each["state"], Colour.DOUBTFUL)),
            printable(each["reason"]),
        ]
        for each in document["items"]
    ]
    headers = ("NAMESPACE", "NAME", "CLASS", "NODE", "STATE", "REASON")
    counts = Counter(each["state"] for each in document["items"])
    told = ", ".join(f"{counts[state]} {state}" for state in State if counts[state])
    return table(screen, headers, rows) + (f"\n{told}\n" if told else "")


PODS: Final = Command(
    "pods",
    "Which pods use which RuntimeClass on which node: the pods that name a class or need a feature"
    " of their node's runtime.",
    _pods,
    [
        flag(
            "-n, --namespace NAME",
            "only pods of this namespace; with kubectl the context's by default",
        ),
        boolean("-A, --all-namespaces", "pods of all namespaces"),
        flag("--class CLASS", "only pods that name this class", name="runtimeclass"),
        boolean(
            "--pending",
            "only pods without a node, also those without a class, and why they have none",
        ),
        boolean("--stranded", "only pods that could not start again on their node"),
    ],
    reading_flags("name"),
    examples=["", "--pending -n shop", "--stranded -o json"],
    epilog="States: running; starting: the pod has a node, and no sandbox yet; pending: it has no"
    " node; stranded: the class is gone, or the node no longer has its handler, label or feature,"
    " so the pod runs until it restarts; drifted: the pod carries values of an older version of the"
    " class.",
)
