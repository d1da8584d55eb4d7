"""Whether the pods that kube-scheduler should ask about are marked, and what the mark breaks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from extender.checks.finding import Finding, Severity
from extender.checks.managed_resources import (
    DEFAULT_SCHEDULER,
    is_for_marked_pods,
    schedulers_that_wait,
)
from extender.objects import MARK, Node, Pod
from extender.reasons import listed, number_of, shown

_KARPENTER: Final = frozenset(
    {
        "karpenter.sh/nodepool",
        "karpenter.sh/provisioner-name",
        "karpenter.sh/registered",
        "eks.amazonaws.com/compute-type",
    }
)

#: Labels of node groups, which a cluster autoscaler makes larger and smaller.
_GROUPS: Final = frozenset(
    {
        "alpha.eksctl.io/nodegroup-name",
        "cloud.google.com/gke-nodepool",
        "doks.digitalocean.com/node-pool",
        "eks.amazonaws.com/nodegroup",
        "kubernetes.azure.com/agentpool",
        "worker.gardener.cloud/pool",
    }
)
_AUTOSCALER_PREFIX: Final = "cluster-autoscaler.kubernetes.io/"
_AUTOSCALER_TAINTS: Final = frozenset(
    {"DeletionCandidateOfClusterAutoscaler", "ToBeDeletedByClusterAutoscaler"}
)


def autoscaler_signs(nodes: Iterable[Node]) -> frozenset[str]:
    """The labels and taints of nodes that an autoscaler puts there, or looks for."""
    found: set[str] = set()
    for node in nodes:
        found |= node.labels.keys() & (_KARPENTER | _GROUPS)
        found.update(key for key in node.labels if key.startswith(_AUTOSCALER_PREFIX))
        found.update(taint.key for taint in node.taints if taint.key in _AUTOSCALER_TAINTS)
    return frozenset(found)


def check_autoscalers(
    extenders: Iterable[tuple[str, Mapping[str, Any]]], signs: Iterable[str]
) -> Iterator[Finding]:
    """Autoscalers that don't know the mark; signs are those of autoscaler_signs."""
    signs = frozenset(signs)
    marked = [place for place, extender in extenders if is_for_marked_pods(extender)]
    if not marked:
        return
    karpenter = sorted(signs & _KARPENTER)
    if karpenter:
        yield Finding(
            Severity.WARNING,
            "autoscaler",
            f"{marked[0]}.managedResources has {MARK}, and nodes have {karpenter[0]}, a label of"
            " Karpenter",
            "Karpenter makes no node for a marked pod: no instance type has that resource",
            "don't use marks: managedResources: []",
        )
    others = sorted(signs - _KARPENTER)
    if others:
        yield Finding(
            Severity.WARNING,
            "autoscaler",
            f"{marked[0]}.managedResources has {MARK}, and nodes have {shown(others[0])}, a sign of"
            " node groups that a cluster autoscaler scales",
            "Cluster Autoscaler adds no node for a marked pod: no node group has that resource",
            "run it with --scheduler-config-file and NodeResourcesFitArgs:"
            f" {{ignoredResources: [{MARK}]}}",
        )


def check_marks(
    document: Mapping[str, Any],
    extenders: Iterable[tuple[str, Mapping[str, Any]]],
    pods: Iterable[Pod],
) -> Iterator[Finding]:
    """Pods without a node that this kube-scheduler asks no extender about, or can't place.

    Raises SchedulerConfigError.
    """
    waits = schedulers_that_wait(document)
    waiting = [
        pod
        for pod in pods
        if not pod.state.node_name and (pod.state.scheduler_name or DEFAULT_SCHEDULER) in waits
    ]
    for place, extender in extenders:
        if is_for_marked_pods(extender):
            yield from _unmarked(place, [pod for pod in waiting if pod.runtime_class_name])
    stuck = [
        pod
        for pod in waiting
        if pod.is_marked and waits[pod.state.scheduler_name or DEFAULT_SCHEDULER]
    ]
    if stuck:
        ask = number_of(len(stuck), "pod asks", "pods ask")
        yield Finding(
            Severity.ERROR,
            "mark-not-ignored",
            f"{ask} for {MARK}, which this kube-scheduler does not ignore: {_names(stuck)}",
            f"no node has that resource: they stay Pending with Insufficient {MARK}",
            f"managedResources: [{{name: {MARK}, ignoredByScheduler: true}}], or"
            f" NodeResourcesFitArgs: {{ignoredResources: [{MARK}]}}",
        )


def _unmarked(place: str, with_class: Sequence[Pod]) -> Iterator[Finding]:
    unmarked = [pod for pod in with_class if not pod.is_marked]
    if not unmarked:
        return
    nobody = len(unmarked) == len(with_class)
    of_all = "" if nobody else f" of {len(with_class)}"
    one = len(with_class) == 1
    pods = "pod without a node that names" if one else "pods without a node that name"
    yield Finding(
        Severity.ERROR if nobody else Severity.WARNING,
        "unmarked-pods",
        f"{place}.managedResources has {MARK}, and {len(unmarked)}{of_all} {pods} a RuntimeClass"
        f" {'does' if len(unmarked) == 1 else 'do'} not ask for it"
        f"{': nothing marks pods' if nobody else ''}: {_names(unmarked)}",
        "kube-scheduler places them without asking the extender",
        "re-create them"
        if not nobody
        else "kubectl apply -k scheduler-config/policies/mark (Kubernetes 1.36), or run the webhook"
        " with --mark-pods; then re-create them",
    )


def _names(pods: Sequence[Pod]) -> str:
    names = sorted(f"{pod.namespace or 'default'}/{pod.name}" for pod in pods)
    return listed(names)
