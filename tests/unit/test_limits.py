"""Limits of a request: an error names the limit, before memory is allocated for more."""

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest

from extender.admission.endpoint import MAX_REVIEW_VALUES
from extender.model.objects import Node, Pod, RuntimeClass
from extender.model.reasons import MAX_QUOTED, shown
from extender.verbs import bodies
from extender.verbs.bodies import MAX_NODES, MAX_PARTS
from extender.verbs.outcomes import RefusedPods
from extender.verbs.preempt import MAX_CANDIDATES, MAX_PREEMPTION_BYTES
from tests.asking import Client, Response
from tests.reviews import Webhook
from tests.services import client_over

POD = b'{"metadata":{"name":"p"},"spec":{"runtimeClassName":"%s"}}'
KATA = POD % b"kata"
WHOLE_NODES = b'{"Pod":%s,"Nodes":{"metadata":{},"items":[%s]},"NodeNames":null}'


@pytest.fixture(scope="module")
def client() -> Client:
    return client_over([Node("n1")], [RuntimeClass("kata", "kata", (("sandbox", "kata"),))])


@contextmanager
def memory() -> Iterator[list[int]]:
    """The bytes allocated at the end, and the peak."""
    found: list[int] = []
    tracemalloc.start()
    try:
        yield found
        found += tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def of_names(pod: bytes, names: bytes) -> bytes:
    return b'{"Pod":%s,"Nodes":null,"NodeNames":[%s]}' % (pod, names)


def in_another_form(body: bytes) -> bytes:
    return body.replace(b'"Nodes":', b'"Nodes" :')


def error_of(response: Response) -> str:
    text = str(response.json["error"])
    assert response.status_code == (413 if "over the limit of" in text else 400)
    return text


def test_an_answer_over_the_limit_is_an_error_and_not_made(client: Client) -> None:
    """A class name of 253 four-byte characters, refused on 500,000 nodes with empty names."""
    names = b",".join([b'""'] * 500_000)
    pod = POD % ("\U0001d4b3" * 253).encode()
    answer: Any = client.post("/filter", of_names(pod, names)).json
    assert answer["Error"] == (
        "runtimeclass-extender: the answer would be over the limit of 120,000,000 bytes"
    )
    assert answer["FailedAndUnresolvableNodes"] == {}


def test_the_largest_cluster_with_long_reasons_is_answered(client: Client) -> None:
    names = b",".join(b'"node-%06d.%s"' % (each, b"x" * 60) for each in range(150_000))
    answer: Any = client.post("/filter", of_names(POD % (b"k" * 253), names)).json
    assert answer["Error"] == ""
    assert len(answer["FailedAndUnresolvableNodes"]) == 150_000


def test_a_reason_has_so_many_bytes_of_foreign_text() -> None:
    for text in ("a" * 300, "é" * 300, "\U0001d4b3" * 253):
        assert len(shown(text).encode()) <= MAX_QUOTED + len("…".encode())
        assert text.startswith(shown(text)[:-1])
    assert shown("k" * MAX_QUOTED) == "k" * MAX_QUOTED


def test_more_names_than_any_cluster_has_are_refused(client: Client) -> None:
    body = of_names(KATA, b",".join([b'"a"'] * (bodies.MAX_NAMES + 1)))
    assert error_of(client.post("/filter", body)) == "NodeNames: more than 1,000,000 names"
    odd = in_another_form(body)
    assert error_of(client.post("/filter", odd)) == "body: more than 400,000 values"


def test_more_nodes_than_any_cluster_has_are_refused(client: Client) -> None:
    items = b",".join([b'{"metadata":{"name":"a"}}'] * (MAX_NODES + 1))
    body = WHOLE_NODES % (KATA, items)
    for each in (body, in_another_form(body)):
        assert error_of(client.post("/filter", each)) == "Nodes.items: more than 20,000 Nodes"


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "explain"])
def test_large_json_in_another_form_is_refused_by_its_size(client: Client, verb: str) -> None:
    """Such JSON is decoded in one piece; kube-scheduler's own may be as large as any body."""
    body = b'{"Pod":%s,"x":"%s","NodeNames":["n1"]}' % (KATA, b"y" * bodies.MAX_OTHER_BYTES)
    assert error_of(client.post(f"/{verb}", body)) == (
        "body: over the limit of 8,388,608 bytes for JSON that is not exactly as kube-scheduler"
        " writes it: its keys in its order, no blanks, no escapes in names"
    )


def test_what_kube_scheduler_writes_may_be_larger(client: Client) -> None:
    """Whole Nodes with text of any language, names, and victims as whole pods."""
    text = b'"annotations":{"a":"\xc3\xa9%s"}' % (b"y" * 2**20)
    nodes = b",".join([b'{"metadata":{"name":"n%d",%s}}' % (each, text) for each in range(9)])
    names = b",".join([b'"%0100d"' % each for each in range(90_000)])
    victim = b'{"metadata":{"uid":"u",%s}}' % text
    whole_pods = (
        b'{"Pod":%s,"NodeNameToVictims":{"n1":{"Pods":[%s],"NumPDBViolations":0}},'
        b'"NodeNameToMetaVictims":null}' % (KATA, b",".join([victim] * 9))
    )
    for verb, body in (
        ("filter", WHOLE_NODES % (KATA, nodes)),
        ("filter", of_names(KATA, names)),
        ("preempt", whole_pods),
    ):
        assert len(body) > bodies.MAX_OTHER_BYTES
        assert client.post(f"/{verb}", body).status_code == 200


def test_nodes_of_more_parts_than_any_have_are_refused(client: Client) -> None:
    labels = b",".join(b'"%d":"a"' % each for each in range(2 * MAX_PARTS // 300))
    node = b'{"metadata":{"name":"n%d","labels":{%s}},"spec":{},"status":{}}'
    items = b",".join(node % (each, labels) for each in range(301))
    assert error_of(client.post("/filter", WHOLE_NODES % (KATA, items))) == (
        "Nodes.items: more than 300,000 taints, handlers, conditions, label pairs"
    )


@pytest.mark.parametrize("mode", ["as kube-scheduler writes it", "any JSON"])
def test_a_pod_of_more_values_than_etcd_keeps_is_refused(client: Client, mode: str) -> None:
    tolerations = b",".join([b"{}"] * (bodies.MAX_POD_VALUES + 1))
    pod = b'{"spec":{"runtimeClassName":"kata","tolerations":[%s]}}' % tolerations
    body = of_names(pod, b'"n1"')
    if mode == "any JSON":
        body = in_another_form(body)
    assert error_of(client.post("/filter", body)) == "Pod: more than 100,000 values"


def test_a_pod_of_more_bytes_than_etcd_keeps_is_refused(client: Client) -> None:
    body = of_names(POD % (b"k" * 2**21), b'"n1"')
    assert error_of(client.post("/filter", body)) == "Pod: more than 2,097,152 bytes"


def test_a_review_of_more_values_is_refused() -> None:
    tolerations: list[Any] = [{}] * (MAX_REVIEW_VALUES + 2)
    body = orjson.dumps({"request": {"object": {"spec": {"tolerations": tolerations}}}})
    status, answer = Webhook().post("/mutate", body)
    assert (status, orjson.loads(answer)["error"]) == (400, "body: more than 210,000 values")


@pytest.mark.parametrize("form", ["NodeNameToMetaVictims", "NodeNameToVictims"])
def test_too_many_nodes_without_victims_are_refused_before_they_are_made(
    client: Client, form: str
) -> None:
    """Nulls are the shortest victims; their objects would take 20 times the text's memory."""
    nodes = b",".join(b'"%x":null' % each for each in range(2 * MAX_CANDIDATES))
    body = b'{"Pod":{},"%s":{%s}}' % (form.encode(), nodes)
    with memory() as found:
        error = error_of(client.post("/preempt", body))
    assert error == f"{form}: more than 150,000 nodes"
    assert found[1] < 18 * len(body)


def test_too_large_a_preemption_is_refused(client: Client) -> None:
    body = b'{"Pod":{},"NodeNameToMetaVictims":{}}' + b" " * MAX_PREEMPTION_BYTES
    assert error_of(client.post("/preempt", body)) == (
        "body: over the limit of 33,554,432 bytes for preemption"
    )


def test_a_refused_pod_takes_less_than_a_kilobyte_however_much_was_said_of_it() -> None:
    """100,000 pods with ten reasons each took 200 MB."""
    refused = RefusedPods(lambda: 0.0)
    names = [f"pod-{number}" for number in range(2_000)]
    with memory() as taken:
        for name in names:
            reasons = tuple((number, f"{name}: {number:0300}") for number in range(10))
            refused.refuse(Pod("default", name, runtime_class_name="kata"), reasons)
    assert taken[0] < 1_000 * len(names)
    assert len(refused) == len(names)
    assert len(refused.reasons("default/pod-1999")) == 10
    assert refused.reasons("default/pod-0") == ()
