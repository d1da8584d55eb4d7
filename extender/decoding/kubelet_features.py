"""What a node reports about its kubelet → the parts that decide about pods."""

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from extender.objects import DECIDING_FEATURES, WINDOWS, Kubelet

#: The longest operating system's name that is kept whole; real ones have up to ten characters.
_MAX_SYSTEM: Final = 253

#: v1.36.2, v1.32.3-gke.100, v1.33.0+k3s1
_VERSION: Final = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?![0-9])")

#: The minor versions whose kubelets have the gate UserNamespacesSupport off by default and report
#: features.userNamespaces all the same (pkg/kubelet/userns/userns_manager.go, v1.31 and v1.32).
_GATED_USER_NAMESPACES: Final = ((1, 31), (1, 32))

#: The first that rejects supplementalGroupsPolicy Strict where the runtime does not know it
#: (pkg/kubelet/lifecycle/predicate.go, v1.33).
_REJECTS_STRICT_GROUPS: Final = (1, 33)


class NodeFeatures(Struct, rename="camel"):
    """status.features of a node."""

    supplemental_groups_policy: bool | None = None


def kubelet_of(
    system: str,
    version: str,
    features: NodeFeatures | None,
    declared: Iterable[str | None] | None = None,
) -> Kubelet:
    """The parts of a kubelet that decide about pods; an unreadable version decides nothing.

    system is the node's operating system, version status.nodeInfo.kubeletVersion; "" where the node
    does not report it. declared is status.declaredFeatures, None where there is none.
    """
    system = system[:_MAX_SYSTEM]
    found = _VERSION.match(version)
    numbers = (int(found[1]), int(found[2])) if found else (0, 0)
    has_strict_groups = features is not None and features.supplemental_groups_policy is True
    is_gated = numbers in _GATED_USER_NAMESPACES and system != WINDOWS
    return Kubelet(
        system,
        numbers >= _REJECTS_STRICT_GROUPS and not has_strict_groups,
        "v{}.{}".format(*numbers) if is_gated else "",
        None if declared is None else DECIDING_FEATURES.intersection(filter(None, declared)),
    )
