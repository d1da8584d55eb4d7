"""Judges before binding which pods a node's kubelet would reject afterwards.

In this order, for pods with and without a RuntimeClass (pkg/kubelet, v1.36.2):

1. spec.os.name is the node's operating system: PodOSNotSupported (lifecycle/predicate.go)
2. the pod's label kubernetes.io/os is: PodOSSelectorNodeLabelDoesNotMatch (lifecycle/predicate.go)
3. supplementalGroupsPolicy Strict: SupplementalGroupsPolicyNotSupported (lifecycle/predicate.go)
4. strict only: hostUsers false on a kubelet that may have user namespaces switched off
   (userns/userns_manager.go)
5. resources of the pod as a whole on Windows: PodLevelResourcesNotSupported (lifecycle/handlers.go)
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from enum import StrEnum

from extender.kubernetes.versions import DECIDING_FEATURES, Version, is_on
from extender.model import reasons
from extender.model.pod_needs import PodNeeds
from extender.model.reasons import Reason
from extender.rules.node_shape import Shape

#: One check of a node: returns why it is refused, None where it passes.
Check = Callable[[Shape], Reason | None]


class KubeletCheck(StrEnum):
    """--kubelet-check: how a kubelet is judged that does not say whether it rejects a pod."""

    # Enum's own __hash__ is written in Python, and takes ten times as long.
    __hash__ = str.__hash__

    AUTO = "auto"
    STRICT = "strict"
    OFF = "off"


def kubelet_checks(pod: PodNeeds, check: KubeletCheck) -> Iterator[Check]:
    """Only the checks that this pod can fail, in their order."""
    if check is KubeletCheck.OFF:
        return
    needs = pod.kubelet_needs
    if needs is not None:
        if needs.system is not None:
            yield _same_system(needs.system, reasons.system_mismatch(needs.system))
        if needs.system_label is not None:
            yield _same_system(
                needs.system_label, reasons.system_label_mismatch(needs.system_label)
            )
        if needs.strict_groups:
            yield _strict_groups
    if pod.features.user_namespaces and check is KubeletCheck.STRICT:
        yield _user_namespaces
    if needs is not None and needs.pod_resources:
        yield lambda shape: reasons.POD_RESOURCES_LACKING if shape.kubelet.is_windows else None


def _same_system(wanted: str, mismatch: Reason) -> Check:
    # The kubelet compares with its own GOOS. A node that does not report it may have any.
    return lambda shape: None if shape.kubelet.system in ("", wanted) else mismatch


def _strict_groups(shape: Shape) -> Reason | None:
    return reasons.STRICT_GROUPS_LACKING if shape.kubelet.rejects_strict_groups else None


def _user_namespaces(shape: Shape) -> Reason | None:
    version = shape.kubelet.may_lack_user_namespaces
    return reasons.user_namespaces_gated(version) if version else None


def undeclared_reason(needed: Collection[str], shape: Shape) -> Reason | None:
    """A node that declares nothing lacks everything, as the plugin reads it."""
    declared = shape.kubelet.declared_features or frozenset()
    return None if declared.issuperset(needed) else reasons.UNDECLARED_FEATURES


def judged_features(
    needed: Collection[str], shapes: Iterable[Shape], version: Version | None
) -> Collection[str]:
    """Those of the features that a pod needs by which kube-scheduler judges nodes.

    version is kube-scheduler's, None where it is not known: then it judges if some node declares
    any. An old kubelet declares none, so on a newer control plane it may be that no node does.
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
