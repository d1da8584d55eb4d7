"""Judges before binding which pods a node's kubelet would reject afterwards.

In this order, for pods with and without a RuntimeClass (pkg/kubelet, v1.36.2):

1. spec.os.name is the node's operating system: PodOSNotSupported (lifecycle/predicate.go)
2. the pod's label kubernetes.io/os is: PodOSSelectorNodeLabelDoesNotMatch (lifecycle/predicate.go)
3. supplementalGroupsPolicy Strict: SupplementalGroupsPolicyNotSupported (lifecycle/predicate.go)
4. strict only: hostUsers false on a kubelet that may have user namespaces switched off
   (userns/userns_manager.go)
5. resources of the pod as a whole on Windows: PodLevelResourcesNotSupported (lifecycle/handlers.go)
"""

from collections.abc import Callable, Iterator
from enum import StrEnum

from extender.objects import Pod
from extender.reasons import (
    POD_RESOURCES_LACKING,
    STRICT_GROUPS_LACKING,
    Reason,
    system_label_mismatch,
    system_mismatch,
    user_namespaces_gated,
)
from extender.shape import Shape

#: One check of a node: returns why it is refused, None where it passes.
Check = Callable[[Shape], Reason | None]


class KubeletCheck(StrEnum):
    """--kubelet-check: how a kubelet is judged that does not say whether it rejects a pod."""

    # Enum's own __hash__ is written in Python, and takes ten times as long.
    __hash__ = str.__hash__

    AUTO = "auto"
    STRICT = "strict"
    OFF = "off"


def kubelet_checks(pod: Pod, check: KubeletCheck) -> Iterator[Check]:
    """The checks in their order; only those that this pod can fail."""
    if check is KubeletCheck.OFF:
        return
    needs = pod.kubelet_needs
    if needs is not None:
        if needs.system is not None:
            yield _same_system(needs.system, system_mismatch(needs.system))
        if needs.system_label is not None:
            yield _same_system(needs.system_label, system_label_mismatch(needs.system_label))
        if needs.strict_groups:
            yield _strict_groups
    if pod.features.user_namespaces and check is KubeletCheck.STRICT:
        yield _user_namespaces
    if needs is not None and needs.pod_resources:
        yield _pod_resources


def _same_system(wanted: str, mismatch: Reason) -> Check:
    # The kubelet compares with its own GOOS. A node that does not report it may have any.
    return lambda shape: None if shape.kubelet.system in ("", wanted) else mismatch


def _strict_groups(shape: Shape) -> Reason | None:
    return STRICT_GROUPS_LACKING if shape.kubelet.rejects_strict_groups else None


def _user_namespaces(shape: Shape) -> Reason | None:
    version = shape.kubelet.may_lack_user_namespaces
    return user_namespaces_gated(version) if version else None


def _pod_resources(shape: Shape) -> Reason | None:
    return POD_RESOURCES_LACKING if shape.kubelet.is_windows else None
