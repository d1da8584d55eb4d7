"""Nodes that are kept for RuntimeClasses by their labels alone: plain pods go there too."""

from extender.predicates.node_checks import HandlerCheck, is_condition_taint
from extender.snapshot import Snapshot
from extender.verbs.class_index import ClassIndex


def untainted_special_nodes(snapshot: Snapshot, check: HandlerCheck) -> list[str]:
    """The untainted nodes that cost a plain pod more than another untainted one, by name.

    The prioritize verb keeps plain pods away from these (verbs.prioritize). Where all cost the same
    there is nothing to prefer.
    """
    index = ClassIndex(snapshot.runtime_classes.values(), check)
    costs = {
        shape_id: len({group.constraints for group in index.served(shape)})
        for shape_id, shape in enumerate(snapshot.shapes.shapes, 1)
        if snapshot.nodes_per_shape[shape_id] and all(map(is_condition_taint, shape.taints))
    }
    least = min(costs.values(), default=0)
    special = {shape_id for shape_id, cost in costs.items() if cost > least}
    if not special:
        return []
    return sorted(name.decode() for name, shape in snapshot.nodes.items() if shape in special)
