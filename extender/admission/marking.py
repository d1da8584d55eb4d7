"""The mark by which kube-scheduler tells the pods that it asks the extender about.

A pod that names a RuntimeClass asks for one of an extended resource that no node has. An extender's
managedResources name it: pods without it are never asked about (pkg/scheduler/extender.go,
IsInterested), and ignoredByScheduler keeps it out of NodeResourcesFit (pkg/scheduler/scheduler.go,
buildExtenders). The kubelet drops the request before it admits the pod
(pkg/kubelet/lifecycle/predicate.go, removeMissingExtendedResources). All of v1.36.2.
"""

from typing import Final

from extender.admission.json_patch import Operation, add, pointer
from extender.admission.reviewed_pod import AMOUNTS, ReviewedPod
from extender.objects import MARK

#: How much of the mark a pod's first container requests and is limited to: extended resources are
#: whole numbers, and requests equal limits.
AMOUNT: Final = "1"

#: The amount in JSON, as a person or as a program writes it.
_WRITTEN: Final = (b'"1"', b"1")


def mark(pod: ReviewedPod) -> list[Operation]:
    """The operations that mark the pod; empty where it is marked. Raises DecodeError.

    One that has its node already, as a mirror pod has, is no scheduler's business. One without a
    container can't be marked, nor does kube-apiserver let it in.
    """
    resources = None if pod.has_node else pod.first_resources()
    if resources is None:
        return []
    path = ("spec", "containers", "0", "resources")
    if resources.amounts is None:
        return [add(pointer(*path), {each: {MARK: AMOUNT} for each in AMOUNTS})]
    operations = []
    for each in AMOUNTS:
        amounts = resources.amounts.get(each)
        if amounts is None:
            operations.append(add(pointer(*path, each), {MARK: AMOUNT}))
        elif bytes(amounts.get(MARK, b"")) not in _WRITTEN:
            operations.append(add(pointer(*path, each, MARK), AMOUNT))
    return operations
