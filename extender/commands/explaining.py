"""explain: why a pod fits or does not, node by node."""

import argparse
import sys
from pathlib import Path
from typing import Final

from extender.cluster.manifests import ManifestError, Manifests, load_manifests, read_manifest
from extender.commands.arguments import (
    Command,
    add_policy_flags,
    add_printing_flags,
    policy_of,
    source_of,
)
from extender.commands.cluster_state import ClusterState, load_cluster
from extender.commands.output import EXIT_DOES_NOT_FIT, EXIT_FITS, print_answer, warn
from extender.commands.progress import Progress
from extender.flags import CommandParser, UsageError
from extender.objects import Pod
from extender.printing.documents import (
    explanation_document,
    nodes_document,
    scores_document,
)
from extender.printing.texts import explanation_text
from extender.verbs.candidates import nodes_of
from extender.verbs.explain import explain
from extender.verbs.explain_scores import explain_scores
from extender.verbs.prioritize import Preferences
from extender.verdict import shown

_NAMED_PODS: Final = 5


def _add_flags(parser: CommandParser) -> None:
    add_printing_flags(parser)
    add_policy_flags(parser)
    parser.add_argument("pod", nargs="?", metavar="POD", help="NAMESPACE/NAME")
    parser.add_argument(
        "-f", "--filename", metavar="FILE", help="holds the pod, YAML or JSON; - is stdin"
    )
    parser.add_argument(
        "--nodes", choices=("all",), help="all: the verdict and the score of every node too"
    )
    parser.add_argument("-n", "--namespace", metavar="NAME", help="of a POD given without one")


def _explain(program: str, flags: argparse.Namespace) -> int:
    """Exit code 0 when some node fits, 1 when none does. Raises UsageError."""
    if not flags.pod and not flags.filename:
        raise UsageError("POD is needed, NAMESPACE/NAME, or -f FILE that holds it")
    key = _key(flags.pod, flags.namespace) if flags.pod else None
    given = _pod_in_file(flags.filename, key) if flags.filename else None
    state = load_cluster(source_of(flags), Progress())
    for warning in state.warnings:
        warn(f"{program} explain", warning)
    pod = given or _pod_of_cluster(state, key)
    policy = policy_of(flags)
    snapshot = state.snapshot
    runtime_class = snapshot.runtime_classes.get(pod.runtime_class_name)
    explanation = explain(pod, runtime_class, nodes_of(snapshot), policy)
    document = explanation_document(explanation)
    if flags.nodes:
        document["nodes"] = nodes_document(explanation)
        document["scores"] = scores_document(
            explain_scores(
                runtime_class,
                snapshot,
                explanation.passing,
                Preferences(policy.handler_check),
                policy,
            )
        )
    print_answer(flags.output, document, lambda screen: explanation_text(document, screen))
    return EXIT_FITS if explanation.feasible else EXIT_DOES_NOT_FIT


def _key(text: str, of_flag: str | None) -> tuple[str, str]:
    if of_flag and "/" not in text:
        text = f"{of_flag}/{text}"
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise UsageError(f"POD {shown(text)!r}: expected NAMESPACE/NAME")
    return namespace, name


def _pod_of_cluster(state: ClusterState, key: tuple[str, str] | None) -> Pod:
    assert key is not None
    pod = state.pods.find(*key)
    if pod is None:
        raise UsageError(f"Pod {shown('/'.join(key))} not found")
    return pod


def _pod_in_file(filename: str, key: tuple[str, str] | None) -> Pod:
    """The one pod of a file, or of several the one that is named."""
    loaded = Manifests()
    try:
        if filename == "-":
            read_manifest(sys.stdin.buffer.read(), "stdin", loaded)
        elif Path(filename).is_dir():
            raise UsageError(f"-f {filename}: is a folder, expected a file with a Pod")
        else:
            load_manifests([filename], loaded)
    except ManifestError as error:
        raise UsageError(str(error)) from None
    names = ", ".join(map(shown, list(loaded.pods)[:_NAMED_PODS]))
    if key is not None:
        pod = loaded.pods.get("/".join(key))
        if pod is None:
            raise UsageError(f"-f {filename}: has {names or 'no Pod'}, not {'/'.join(key)}")
        return pod
    if len(loaded.pods) != 1:
        several = f"{len(loaded.pods)} Pods, name one of them: {names}"
        raise UsageError(f"-f {filename}: holds {several if names else 'no Pod'}")
    return next(iter(loaded.pods.values()))


EXPLAIN: Final = Command(
    "explain", "Why a pod fits or does not, node by node.", _add_flags, _explain
)
