"""Which labels a kubelet may set on its own Node.

plugin/pkg/admission/noderestriction/admission.go getForbiddenLabels and
k8s.io/kubelet/pkg/apis/well_known_labels.go, v1.36.2.
"""

from typing import Final

_RESTRICTED: Final = "node-restriction.kubernetes.io"
_KUBERNETES: Final = ("kubernetes.io", "k8s.io")
_KUBELETS_OWN: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_WELL_KNOWN: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    }
)


def _is_within(namespace: str, domain: str) -> bool:
    return namespace == domain or namespace.endswith(f".{domain}")


def is_well_known(key: str) -> bool:
    """Whether the label describes the node in general, not just for one RuntimeClass."""
    return key in _WELL_KNOWN


def is_set_by_kubelet(key: str) -> bool:
    """Whether NodeRestriction lets a kubelet set a label of this key on its own Node."""
    namespace, _, _ = key.rpartition("/")
    if _is_within(namespace, _RESTRICTED):
        return False
    if not any(_is_within(namespace, domain) for domain in _KUBERNETES):
        return True
    return key in _WELL_KNOWN or any(_is_within(namespace, each) for each in _KUBELETS_OWN)
