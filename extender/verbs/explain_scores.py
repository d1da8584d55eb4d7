"""The evidence behind a node's score: what it costs the pod, and the classes it serves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from extender.names import NameRun
from extender.objects import RuntimeClass, Shape
from extender.predicates.runtimeclass import Policy, serves
from extender.predicates.tolerations import TolerationSet
from extender.snapshot import Snapshot
from extender.verbs.prioritize import ConstraintKey, Preferences, constraint_key


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
    policy: Policy,
) -> Sequence[tuple[bytes, NodeScore]]:
    """The score of each named node, as the prioritize verb gives it for these names together."""
    scores = preferences.scores(own, snapshot, NameRun.of(names)).scores
    costs = preferences.cost_table(own, snapshot)
    by_key: dict[ConstraintKey, list[RuntimeClass]] = {}
    for each in snapshot.runtime_classes.values():
        by_key.setdefault(constraint_key(each), []).append(each)
    keys = preferences.served(snapshot)
    served: dict[int, Sequence[str]] = {0: ()}
    found = []
    for name, score in zip(names, scores, strict=True):
        shape_id = snapshot.nodes[name]
        if shape_id not in served:
            shape = snapshot.shapes.shapes[shape_id - 1]
            classes = (each for key in keys[shape_id] for each in by_key[key])
            served[shape_id] = _served(classes, shape, policy)
        cost = costs[shape_id] if shape_id else 0
        found.append((name, NodeScore(cost, score, served[shape_id])))
    return found


def _served(classes: Iterable[RuntimeClass], shape: Shape, policy: Policy) -> Sequence[str]:
    return sorted(
        each.name
        for each in classes
        if serves(each, TolerationSet(each.tolerations), shape, policy.handler_check)
    )
