"""What the verbs answer before all is known: filter is in tests/integration/test_live_serve.py."""

import time

import orjson
import pytest

from extender.cluster.snapshot_store import SnapshotStore
from extender.http.health import Health
from extender.http.service import Service
from extender.http.verb_routes import PreemptRoute, PrioritizeRoute
from extender.metrics import Metrics
from extender.objects import Node, RuntimeClass
from extender.refused_pods import RefusedPods
from extender.undecided_errors import UndecidedError
from tests.stores import replace_nodes

GVISOR = RuntimeClass("gvisor", "runsc", (("sandbox", "gvisor"),))
GVISOR_POD = {"spec": {"runtimeClassName": "gvisor"}}
VICTIMS = {"n1": {"Pods": [{"UID": "a"}], "NumPDBViolations": 0}}


def service(store: SnapshotStore) -> Service:
    health = Health(lambda: store.snapshot)
    return Service(store, Metrics(), health, RefusedPods(time.monotonic))


def scores(store: SnapshotStore, nodes: object) -> object:
    args = {"Pod": {}, "Nodes": nodes, "NodeNames": None if nodes else ["n1", "n2"]}
    chunks, count = PrioritizeRoute(service(store))(orjson.dumps(args))
    assert count == 2
    return orjson.loads(b"".join(chunks))


def preempted(store: SnapshotStore, pod: object) -> object:
    body = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": VICTIMS}
    chunks, _ = PreemptRoute(service(store))(orjson.dumps(body))
    return orjson.loads(b"".join(chunks))


def test_no_node_is_preferred_before_the_classes_are_known() -> None:
    """What a node serves can't be told; a node that is not known yet is no worse than another."""
    store = SnapshotStore()
    replace_nodes(store, [Node("n1")])
    assert scores(store, None) == []
    store.replace_runtime_classes([])
    assert scores(store, None) == [{"Host": "n1", "Score": 10}]


def test_described_nodes_are_scored_by_the_classes_alone() -> None:
    labels: dict[str, dict[str, str]] = {"n1": {}, "n2": {"sandbox": "gvisor"}}
    items = [{"metadata": {"name": name, "labels": labels[name]}} for name in labels]
    store = SnapshotStore()
    assert scores(store, {"items": items}) == []
    store.replace_runtime_classes([GVISOR])
    assert scores(store, {"items": items}) == [{"Host": "n1", "Score": 5}]


def test_no_candidate_of_preemption_is_dropped_before_the_nodes_are_known() -> None:
    """The answer has no field for an error: 503, instead of nodes left out for nothing."""
    store = SnapshotStore()
    for classes in (False, True):
        if classes:
            store.replace_runtime_classes([GVISOR])
        with pytest.raises(UndecidedError, match="not synced"):
            preempted(store, GVISOR_POD)
        assert preempted(store, {}) == {"NodeNameToMetaVictims": VICTIMS}
    replace_nodes(store, [Node("n1")])
    assert preempted(store, GVISOR_POD) == {"NodeNameToMetaVictims": {}}
    replace_nodes(store, [Node("n1", {"sandbox": "gvisor"})])
    assert preempted(store, GVISOR_POD) == {"NodeNameToMetaVictims": VICTIMS}
