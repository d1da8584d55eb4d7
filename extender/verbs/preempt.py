"""The preempt verb: no pod is evicted from a node that can't run the pending pod.

kube-scheduler's dry run of preemption uses its in-tree filters only
(pkg/scheduler/framework/preemption, v1.36.2), so it may choose a node that the filter verb would
then refuse. Nodes that the pod's RuntimeClass does not match are dropped; the victims on the others
are returned unchanged, and none is ever added.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from extender.verbs.verdicts import Verdicts

V = TypeVar("V")


def keep_matching(verdicts: Verdicts, victims: Mapping[str, V]) -> Mapping[str, V]:
    """The entries of a map of node name → victims whose node passes; verdicts in its order."""
    names: Sequence[str] = verdicts.passing(list(victims))
    return {name: victims[name] for name in names}
