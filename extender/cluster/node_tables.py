"""Makes the next table of nodes from the current one, at the cost of what has changed."""

import weakref
from dataclasses import dataclass

from extender.names import NodeIndex
from extender.shape import ShapeId
from extender.snapshot import NodeTable


@dataclass(frozen=True, slots=True)
class NodeState:
    """What is kept of a node: its shape's id, its labels and what is allocatable, as JSON."""

    shape_id: ShapeId
    labels: bytes
    allocatable: bytes


#: By name: the state of a node that is new or has changed, None for one that is gone.
Changes = dict[bytes, NodeState | None]


@dataclass(slots=True)
class _Retired:
    """The dictionaries of the table before the current one, which readers may still have.

    Once no reader has them, they are brought up to date and used again: a change of one node costs
    a few changed entries, not a copy of 65,000. `missed` has the changes of the current table that
    these lack.
    """

    table: "weakref.ref[NodeTable]"
    nodes: NodeIndex
    labels: dict[bytes, bytes]
    allocatable: dict[bytes, bytes]
    missed: Changes


class NodeTables:
    """Owns the dictionaries of the table before the current one. The store's lock guards it."""

    def __init__(self) -> None:
        self._retired: _Retired | None = None

    def changed(self, current: NodeTable, changes: Changes) -> NodeTable:
        """A table with the changes; the current one is not changed.

        current is the table that was returned last; before another one, `forget` is called. The
        changes are kept until the next call, so the caller doesn't touch them any more.
        """
        retired = self._retired
        if retired is not None and retired.table() is None:
            new = NodeTable(retired.nodes, retired.labels, retired.allocatable)
            _apply(retired.missed, new)
        else:
            new = NodeTable(current.nodes.copy(), dict(current.labels), dict(current.allocatable))
        _apply(changes, new)
        # After a change of a quarter of the nodes, as with the first list, a copy is cheaper.
        few = 4 * len(changes) < len(new.nodes)
        self._retired = (
            _Retired(
                weakref.ref(current),
                current.nodes,
                current.labels,
                current.allocatable,
                changes,
            )
            if few
            else None
        )
        return new

    def forget(self) -> None:
        """Drop the dictionaries that would be used again: a renumbering makes their ids wrong."""
        self._retired = None


def _apply(changes: Changes, table: NodeTable) -> None:
    for name, state in changes.items():
        if state is None:
            table.nodes.forget(name)
            table.labels.pop(name, None)
        else:
            table.nodes[name] = state.shape_id
            table.labels[name] = state.labels
        if state is not None and state.allocatable:
            table.allocatable[name] = state.allocatable
        else:
            table.allocatable.pop(name, None)
