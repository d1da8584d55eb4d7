"""Whether a pod waits for this scheduler at all: said before its nodes are listed."""

from collections.abc import Sequence
from typing import Final

from extender.objects import PodState
from extender.reasons import Reason, listed, shown

#: The scheduler of a pod that names none.
DEFAULT_SCHEDULER: Final = "default-scheduler"


def state_sentences(state: PodState, node: Reason | str | None) -> Sequence[str]:
    """Sentences about a pod, the one that matters most first; none of most Pending pods.

    node: of the node that the pod is bound to, why the pod would be refused there today, "" where
    that node is not among those judged, None where it passes.
    """
    said = []
    if state.deleted_at:
        said.append(f"It is being deleted since {shown(state.deleted_at)}.")
    if state.node_name:
        where = "is not among the nodes judged here"
        if node is None:
            where = "fits"
        elif isinstance(node, Reason):
            where = f"would be refused today: {node.text}"
        said.append(f"It is already bound to {shown(state.node_name)}, which {where}.")
    if state.gates:
        gates = listed(state.gates)
        said.append(f"No scheduler looks at it until its scheduling gates are removed: {gates}.")
    if state.scheduler_name not in ("", DEFAULT_SCHEDULER) and not state.node_name:
        said.append(
            f"It is scheduled by {shown(state.scheduler_name)}, not by {DEFAULT_SCHEDULER}: what"
            " follows counts if that scheduler calls this extender."
        )
    return said
