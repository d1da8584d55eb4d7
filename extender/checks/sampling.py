"""Whether kube-scheduler looks at enough nodes to find one of a RuntimeClass."""

from collections.abc import Iterator, Mapping
from typing import Any

from extender.checks.config_fields import Circumstances, plugin_args, profiles_of
from extender.checks.finding import Finding, Severity


def check_sampling(document: Mapping[str, Any], circumstances: Circumstances) -> Iterator[Finding]:
    everywhere = document.get("percentageOfNodesToScore")
    for place, profile in profiles_of(document):
        own = profile.get("percentageOfNodesToScore")
        score = everywhere if own is None else own
        if score != 100:
            yield from _sampled_filter(place, score, circumstances)
        if circumstances.admission_plugin:
            continue
        _, args = plugin_args(place, profile, "DefaultPreemption")
        if args.get("minCandidateNodesPercentage") != 100:
            yield Finding(
                Severity.ERROR,
                "min-candidate-nodes",
                f"{place}: minCandidateNodesPercentage of DefaultPreemption is not 100",
                "preemption looks at a sample of nodes, in which none of the class need be",
                "pluginConfig: [{name: DefaultPreemption, args:"
                " {minCandidateNodesPercentage: 100}}]",
            )


def _sampled_filter(place: str, score: object, circumstances: Circumstances) -> Iterator[Finding]:
    what = f"{place}: percentageOfNodesToScore is {'not set' if score is None else score}"
    why = (
        "with 100 nodes or more kube-scheduler stops looking once enough nodes fit, before it asks"
        " the extender: a pod stays Pending though another node fits"
    )
    if not circumstances.admission_plugin:
        yield Finding(Severity.ERROR, "node-sampling", what, why, "percentageOfNodesToScore: 100")
    elif circumstances.broken_promises:
        yield Finding(
            Severity.ADVICE,
            "node-sampling",
            f"{what}, and there are nodes with a class's labels but without its handler",
            why,
            "mend those nodes, or set percentageOfNodesToScore: 100",
        )
