"""explain: why a pod fits or does not, node by node."""

from functools import partial
from typing import Any, Final

from extender.cli.cluster_state import service_of
from extender.cli.commands import policy_of, reading_flags, server_flag, version_flag
from extender.cli.flags import Command, Flags, choice
from extender.cli.output import print_answer, screen
from extender.cli.streams import write_out
from extender.cluster.reading_once import ForbiddenError
from extender.explain.asked_pod import POD, pod_flags, pod_itself, pod_of_service, read_asked_pod
from extender.explain.document import explained, nodes_document, scores_document
from extender.explain.own_checks import Question
from extender.explain.text import explanation_text, itself_text
from extender.rules.pools import nodes_of
from extender.rules.snapshot import Snapshot
from extender.verbs.prioritize import Preferences


def _explain(program: str, flags: Flags) -> int:
    """Exit code 1 if no node fits or kube-scheduler keeps the pod Pending. Raises UsageError."""
    all_nodes = bool(flags.nodes) or flags.output == "name"
    if flags.server:
        service = service_of(flags)
        pod, body = pod_of_service(program, flags, service)
        document = service.explained(pod, body, {"nodes": "all"} if all_nodes else {})
    else:
        document = _document(program, flags, all_nodes=all_nodes)
    if flags.filename:
        document["asWritten"] = True
    names = [f"node/{name}" for name, reason in document.get("nodes", {}).items() if not reason]
    yes = bool(document["feasible"]) and not (document["event"] or document["lastEvent"])
    return print_answer(flags, document, explanation_text, names, yes=yes)


def _document(program: str, flags: Flags, *, all_nodes: bool) -> dict[str, Any]:
    """The pod as judged by this process. all_nodes: name them all. Raises UsageError."""
    policy = policy_of(flags)
    try:
        asked = read_asked_pod(program, "explain", flags)
    except ForbiddenError:
        if flags.output == "table" and not flags.filename and (own := pod_itself(program, flags)):
            alone = Question(own, None, nodes_of(Snapshot()), policy)
            write_out(itself_text(explained(alone, None, None)[1], screen(flags.color)))
        raise
    pod, snapshot = asked.pod, asked.state.snapshot
    runtime_class = snapshot.runtime_classes.get(pod.runtime_class_name)
    version = partial(asked.state.version, flags.kubernetes_version)
    question = Question(pod, runtime_class, nodes_of(snapshot), policy, version)
    explanation, document = explained(question, asked.rules, asked.state.inventory.pods_beside)
    if asked.kind != POD:
        document["kind"] = asked.kind
    if all_nodes:
        document["nodes"] = nodes_document(explanation)
    if flags.nodes:
        document["scores"] = scores_document(
            runtime_class, snapshot, explanation.passing, Preferences(policy.handler_check)
        )
    return document


EXPLAIN: Final = Command(
    "explain",
    "Why a pod fits or does not, node by node.",
    _explain,
    [
        *pod_flags(),
        version_flag(" (default: the API server's; unknown with --manifests)"),
        server_flag(),
        choice("--nodes", "all: print the verdict and the score of every node too", values=["all"]),
    ],
    reading_flags("name"),
    examples=["shop/web-7d4b9c", "-f deployment.yaml", "shop/web-7d4b9c --nodes all -o json"],
)
