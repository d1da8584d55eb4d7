"""Numbers the shapes of nodes, and drops those that no node has any more when there are many."""

from collections.abc import Collection, Mapping
from typing import Final

from extender.shape import Shape, ShapeId

#: Shapes that no node has any more are dropped when there are twice as many shapes as were in use
#: at the last check and no more than half are in use now; below this number they are not checked.
#: A long shape counts as several: a kubelet may report a megabyte of handlers, and others with the
#: next heartbeat.
MIN_SHAPES: Final = 64
_SHAPE_BYTES: Final = 256 * 1024
_PART_BYTES: Final = 100


class ShapeIds:
    """The shapes by id, from 1 on: id 0 is the unknown node's. The store's lock guards it."""

    def __init__(self) -> None:
        self._ids: dict[Shape, ShapeId] = {}
        self._total_weight = 0
        self._look_at = MIN_SHAPES

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """All shapes in the order of their ids, without a gap."""
        return tuple(self._ids)

    def of(self, shape: Shape) -> ShapeId:
        """The id of a shape, a new one if it has none yet."""
        known = self._ids.get(shape)
        if known is None:
            known = self._ids[shape] = ShapeId(len(self._ids) + 1)
            self._total_weight += _weight(shape)
        return known

    def drop_unused(self, in_use: Collection[ShapeId]) -> Mapping[ShapeId, ShapeId] | None:
        """Old id → new id of each shape in use, once the others are dropped.

        None when all shapes keep their ids, because there are few of them or most are in use.
        in_use has each id as often as one likes, and is gone through only when there are many
        shapes.
        """
        if self._total_weight < self._look_at:
            return None
        ids = set(in_use)
        weight = sum(_weight(shape) for shape, old in self._ids.items() if old in ids)
        self._look_at = max(MIN_SHAPES, 2 * weight)
        if 2 * weight > self._total_weight:
            return None
        self._total_weight = weight
        new_id = {old: ShapeId(new) for new, old in enumerate(sorted(ids), 1)}
        self._ids = {shape: new_id[old] for shape, old in self._ids.items() if old in new_id}
        return new_id


def _weight(shape: Shape) -> int:
    """As how many shapes it counts: one for each _SHAPE_BYTES of memory, roughly."""
    size = sum(_PART_BYTES + len(handler.name) for handler in shape.handlers)
    size += sum(_PART_BYTES + len(taint.key) + len(taint.value) for taint in shape.taints)
    return 1 + (size + len(shape.kubelet.system)) // _SHAPE_BYTES
