"""The feature gates that tests set or compare, and the versions of Kubernetes that know them.

Upstream: pkg/features/kube_features.go, v1.37.1; of gates that 1.37 removed v1.36.3.
"""

from collections.abc import Mapping
from typing import Final

from extender.kubernetes.versions import Span, Version

KNOWN: Final[Mapping[str, Span]] = {
    "DynamicResourceAllocation": Span((1, 26)),
    "GangScheduling": Span((1, 35), (1, 36)),
    "GenericWorkload": Span((1, 35)),
    "InPlacePodVerticalScalingSchedulerPreemption": Span((1, 37)),
    "MutatingAdmissionPolicy": Span((1, 30)),
    "NodeDeclaredFeatures": Span((1, 35)),
    "RecursiveReadOnlyMounts": Span((1, 30)),
    "SupplementalGroupsPolicy": Span((1, 31)),
    "TaintTolerationComparisonOperators": Span((1, 35)),
    "TopologyAwareWorkloadScheduling": Span((1, 36)),
    "UserNamespacesSupport": Span((1, 25)),
    "WorkloadAwarePreemption": Span((1, 36), (1, 36)),
}


def knows_gate(gate: str, version: Version) -> bool:
    """Whether a component of that version starts with the gate among its --feature-gates."""
    return KNOWN[gate].holds(version)
