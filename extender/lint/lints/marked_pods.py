"""Whether the pods that kube-scheduler should ask about are marked, and what the mark breaks."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from extender.kubernetes.versions import ON_SINCE, version_text
from extender.lint.lints.scheduler_config import is_for_marked_pods, our_extenders, profiles_of
from extender.model.finding import Finding, Severity, warning
from extender.model.objects import DEFAULT_SCHEDULER, MARK, Node, Pod
from extender.model.reasons import listed, number_of
from extender.rules.pools import KARPENTER_POOL_LABELS, POOL_LABELS

_KARPENTER: Final = {
    *KARPENTER_POOL_LABELS,
    "karpenter.sh/registered",
    "eks.amazonaws.com/compute-type",
}
_NODE_GROUPS: Final = {*POOL_LABELS} - _KARPENTER
_AUTOSCALER_TAINTS: Final = {
    "DeletionCandidateOfClusterAutoscaler",
    "ToBeDeletedByClusterAutoscaler",
}

Document = Mapping[str, Any]


def _places(document: Document) -> list[str]:
    """The extenders that are asked about marked pods only."""
    return [place for place, each in our_extenders(document) if is_for_marked_pods(each)]


def autoscalers(
    document: Document, nodes: Collection[Node], _: Collection[Pod]
) -> Iterator[Finding]:
    """Autoscalers that don't know the mark, by the labels and taints of the nodes."""
    marked = _places(document)
    if not marked:
        return
    labels = {key for node in nodes for key in node.labels}
    taints = {taint.key for node in nodes for taint in node.taints}
    what = f"{marked[0]}.managedResources has {MARK}, and nodes have"
    karpenter = min(labels & _KARPENTER, default="")
    if karpenter:
        yield warning(
            "autoscaler",
            f"{what} {karpenter}, a label of Karpenter",
            "Karpenter makes no node for a marked pod: no instance type has that resource",
            "don't use marks: managedResources: []",
        )
    sign = min((labels & _NODE_GROUPS) | (taints & _AUTOSCALER_TAINTS), default="")
    if sign:
        yield warning(
            "autoscaler",
            f"{what} {sign}, a sign of node groups of a cluster autoscaler",
            "Cluster Autoscaler adds no node for a marked pod: no node group has that resource",
            "run it with --scheduler-config-file and NodeResourcesFitArgs:"
            f" {{ignoredResources: [{MARK}]}}",
        )


def unmarked(document: Document, _: Collection[Node], pods: Collection[Pod]) -> Iterator[Finding]:
    """Pods with a class that this kube-scheduler asks no extender about."""
    profiles = (profile.get("schedulerName") for _, profile in profiles_of(document))
    own = {each or DEFAULT_SCHEDULER for each in profiles}
    with_class = [
        pod
        for pod in pods
        if pod.runtime_class_name
        and not pod.state.node_name
        and (pod.state.scheduler_name or DEFAULT_SCHEDULER) in own
    ]
    without = [pod for pod in with_class if not pod.is_marked]
    nobody = len(without) == len(with_class)
    what = f"{len(without)} of {number_of(len(with_class), 'pod')} with a RuntimeClass and without"
    mark = (
        "kubectl apply -k scheduler-config/policies/mark (Kubernetes"
        f" {version_text(ON_SINCE['MutatingAdmissionPolicy'])}), or run the webhook with"
        " --mark-pods; then "
    )
    for place in _places(document) if without else ():
        yield Finding(
            Severity.ERROR if nobody else Severity.WARNING,
            "unmarked-pods",
            f"{place}.managedResources has {MARK}, and {what} a node lack it"
            f"{': nothing marks pods' if nobody else ''}: {_names(without)}",
            "kube-scheduler places them without asking the extender",
            f"{mark if nobody else ''}re-create them",
        )


def _names(pods: Sequence[Pod]) -> str:
    return listed(sorted(f"{pod.namespace or 'default'}/{pod.name}" for pod in pods))
