"""No request adds a series to the metrics."""

import json
import random
from typing import Any, Final

import pytest

from extender.cluster.snapshot_store import SnapshotStore
from extender.model.objects import Handler, Node, RuntimeClass
from extender.verbs.metrics import CacheCollector, RefusedPodsCollector, SupportCollector
from tests.asking import Client
from tests.services import client_of, service_over
from tests.stores import store_of

CLASSES: Final = [
    RuntimeClass("gvisor", "runsc", (("sandbox", "gvisor"),)),
    RuntimeClass("kata", "kata", (("sandbox", "kata"),)),
    RuntimeClass("runc", "runc"),
]
NODES: Final = [
    Node("a", {"sandbox": "gvisor"}, (), frozenset({Handler("runsc")})),
    Node("b", {"sandbox": "kata"}, (), frozenset({Handler("runsc")})),
    Node("c"),
]


def client_with_gauges(store: SnapshotStore) -> Client:
    service = service_over(store)
    for collector in (
        CacheCollector(lambda: store.snapshot),
        RefusedPodsCollector(service.refused, lambda: store.snapshot),
        SupportCollector(service.support, lambda: store.snapshot),
    ):
        service.metrics.registry.register(collector)
    return client_of(service)


@pytest.fixture
def client() -> Client:
    return client_with_gauges(store_of(NODES, CLASSES))


def series(client: Client) -> set[str]:
    text = client.get("/metrics").text
    return {line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")}


def ask(client: Client, verb: str, runtime_class: str, pod: str) -> None:
    body: dict[str, Any] = {
        "Pod": {"metadata": {"name": pod}, "spec": {"runtimeClassName": runtime_class}},
        "NodeNames": ["a", "b", "c", "stranger"],
    }
    assert client.post(f"/{verb}", data=json.dumps(body)).status_code == 200


def test_requests_with_random_class_names_leave_the_number_of_series_unchanged(
    client: Client,
) -> None:
    for verb in ("filter", "prioritize", "explain"):
        for name in ("gvisor", "kata", "runc", "", "unknown"):
            ask(client, verb, name, "first")
    client.get("/nodes/none")
    before = series(client)
    assert any("runtimeclass_nodes" in each for each in before)
    assert any('runtimeclass="<unknown>"' in each for each in before)
    chance = random.Random(5)
    for index in range(500):
        verb = chance.choice(["filter", "prioritize", "explain"])
        ask(client, verb, f"class-{chance.getrandbits(64):x}", f"pod-{index}")
    for path in ("/runtimeclasses/x1/nodes", "/nodes/x2", "/explain?pod=x/y"):
        assert client.get(path).status_code == 404
    assert series(client) == before


def test_the_gauges_say_which_nodes_support_what(client: Client) -> None:
    text = client.get("/metrics").text
    assert 'cache_objects{kind="Node"} 3.0' in text
    values = dict(
        line.removeprefix("runtimeclass_extender_").rsplit(" ", 1)
        for line in text.splitlines()
        if "runtimeclass_nodes{" in line or "node_runtimeclasses{" in line
    )
    assert values == {
        'runtimeclass_nodes{runtimeclass="gvisor"}': "1.0",
        'runtimeclass_nodes{runtimeclass="kata"}': "0.0",
        'runtimeclass_nodes{runtimeclass="runc"}': "1.0",
        'node_runtimeclasses{count="0"}': "1.0",
        'node_runtimeclasses{count="1"}': "2.0",
    }


@pytest.mark.parametrize("described", [False, True], ids=["names", "objects"])
def test_a_bound_pod_that_is_refused_other_nodes_is_not_counted(
    client: Client, described: bool
) -> None:
    """A bound pod has its node and is only resized (KEP-5836): nothing has to be requeued."""
    items = {"items": [{"metadata": {"name": "b"}}]}
    nodes = {"Nodes": items} if described else {"NodeNames": ["b"]}
    counted = []
    for node in ("a", None):
        spec = {"runtimeClassName": "gvisor", "nodeName": node}
        answer = client.post("/filter", json.dumps({"Pod": {"spec": spec}, **nodes})).json
        assert list(answer["FailedAndUnresolvableNodes"]) == ["b"]
        counted.append("_rejected_total{" in client.get("/metrics").text)
    assert counted == [False, True]


def test_until_all_is_known_the_debug_answers_are_503() -> None:
    store = SnapshotStore()
    client = client_with_gauges(store)
    store.replace_runtime_classes(CLASSES)
    for path in ("/runtimeclasses", "/runtimeclasses/kata/nodes", "/nodes/a"):
        answer = client.get(path)
        assert answer.status_code == 503
        assert answer.json == {"error": "runtimeclass-extender: nodes not synced yet"}
    answer = client.post("/explain", data=b'{"spec":{}}')
    assert answer.status_code == 503
    assert not any("runtimeclass_nodes{" in each for each in series(client))
