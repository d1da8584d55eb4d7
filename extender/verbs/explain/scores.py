"""The evidence behind a node's score: its cost for the pod, and the classes it serves."""

from collections.abc import Sequence
from dataclasses import dataclass

from extender.names import UNKNOWN, NameRun
from extender.objects import RuntimeClass
from extender.shape import ShapeId
from extender.snapshot import Snapshot
from extender.verbs.prioritize import Preferences


@dataclass(frozen=True, slots=True)
class NodeScore:
    """cost and score as in the prioritize verb; serves names RuntimeClasses in order.

    cost is None for a node that only the request describes.
    """

    cost: int | None
    score: int
    serves: Sequence[str]


def explain_scores(
    own: RuntimeClass | None,
    snapshot: Snapshot,
    names: Sequence[bytes],
    preferences: Preferences,
) -> Sequence[tuple[bytes, NodeScore]]:
    """The score of each named node, as the prioritize verb gives it for these names together."""
    scores = preferences.scores(own, snapshot, NameRun.of(names)).scores
    costs = preferences.cost_table(own, snapshot).costs
    served: dict[ShapeId, Sequence[str]] = {UNKNOWN: ()}
    found = []
    for name, score in zip(names, scores, strict=True):
        shape_id = snapshot.nodes[name]
        if shape_id not in served:
            served[shape_id] = preferences.served_classes(snapshot, shape_id)
        cost = costs[shape_id] if shape_id else 0
        found.append((name, NodeScore(cost, score, served[shape_id])))
    return found
