"""The preempt verb: no pod is evicted from a node that can't run the pending pod.

kube-scheduler's dry run of preemption uses its in-tree filters only
(pkg/scheduler/framework/preemption, v1.36.2), so it may choose a node that the filter verb would
then refuse. Nodes that the pod's RuntimeClass does not match are dropped; the victims on the others
are returned unchanged, and none is ever added.
"""

from extender.names import NameRun
from extender.objects import Pod, RuntimeClass
from extender.predicates.node_checks import Policy
from extender.snapshot import Snapshot
from extender.verbs.filter import match_names


def keeps_victims(
    pod: Pod,
    runtime_class: RuntimeClass | None,
    snapshot: Snapshot,
    names: NameRun,
    policy: Policy,
) -> bytes:
    """For each node whether its victims are kept, 1 or 0; runtime_class as in match_names."""
    return match_names(pod, runtime_class, snapshot, names, policy).passes
