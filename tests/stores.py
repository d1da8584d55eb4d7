"""Stores with the nodes and classes of a test, filled as the reflectors do it."""

import json
from collections.abc import Iterable
from typing import Any

from msgspec import Raw

from extender.cluster.snapshot_store import SnapshotStore, observed
from extender.kubernetes.nodes import NodeReader
from extender.model.objects import Node, RuntimeClass
from extender.rules.snapshot import Snapshot


def store_of(nodes: Iterable[Node], classes: Iterable[RuntimeClass]) -> SnapshotStore:
    store = SnapshotStore()
    store.replace_all(nodes, classes)
    return store


def snapshot_of(nodes: Iterable[Node], classes: Iterable[RuntimeClass]) -> Snapshot:
    return store_of(nodes, classes).snapshot


def raw(document: Any) -> Raw:
    """An object as a watch brings it."""
    return Raw(json.dumps(document).encode())


def node_of(document: Any) -> Node:
    return NodeReader().read(json.dumps(document).encode())


def replace_nodes(store: SnapshotStore, nodes: Iterable[Node]) -> None:
    """All nodes at once."""
    store.replace_observed(map(observed, nodes))


def change_nodes(
    store: SnapshotStore, changed: Iterable[Node], deleted: Iterable[str] = ()
) -> None:
    """Single changes."""
    for node in changed:
        store.change_observed({node.name.encode(): observed(node)})
    for name in deleted:
        store.change_observed({name.encode(): None})
