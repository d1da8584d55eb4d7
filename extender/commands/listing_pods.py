"""pods: which pods run with which class where, and which are pending, stranded or drifted."""

import argparse
import sys
from typing import Final

from extender.commands.arguments import (
    PLUGIN,
    Command,
    add_policy_flags,
    add_printing_flags,
    policy_of,
)
from extender.commands.cluster_state import ClusterState
from extender.commands.output import EXIT_DOES_NOT_FIT, EXIT_FITS, json_text, screen
from extender.commands.usage import counted, load_usage
from extender.flags import CommandParser, UsageError
from extender.objects import Pod
from extender.predicates.node_checks import Policy
from extender.printing.usage_documents import PodRow, pods_document
from extender.printing.usage_texts import pods_text
from extender.streams import write_out
from extender.verbs.explain.candidate_nodes import nodes_of
from extender.verbs.explain.explanation import explain
from extender.verbs.placement import Placement, State, pending_reasons


def _add_flags(parser: CommandParser) -> None:
    add_printing_flags(parser)
    add_policy_flags(parser)
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        help="only its pods; with kubectl the context's unless -A or another is given",
    )
    parser.boolean_flag("--all-namespaces", help="the pods of all namespaces", short="-A")
    parser.add_argument(
        "--class", dest="runtimeclass", metavar="CLASS", help="only pods that name this class"
    )
    parser.boolean_flag(
        "--pending",
        help="only pods without a node, with and without a class, and why they have none",
    )
    parser.boolean_flag("--stranded", help="only pods that could not start again where they are")


def _pods(program: str, flags: argparse.Namespace) -> int:
    """Exit code 0; with --pending or --stranded 1 where there is such a pod. Raises UsageError."""
    if flags.namespace and flags.all_namespaces:
        raise UsageError("--namespace and --all-namespaces exclude each other")
    state = load_usage(f"{program} pods", flags)
    namespace = flags.namespace or ""
    if program == PLUGIN and not namespace and not flags.all_namespaces:
        namespace = state.namespace
    wanted = {
        *([State.PENDING] if flags.pending else ()),
        *([State.STRANDED] if flags.stranded else ()),
    }
    rows = sorted(_rows(state, policy_of(flags), namespace, flags.runtimeclass, wanted))
    # Of 100,000 rows only what is printed is made.
    as_json = flags.output == "json"
    write_out(json_text(pods_document(rows)) if as_json else pods_text(rows, screen()))
    return EXIT_DOES_NOT_FIT if wanted and rows else EXIT_FITS


def _rows(
    state: ClusterState,
    policy: Policy,
    namespace: str,
    runtime_class: str | None,
    wanted: set[State],
) -> list[PodRow]:
    """The pods asked for; wanted is empty where all states are."""
    snapshot = state.snapshot
    placement = Placement(snapshot, policy)
    candidates = nodes_of(snapshot)

    def why(pod: Pod) -> str:
        of_pod = snapshot.runtime_classes.get(pod.runtime_class_name)
        explanation = explain(pod, of_pod, candidates, policy)
        return " ".join([*explanation.state, explanation.summary])

    reason_of = pending_reasons(why)
    rows: list[PodRow] = []

    pending = wanted == {State.PENDING}
    with counted(state.inventory.pods(namespace, pending=pending)) as pods:
        for found in pods:
            pod, name = found.placed, found.placed.runtime_class_name
            if runtime_class is not None and name != runtime_class:
                continue
            if not name and not pod.features and (pod.node or State.PENDING not in wanted):
                continue
            verdict, reason = placement.judge(pod)
            if wanted and verdict not in wanted:
                continue
            if verdict is State.PENDING:
                reason = reason_of(found.explained())
            of_pod = snapshot.runtime_classes.get(name)
            rows.append(
                PodRow(
                    sys.intern(pod.namespace),
                    pod.name,
                    sys.intern(name),
                    of_pod.handler if of_pod else "",
                    sys.intern(pod.node),
                    verdict,
                    sys.intern(reason),
                )
            )
    return rows


PODS: Final = Command(
    "pods",
    "Which pods run with which RuntimeClass where: those that name one, or need a feature of their"
    " node's runtime. running; pending, and why; stranded: the class is gone, or the node no longer"
    " has its handler, label or feature, so that the pod runs until it restarts; drifted: it"
    " carries what an older version of the class had.",
    _add_flags,
    _pods,
)
