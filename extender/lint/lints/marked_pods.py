"""Lints of the mark: pods with a class that lack it, and autoscalers that it breaks."""

from collections.abc import Collection, Iterator
from typing import Final

from extender.explain.document import Document
from extender.kubernetes.versions import ON_SINCE, version_text
from extender.lint.lints.scheduler_config import is_for_marked_pods, our_extenders, profiles_of
from extender.model.finding import Finding, Severity, warning
from extender.model.objects import DEFAULT_SCHEDULER, MARK, Node, Pod
from extender.model.reasons import listed, number_of
from extender.rules.pools import POOL_LABELS

_SCALING_LABELS: Final = {*POOL_LABELS, "karpenter.sh/registered", "eks.amazonaws.com/compute-type"}
_SCALING_TAINTS: Final = {"DeletionCandidateOfClusterAutoscaler", "ToBeDeletedByClusterAutoscaler"}


def _places(document: Document) -> list[str]:
    """The places of the extenders that kube-scheduler asks only about marked pods."""
    return [place for place, each in our_extenders(document) if is_for_marked_pods(each)]


def autoscalers(
    document: Document, nodes: Collection[Node], _: Collection[Pod]
) -> Iterator[Finding]:
    """Signs of an autoscaler, which does not know the mark, in the nodes' labels and taints."""
    labels = {key for node in nodes for key in node.labels}
    taints = {taint.key for node in nodes for taint in node.taints}
    sign = min((labels & _SCALING_LABELS) | (taints & _SCALING_TAINTS), default="")
    for place in _places(document)[:1] if sign else ():
        yield warning(
            "autoscaler",
            f"{place}.managedResources has {MARK}, and nodes have {sign}, a sign of an autoscaler",
            "an autoscaler adds no node for a marked pod: no node that it knows has that resource",
            "run Cluster Autoscaler with --scheduler-config-file and NodeResourcesFitArgs:"
            f" {{ignoredResources: [{MARK}]}}; with Karpenter use no marks: managedResources: []",
        )


def unmarked(document: Document, _: Collection[Node], pods: Collection[Pod]) -> Iterator[Finding]:
    """Pods with a class but no mark: this kube-scheduler asks no extender about them."""
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
    names = listed(sorted(f"{pod.namespace or 'default'}/{pod.name}" for pod in without))
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
            f"{': nothing marks pods' if nobody else ''}: {names}",
            "kube-scheduler places them without asking the extender",
            f"{mark if nobody else ''}re-create them",
        )
