"""Lints of a KubeSchedulerConfiguration apart from its extenders. Sources of v1.37.1."""

from collections.abc import Iterator, Mapping
from typing import Any

from extender.lint.facts import Circumstances, object_in, plugin_args, profiles_of
from extender.model.finding import Finding, Severity, advice, error
from extender.model.reasons import shown


def client_connection(
    document: Mapping[str, Any], circumstances: Circumstances
) -> Iterator[Finding]:
    is_sure = circumstances.in_pod is False
    unless = "" if is_sure else ", unless it runs in a pod with a service account: say --in-pod"
    if not object_in(document, "clientConnection").get("kubeconfig") and not circumstances.in_pod:
        yield Finding(
            Severity.ERROR if is_sure else Severity.WARNING,
            "kubeconfig",
            "clientConnection.kubeconfig is missing",
            "kube-scheduler ends with: invalid configuration: no configuration has been provided"
            f" (its own --kubeconfig is not read beside --config){unless}",
            "clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}",
        )


def sampling(document: Mapping[str, Any], circumstances: Circumstances) -> Iterator[Finding]:
    everywhere = document.get("percentageOfNodesToScore")
    for place, profile in profiles_of(document):
        own = profile.get("percentageOfNodesToScore")
        score = everywhere if own is None else own
        if score != 100:
            yield from _sampled_filter(place, score, circumstances)
        args = plugin_args(profile, "DefaultPreemption")
        if not circumstances.admission_plugin and args.get("minCandidateNodesPercentage") != 100:
            yield error(
                "min-candidate-nodes",
                f"{place}: minCandidateNodesPercentage of DefaultPreemption is not 100",
                "preemption tries a sample of the nodes, perhaps none that the class matches",
                "pluginConfig: [{name: DefaultPreemption, args:"
                " {minCandidateNodesPercentage: 100}}]",
            )


def _sampled_filter(place: str, score: object, circumstances: Circumstances) -> Iterator[Finding]:
    said = "not set" if score is None else shown(str(score))
    what = f"{place}: percentageOfNodesToScore is {said}"
    why = (
        "with 100 nodes or more kube-scheduler stops looking once enough nodes fit, before it asks"
        " the extender: a pod stays Pending though another node fits"
    )
    if not circumstances.admission_plugin:
        yield error("node-sampling", what, why, "percentageOfNodesToScore: 100")
    elif circumstances.broken_promises:
        what += ", and there are nodes with a class's labels but without its handler"
        fix = "fix those nodes, or set percentageOfNodesToScore: 100"
        yield advice("node-sampling", what, why, fix)
