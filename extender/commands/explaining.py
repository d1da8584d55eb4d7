"""explain: why a pod fits or does not, node by node."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from extender.admission.namespace_rules import NamespaceRules, rules_of
from extender.cluster.reading_once import ForbiddenError
from extender.commands.arguments import (
    PLUGIN,
    Command,
    add_policy_flags,
    add_printing_flags,
    policy_of,
    source_of,
)
from extender.commands.cluster_state import ClusterState, load_cluster
from extender.commands.named_pods import POD, PodName, object_in_file, pod_name
from extender.commands.output import EXIT_DOES_NOT_FIT, EXIT_FITS, print_answer, warn
from extender.flags import CommandParser, UsageError
from extender.objects import Pod
from extender.printing.debug_documents import (
    explanation_document,
    nodes_document,
    scores_document,
)
from extender.printing.debug_texts import explanation_text
from extender.printing.similar import did_you_mean
from extender.reasons import shown
from extender.verbs.explain.candidate_nodes import nodes_of
from extender.verbs.explain.explanation import explain
from extender.verbs.explain.scores import explain_scores
from extender.verbs.prioritize import Preferences


def add_pod_flags(parser: CommandParser) -> None:
    """The flags that name a pod."""
    parser.add_argument(
        "pod",
        nargs="?",
        metavar="POD",
        help="NAMESPACE/NAME; with -n, and with kubectl, NAME or pod/NAME; with -f also KIND/NAME",
    )
    parser.add_argument(
        "-f",
        "--filename",
        metavar="FILE",
        help="holds the pod, or a workload whose template is explained; YAML or JSON, - is stdin",
    )
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        help="of a POD given without one; with kubectl the context's unless given",
    )


def _add_flags(parser: CommandParser) -> None:
    add_printing_flags(parser)
    add_policy_flags(parser)
    add_pod_flags(parser)
    parser.add_argument(
        "--nodes", choices=("all",), help="all: the verdict and the score of every node too"
    )


@dataclass(frozen=True, slots=True)
class AskedPod:
    """The pod that the flags name, the kind of the object that holds it, and its cluster.

    rules are those of its namespace, None where they are not known.
    """

    pod: Pod
    kind: str
    state: ClusterState
    rules: NamespaceRules | None


def read_asked_pod(program: str, command: str, flags: argparse.Namespace) -> AskedPod:
    """The pod that the flags name. Raises UsageError, also without a Node."""
    if not flags.pod and not flags.filename:
        form = "NAME" if program == PLUGIN else "NAMESPACE/NAME"
        raise UsageError(f"POD is needed, {form}, or -f FILE that holds it")
    in_file = bool(flags.filename)
    wanted = pod_name(flags.pod, flags.namespace, program, of_file=in_file) if flags.pod else None
    say = partial(warn, f"{program} {command}")
    kind, given = (
        object_in_file(flags.filename, wanted, flags.namespace, say) if in_file else (POD, None)
    )
    state = load_cluster(f"{program} {command}", source_of(flags))
    if not state.snapshot.nodes:
        raise UsageError("no Node is known: which nodes the pod fits on is unknown")
    pod = given or _pod_of_cluster(state, wanted)
    if program == PLUGIN and not pod.namespace:
        pod = replace(pod, namespace=state.namespace)
    return AskedPod(pod, kind, state, _rules(state, pod.namespace or "default", say))


def _explain(program: str, flags: argparse.Namespace) -> int:
    """Exit code 0 when some node fits, 1 when none does. Raises UsageError."""
    asked = read_asked_pod(program, "explain", flags)
    pod, policy, snapshot = asked.pod, policy_of(flags), asked.state.snapshot
    runtime_class = snapshot.runtime_classes.get(pod.runtime_class_name)
    explanation = explain(pod, runtime_class, nodes_of(snapshot), policy, asked.rules)
    document = explanation_document(explanation)
    if asked.kind != POD:
        document["kind"] = asked.kind
    if flags.nodes:
        document["nodes"] = nodes_document(explanation)
        document["scores"] = scores_document(
            explain_scores(
                runtime_class,
                snapshot,
                explanation.passing,
                Preferences(policy.handler_check),
            )
        )
    print_answer(flags.output, document, explanation_text)
    return EXIT_FITS if explanation.feasible else EXIT_DOES_NOT_FIT


def _rules(
    state: ClusterState, namespace: str, say: Callable[[str], None]
) -> NamespaceRules | None:
    """None where the namespace is not known or may not be read."""
    try:
        found = state.inventory.namespaces(namespace).get(namespace)
    except ForbiddenError as error:
        say(f"left out whether the pod's namespace allows its class: {error}")
        return None
    return None if found is None else rules_of(namespace, found.annotations)


def _pod_of_cluster(state: ClusterState, wanted: PodName | None) -> Pod:
    assert wanted is not None
    key = wanted.namespace or state.namespace, wanted.name
    pod = state.inventory.find_pod(*key)
    if pod is None:
        raise UsageError(f"Pod {shown('/'.join(key))} not found{_neighbours(state, *key)}")
    return pod


def _neighbours(state: ClusterState, namespace: str, name: str) -> str:
    """Pods of the namespace with similar names; none where pods may not be listed."""
    try:
        pods = state.inventory.pending_pods().values()
    except UsageError:
        return ""
    return did_you_mean(name, [each.name for each in pods if each.namespace == namespace])


EXPLAIN: Final = Command(
    "explain", "Why a pod fits or does not, node by node.", _add_flags, _explain
)
