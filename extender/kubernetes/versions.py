"""Differences between minor versions of Kubernetes, each with its source in k8s.io/kubernetes.

tests/e2e/test_kubernetes_versions.py compares gates and declared features with a built Kubernetes.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

#: (major, minor)
Version = tuple[int, int]

#: The supported versions.
OLDEST: Final[Version] = (1, 30)
NEWEST: Final[Version] = (1, 37)

#: Matches 1.37, v1.37.1, v1.32.3-gke.100, v1.33.0+k3s1
_TEXT: Final = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?:[.+-].*)?", re.DOTALL)


def version_of(text: str) -> Version | None:
    """The version in a text; None if the text is not a version."""
    found = _TEXT.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def version_text(version: Version) -> str:
    """The version as text, such as 1.37."""
    return f"{version[0]}.{version[1]}"


class Span(NamedTuple):
    """The versions in which a fact holds. last: None if it still holds in NEWEST."""

    first: Version
    last: Version | None = None

    def holds(self, version: Version) -> bool:
        return self.first <= version and (self.last is None or version <= self.last)


#: The first version in which a feature gate is on by default: pkg/features/kube_features.go,
#: v1.37.1; MutatingAdmissionPolicy: k8s.io/apiserver, v0.37.1.
ON_SINCE: Final[Mapping[str, Version]] = {
    "DynamicResourceAllocation": (1, 34),
    "MutatingAdmissionPolicy": (1, 36),
    "NodeDeclaredFeatures": (1, 36),
    # With this gate kubelets report status.runtimeHandlers (pkg/kubelet/runtime.go).
    "RecursiveReadOnlyMounts": (1, 31),
    # Without this gate kubelets silently apply Merge (pkg/kubelet/lifecycle/predicate.go).
    "SupplementalGroupsPolicy": (1, 33),
    # Without this gate kubelets reject hostUsers (pkg/kubelet/userns/userns_manager.go).
    "UserNamespacesSupport": (1, 33),
}

HOST_NETWORK_USERS: Final = "UserNamespacesHostNetworkSupport"
RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
BIND_MOUNT_OPTIONS: Final = "VolumeBindMountOptions"

#: The declared features of nodes that decide where a pod is scheduled (explained_pods), with their
#: first version. The other declared features matter only when a pod is updated.
#: k8s.io/component-helpers nodedeclaredfeatures/features/registry.go, v0.35.0 and v0.37.1.
DECIDING_FEATURES: Final[Mapping[str, Version]] = {
    RESTART_ALL: (1, 35),
    HOST_NETWORK_USERS: (1, 36),
    BIND_MOUNT_OPTIONS: (1, 37),
}

#: With nodeCacheCapable: false kube-scheduler scores nodes as if they were idle
#: (pkg/scheduler/extender.go, v1.37.1; kubernetes#141781).
SCORES_AS_IF_IDLE: Final = Span((1, 33))

#: kube-scheduler's message names the taint that a pod does not tolerate
#: (pkg/scheduler/framework/plugins/tainttoleration, v1.33.13 and v1.34.4).
NAMES_TAINTS: Final = Span((1, 30), (1, 33))

#: kube-scheduler's message counts the nodes that the node names in a pod's affinity exclude
#: (pkg/scheduler/schedule_one.go findNodesThatFitPod, v1.31.14 and v1.37.1).
COUNTS_LEFT_OUT: Final = Span((1, 32))

#: kube-scheduler looks for pods to evict even on nodes that are too small for the pod
#: (pkg/scheduler/framework/plugins/noderesources/fit.go, v1.33.13 and v1.34.4).
EVICTS_IN_VAIN: Final = Span((1, 30), (1, 33))

#: If DynamicResourceAllocation is on, kube-scheduler's message about a pod without claims contains
#: "no new claims to deallocate"
#: (pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, v1.36.3 and v1.37.1).
TELLS_OF_CLAIMS: Final = Span((1, 34), (1, 36))


def is_on(gate: str, version: Version) -> bool:
    """Whether a gate is on by default. Later versions are treated as NEWEST."""
    return version >= ON_SINCE[gate]
