"""A pod that is on a node already, as kube-scheduler asks about it to resize it (KEP-5836)."""

import json
from typing import Any

import pytest

from extender.model.objects import Node, RuntimeClass
from tests.asking import Client
from tests.services import client_over

#: Both have lost the label that the class asks for.
NODES = ("n1", "n2")


@pytest.fixture(scope="module")
def client() -> Client:
    kata = RuntimeClass("kata", "kata", (("sandbox", "kata"),))
    return client_over(map(Node, NODES), [kata])


def asked(client: Client, verb: str, pod: dict[str, Any], **nodes: Any) -> Any:
    body = {"Pod": pod, **nodes}
    response = client.post(f"/{verb}", json.dumps(body, separators=(",", ":")).encode())
    assert response.status_code == 200
    return response.json


def pod_of(runtime_class: str, node: str | None) -> dict[str, Any]:
    spec = {"runtimeClassName": runtime_class, "nodeName": node}
    return {"metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": spec}


def test_a_node_name_that_is_no_text_is_refused(client: Client) -> None:
    body = b'{"Pod":{"spec":{"nodeName":1}},"Nodes":null,"NodeNames":["n1"]}'
    response = client.post("/filter", body)
    assert response.status_code == 400
    assert response.json == {"error": "Pod.spec.nodeName: expected `str`, got `int`"}


@pytest.mark.parametrize("described", [False, True], ids=["names", "objects"])
def test_a_bound_pod_that_is_refused_other_nodes_is_neither_counted_nor_remembered(
    client: Client, described: bool
) -> None:
    """It has its node: nothing has to be requeued for it, and no gauge may show it."""
    nodes: dict[str, Any] = {"Nodes": None, "NodeNames": ["n2"]}
    if described:
        nodes = {"Nodes": {"items": [{"metadata": {"name": "n2"}}]}, "NodeNames": None}
    before = counted(client)
    answer = asked(client, "filter", pod_of("kata", "n1"), **nodes)
    assert list(answer["FailedAndUnresolvableNodes"]) == ["n2"]
    assert counted(client) == before
    asked(client, "filter", pod_of("kata", None), **nodes)
    assert counted(client) != before


def counted(client: Client) -> list[str]:
    """The series about refusals."""
    lines = client.get("/metrics").text.splitlines()
    return [line for line in lines if "_rejected_total{" in line]
