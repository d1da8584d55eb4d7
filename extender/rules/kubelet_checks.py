"""Checks before binding for what a node's kubelet would reject a pod after binding.

In this order, for all pods (pkg/kubelet, v1.36.2; 1 to 3 are in lifecycle/predicate.go):

1. spec.os.name is not the node's operating system: PodOSNotSupported
2. the pod's label kubernetes.io/os differs from it: PodOSSelectorNodeLabelDoesNotMatch
3. supplementalGroupsPolicy Strict is not supported: SupplementalGroupsPolicyNotSupported
4. strict only: hostUsers false on a kubelet that may have user namespaces switched off
   (userns/userns_manager.go)
5. pod-level resources on Windows: PodLevelResourcesNotSupported (lifecycle/handlers.go)
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from enum import StrEnum

from extender.kubernetes.versions import DECIDING_FEATURES, Version, is_on
from extender.model import reasons
from extender.model.pod_needs import PodNeeds
from extender.model.reasons import Reason
from extender.rules.node_shape import Shape

#: One check of a node. Returns why the node is refused, None if it passes.
Check = Callable[[Shape], Reason | None]


class KubeletCheck(StrEnum):
    """--kubelet-check: how to judge a kubelet if the API does not tell whether it rejects a pod."""

    # Enum's own __hash__ is written in Python, and takes ten times as long.
    __hash__ = str.__hash__

    AUTO = "auto"
    STRICT = "strict"
    OFF = "off"


def kubelet_checks(pod: PodNeeds, check: KubeletCheck) -> Iterator[Check]:
    """The checks that this pod can fail, in order."""
    if check is KubeletCheck.OFF:
        return
    needs = pod.kubelet_needs
    if needs is not None:
        if needs.system is not None:
            yield _has_system(needs.system, reasons.system_mismatch(needs.system))
        if needs.system_label is not None:
            yield _has_system(needs.system_label, reasons.system_label_mismatch(needs.system_label))
        if needs.strict_groups:
            yield _strict_groups
    if pod.features.user_namespaces and check is KubeletCheck.STRICT:
        yield _user_namespaces
    if needs is not None and needs.pod_resources:
        yield lambda shape: reasons.POD_RESOURCES_LACKING if shape.kubelet.is_windows else None


def _has_system(wanted: str, mismatch: Reason) -> Check:
    # The kubelet compares with its own GOOS. A node that does not report its system may have any.
    return lambda shape: None if shape.kubelet.system in ("", wanted) else mismatch


def _strict_groups(shape: Shape) -> Reason | None:
    return reasons.STRICT_GROUPS_LACKING if shape.kubelet.rejects_strict_groups else None


def _user_namespaces(shape: Shape) -> Reason | None:
    version = shape.kubelet.may_lack_user_namespaces
    return reasons.user_namespaces_gated(version) if version else None


def undeclared_reason(needed: Collection[str], shape: Shape) -> Reason | None:
    """The reason if a node lacks a needed feature. A node that declares none lacks all of them."""
    declared = shape.kubelet.declared_features or frozenset()
    return None if declared.issuperset(needed) else reasons.UNDECLARED_FEATURES


def judged_features(
    needed: Collection[str], shapes: Iterable[Shape], version: Version | None
) -> Collection[str]:
    """The needed features that kube-scheduler's NodeDeclaredFeatures filter checks on nodes.

    version: kube-scheduler's, None if unknown. The filter counts as on if it is on in this version,
    even if no node declares features (old kubelets don't), and also if some node declares any.
    """
    by_version = version is not None and is_on("NodeDeclaredFeatures", version)
    if not (
        needed
        and (by_version or any(each.kubelet.declared_features is not None for each in shapes))
    ):
        return ()
    if version is None:
        return needed
    return [each for each in needed if DECIDING_FEATURES[each] <= version]
