"""What a request may hold: each limit is told by its name, before memory is taken for more."""

import time
import tracemalloc
from typing import Any

import orjson
import pytest

from extender.cluster.snapshot_store import SnapshotStore
from extender.http.app import create_app
from extender.http.health import Health
from extender.http.routing import Threads
from extender.http.service import Service
from extender.metrics import Metrics
from extender.objects import Node, Pod, RuntimeClass
from extender.reasons import MAX_QUOTED, shown
from extender.refused_pods import RefusedPods
from extender.wire import bodies
from extender.wire.node_items import MAX_NODES
from extender.wire.preempt_bodies import MAX_PREEMPTION_BYTES
from extender.wire.review_bodies import MAX_REVIEW_VALUES
from tests.asking import Client, Response
from tests.reviews import Webhook

POD = b'{"metadata":{"name":"p"},"spec":{"runtimeClassName":"%s"}}'


@pytest.fixture(scope="module")
def client() -> Client:
    store = SnapshotStore()
    store.replace_all([Node("n1")], [RuntimeClass("kata", "kata", (("sandbox", "kata"),))])
    refused = RefusedPods(time.monotonic)
    service = Service(store, Metrics(), Health(lambda: store.snapshot), refused)
    return Client(create_app(service, Threads.of(1)))


def filter_names(client: Client, runtime_class: str, names: bytes) -> Response:
    pod = POD % runtime_class.encode()
    body = b'{"Pod":%s,"Nodes":null,"NodeNames":[%s]}' % (pod, names)
    return client.post("/filter", body)


def error_of(response: Response) -> str:
    assert response.status_code == 400
    return str(response.json["error"])


def test_an_answer_over_the_limit_is_an_error_and_not_made(client: Client) -> None:
    """A class's name of 253 characters of four bytes, refused for 500,000 nodes without a name."""
    names = b",".join([b'""'] * 500_000)
    answer: Any = filter_names(client, "\U0001d4b3" * 253, names).json
    assert answer["Error"] == (
        "runtimeclass-extender: the answer would be over the limit of 120,000,000 bytes"
    )
    assert answer["FailedAndUnresolvableNodes"] == {}


def test_the_largest_cluster_with_long_reasons_is_answered(client: Client) -> None:
    names = b",".join(b'"node-%06d.%s"' % (each, b"x" * 60) for each in range(150_000))
    answer: Any = filter_names(client, "k" * 253, names).json
    assert answer["Error"] == ""
    assert len(answer["FailedAndUnresolvableNodes"]) == 150_000


def test_a_reason_has_so_many_bytes_of_foreign_text() -> None:
    for text in ("a" * 300, "é" * 300, "\U0001d4b3" * 253):
        assert len(shown(text).encode()) <= MAX_QUOTED + len("…".encode())
        assert text.startswith(shown(text)[:-1])
    assert shown("k" * MAX_QUOTED) == "k" * MAX_QUOTED


@pytest.mark.parametrize("mode", ["as kube-scheduler writes it", "any JSON"])
def test_more_names_than_any_cluster_has_are_refused(client: Client, mode: str) -> None:
    names = b",".join([b'"a"'] * (bodies.MAX_NAMES + 1))
    body = b'{"Pod":%s,"Nodes":null,"NodeNames":[%s]}' % (POD % b"kata", names)
    if mode == "any JSON":
        body = body.replace(b'"Nodes":', b'"Nodes" :')
    text = error_of(client.post("/filter", body))
    assert text in ("NodeNames: more than 1,000,000 names", "body: more than 1,200,004 values")


def test_more_nodes_than_any_cluster_has_are_refused(client: Client) -> None:
    items = b",".join([b'{"metadata":{"name":"a"}}'] * (MAX_NODES + 1))
    pod = POD % b"kata"
    body = b'{"Pod":%s,"Nodes":{"metadata":{},"items":[%s]},"NodeNames":null}' % (pod, items)
    for each in (body, body.replace(b'"Nodes":', b'"Nodes" :')):
        assert error_of(client.post("/filter", each)) == "Nodes.items: more than 200,000 Nodes"


@pytest.mark.parametrize("mode", ["as kube-scheduler writes it", "any JSON"])
def test_a_pod_of_more_values_than_etcd_keeps_is_refused(client: Client, mode: str) -> None:
    tolerations = b",".join([b"{}"] * (bodies.MAX_POD_VALUES + 1))
    pod = b'{"spec":{"runtimeClassName":"kata","tolerations":[%s]}}' % tolerations
    body = b'{"Pod":%s,"Nodes":null,"NodeNames":["n1"]}' % pod
    if mode == "any JSON":
        body = body.replace(b'"Nodes":', b'"Nodes" :')
    assert error_of(client.post("/filter", body)) == "Pod: more than 100,000 values"


def test_a_review_of_more_values_is_refused() -> None:
    tolerations: list[Any] = [{}] * (MAX_REVIEW_VALUES + 2)
    body = orjson.dumps({"request": {"object": {"spec": {"tolerations": tolerations}}}})
    status, answer = Webhook().post("/mutate", body)
    assert (status, orjson.loads(answer)["error"]) == (400, "body: more than 1,010,000 values")


@pytest.mark.parametrize("form", ["NodeNameToMetaVictims", "NodeNameToVictims"])
def test_too_many_nodes_without_victims_are_refused_before_they_are_made(
    client: Client, form: str
) -> None:
    """Nulls are the shortest victims, of which the objects would take 20 times the text."""
    nodes = b",".join(b'"%x":null' % each for each in range(2 * MAX_NODES))
    body = b'{"Pod":{},"%s":{%s}}' % (form.encode(), nodes)
    tracemalloc.start()
    try:
        error = error_of(client.post("/preempt", body))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert error == f"{form}: more than 200,000 nodes"
    assert most < 16 * len(body)


def test_too_large_a_preemption_is_refused(client: Client) -> None:
    body = b'{"Pod":{},"NodeNameToMetaVictims":{}}' + b" " * MAX_PREEMPTION_BYTES
    assert error_of(client.post("/preempt", body)) == (
        "body: over the limit of 33,554,432 bytes for preemption"
    )


def test_a_refused_pod_takes_less_than_a_kilobyte_however_much_was_said_of_it() -> None:
    """With ten reasons 100,000 pods took 200 MB."""
    refused = RefusedPods(lambda: 0.0)
    names = [f"pod-{number}" for number in range(2_000)]
    tracemalloc.start()
    try:
        for name in names:
            reasons = tuple((number, f"{name}: {number:0300}") for number in range(10))
            refused.refuse(Pod("default", name, runtime_class_name="kata"), reasons)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 1_000 * len(names)
    assert len(refused) == len(names)
    assert len(refused.reasons("default/pod-1999")) == 10
    assert refused.reasons("default/pod-0") == ()
