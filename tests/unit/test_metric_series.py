"""No request adds a series to the metrics."""

import json
import random
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from extender.cluster.snapshot_store import SnapshotStore
from extender.http.app import create_app
from extender.http.health import Health
from extender.http.routing import Threads
from extender.http.service import Service
from extender.metrics import CacheCollector, Metrics, RefusedPodsCollector, SupportCollector
from extender.objects import Handler, Node, RuntimeClass
from extender.refused_pods import RefusedPods
from tests.asking import Client

REQUESTS: Final = 500

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


@pytest.fixture
def client() -> Iterator[Client]:
    store, metrics = SnapshotStore(), Metrics()
    store.replace_all(NODES, CLASSES)
    refused = RefusedPods(time.monotonic)
    service = Service(store, metrics, Health(lambda: store.snapshot), refused)
    for collector in (
        CacheCollector(lambda: store.snapshot),
        RefusedPodsCollector(refused, lambda: store.snapshot),
        SupportCollector(service.support, lambda: store.snapshot),
    ):
        metrics.registry.register(collector)
    with Client(create_app(service, Threads.of(1))) as client:
        yield client


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
    for index in range(REQUESTS):
        verb = chance.choice(["filter", "prioritize", "explain"])
        ask(client, verb, f"class-{chance.getrandbits(64):x}", f"pod-{index}")
    for path in ("/runtimeclasses/x1/nodes", "/nodes/x2", "/explain?pod=x/y"):
        assert client.get(path).status_code == 404
    assert series(client) == before


def test_the_gauges_say_which_nodes_support_what(client: Client) -> None:
    text = client.get("/metrics").text
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


def test_until_all_is_known_the_debug_answers_are_503() -> None:
    store, metrics = SnapshotStore(), Metrics()
    refused = RefusedPods(time.monotonic)
    service = Service(store, metrics, Health(lambda: store.snapshot), refused)
    metrics.registry.register(SupportCollector(service.support, lambda: store.snapshot))
    with Client(create_app(service, Threads.of(1))) as client:
        store.replace_runtime_classes(CLASSES)
        for path in ("/runtimeclasses", "/runtimeclasses/kata/nodes", "/nodes/a"):
            answer = client.get(path)
            assert answer.status_code == 503
            assert answer.json == {"error": "runtimeclass-extender: nodes not synced yet"}
        answer = client.post("/explain", data=b'{"spec":{}}')
        assert answer.status_code == 503
        assert not any("runtimeclass_nodes{" in each for each in series(client))
