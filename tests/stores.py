"""Nodes read whole, put into a store as a reflector puts what it has observed."""

from collections.abc import Iterable

from extender.cluster.snapshot_store import SnapshotStore, observed
from extender.objects import Node


def replace_nodes(store: SnapshotStore, nodes: Iterable[Node]) -> None:
    """All nodes at once."""
    store.replace_observed(map(observed, nodes))


def change_nodes(
    store: SnapshotStore, changed: Iterable[Node], deleted: Iterable[str] = ()
) -> None:
    """Single changes."""
    store.change_observed(map(observed, changed), (name.encode() for name in deleted))
