"""The shape of a node: the parts of it that decide about RuntimeClasses.

Thousands of nodes have a handful of shapes, and each check is done once for a shape. Immutable.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NewType

from extender.objects import (
    HARD_EFFECTS,
    UNKNOWN_KUBELET,
    Condition,
    Handler,
    Kubelet,
    Node,
    NodeRequirement,
    Taint,
)

#: The number of a shape among those of a cluster, from 1; names.UNKNOWN is that of no shape.
ShapeId = NewType("ShapeId", int)


@dataclass(frozen=True, slots=True)
class Shape:
    """The parts of a node that decide about RuntimeClasses; nodes of equal shape share one verdict.

    selector_entries are those of the node's labels that some RuntimeClass's nodeSelector asks for,
    taints those with a hard effect, in the node's order. met and conditions are what the node meets
    of the terms and conditions that classes ask for by annotation.
    """

    selector_entries: frozenset[tuple[str, str]] = frozenset()
    taints: tuple[Taint, ...] = ()
    handlers: frozenset[Handler] = frozenset()
    unschedulable: bool = False
    is_docker: bool = False
    kubelet: Kubelet = UNKNOWN_KUBELET
    met: frozenset[NodeRequirement] = frozenset()
    conditions: frozenset[Condition] = frozenset()


def shape_of(node: Node, wanted: Collection[tuple[str, str]]) -> Shape:
    """The shape of a node, given all nodeSelector entries that matter."""
    return Shape(
        frozenset(entry for entry in node.labels.items() if entry in wanted),
        tuple(taint for taint in node.taints if taint.effect in HARD_EFFECTS),
        node.handlers,
        node.unschedulable,
        node.is_docker,
        node.kubelet,
    )
