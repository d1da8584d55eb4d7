"""What differs between minor versions of Kubernetes, each with its source in k8s.io/kubernetes.

Gates and declared features are compared with a built Kubernetes by
tests/e2e/test_kubernetes_versions.py.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

#: (major, minor)
Version = tuple[int, int]

#: The supported versions.
OLDEST: Final[Version] = (1, 30)
NEWEST: Final[Version] = (1, 37)

#: 1.37, v1.37.1, v1.32.3-gke.100, v1.33.0+k3s1
_TEXT: Final = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?:[.+-].*)?", re.DOTALL)


def version_of(text: str) -> Version | None:
    """None for an unreadable text."""
    found = _TEXT.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def version_text(version: Version) -> str:
    """As in v1.37, without the v."""
    return f"{version[0]}.{version[1]}"


class Span(NamedTuple):
    """The versions in which something holds; last None: it does in NEWEST."""

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
    # Since it is on, kubelets report status.runtimeHandlers (pkg/kubelet/runtime.go).
    "RecursiveReadOnlyMounts": (1, 31),
    # While it is off, kubelets apply Merge without a word (pkg/kubelet/lifecycle/predicate.go).
    "SupplementalGroupsPolicy": (1, 33),
    # While it is off, kubelets reject hostUsers (pkg/kubelet/userns/userns_manager.go).
    "UserNamespacesSupport": (1, 33),
}

HOST_NETWORK_USERS: Final = "UserNamespacesHostNetworkSupport"
RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
BIND_MOUNT_OPTIONS: Final = "VolumeBindMountOptions"

#: The features that pods may need to be scheduled (explained_pods), of those that nodes declare,
#: with their first version; others count when a pod is changed only. k8s.io/component-helpers
#: nodedeclaredfeatures/features/registry.go, v0.35.0 and v0.37.1.
DECIDING_FEATURES: Final[Mapping[str, Version]] = {
    RESTART_ALL: (1, 35),
    HOST_NETWORK_USERS: (1, 36),
    BIND_MOUNT_OPTIONS: (1, 37),
}

#: With nodeCacheCapable: false kube-scheduler scores nodes as if they were idle
#: (pkg/scheduler/extender.go, v1.37.1; kubernetes#141781).
SCORES_AS_IF_IDLE: Final = Span((1, 33))

#: kube-scheduler names the taint that a pod does not tolerate
#: (pkg/scheduler/framework/plugins/tainttoleration, v1.33.13 and v1.34.4).
NAMES_TAINTS: Final = Span((1, 30), (1, 33))

#: kube-scheduler counts nodes that the names in a pod's affinity leave out
#: (pkg/scheduler/schedule_one.go findNodesThatFitPod, v1.31.14 and v1.37.1).
COUNTS_LEFT_OUT: Final = Span((1, 32))

#: kube-scheduler looks for pods to evict also where a pod would not fit if nothing ran there
#: (pkg/scheduler/framework/plugins/noderesources/fit.go, v1.33.13 and v1.34.4).
EVICTS_IN_VAIN: Final = Span((1, 30), (1, 33))

#: Where DynamicResourceAllocation is on, kube-scheduler says of a pod without claims that there are
#: "no new claims to deallocate"
#: (pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, v1.36.3 and v1.37.1).
TELLS_OF_CLAIMS: Final = Span((1, 34), (1, 36))


def is_on(gate: str, version: Version) -> bool:
    """Whether a gate is on by default; beyond NEWEST as it is there."""
    return version >= ON_SINCE[gate]
