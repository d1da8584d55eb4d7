"""Our answers never run into what kube-scheduler v1.36.2 drops, refuses or panics on.

The readers here are held against the vectors first: what they refuse is what kube-scheduler does
not take. Then they read our answers to what it really sent.
"""

import json
from decimal import Decimal
from typing import Any

import pytest

from extender.cluster.snapshot_store import SnapshotStore
from extender.decoding.decoder import convert
from extender.decoding.nodes import NodeReader
from extender.decoding.runtime_classes import RawRuntimeClass, runtime_class_of
from extender.http.app import create_app
from extender.http.health import Health
from extender.http.routing import Threads
from extender.http.service import Service
from extender.metrics import Metrics
from extender.refused_pods import RefusedPods
from tests.asking import Client
from tests.vectors_file import RECORDED, recorded, vectors

Case = dict[str, Any]
INT64 = range(-(2**63), 2**63)


class NotTakenError(Exception):
    """kube-scheduler would drop the answer, fail the pod, or worse."""


def load(body: str) -> Any:
    """JSON with numbers as they are written."""
    return json.loads(body, parse_float=Decimal)


def integer(value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or value not in INT64:
        raise NotTakenError(f"{value!r} does not decode into an int64")
    return value


def read_priorities(status: int, body: str) -> dict[str, int]:
    """extender.go Prioritize: host → score."""
    if status != 200:
        raise NotTakenError(f"status {status}")
    entries = [{key.lower(): value for key, value in entry.items()} for entry in load(body)]
    return {entry["host"]: integer(entry.get("score")) for entry in entries}


def read_preemption(status: int, body: str, asked: dict[str, list[str]]) -> dict[str, list[str]]:
    """extender.go ProcessPreemption, with the pods each node has: node → UIDs."""
    if status != 200:
        raise NotTakenError(f"status {status}")
    fields = {key.lower(): value for key, value in load(body).items()}
    candidates = {}
    for node, victims in (fields.get("nodenametometavictims") or {}).items():
        if node not in asked:
            raise NotTakenError(f"node {node} is not known")
        if victims is None or any(pod is None for pod in victims["Pods"]):
            raise NotTakenError("a null: kube-scheduler panics")
        integer(victims.get("NumPDBViolations"))
        uids = [pod["UID"] for pod in victims["Pods"]]
        if not uids or not set(uids) <= set(asked[node]):
            raise NotTakenError(f"no victim, or one that is not on node {node}")
        candidates[node] = uids
    return candidates


@pytest.mark.parametrize("case", vectors("extender", "prioritize_answers"))
def test_the_reader_of_scores_takes_what_kube_scheduler_takes(case: Case) -> None:
    response, dropped = case["response"], case["expect"]["answer_dropped"]
    try:
        scores = read_priorities(response["status"], response["body"])
    except NotTakenError:
        assert dropped
        return
    assert not dropped
    weight = case["config"].get("weight", 1)
    added = {node: scores.get(node, 0) * weight * 10 for node in case["nodes"]}
    assert added == case["expect"]["added_to_node_score"]


PREEMPTIONS = [
    case
    for case in vectors("extender", "preempt")
    if case.values[0]["request_sent"]
    and "delayMs" not in case.values[0]["response"]
    and not case.values[0]["config"].get("ignorable")
]


@pytest.mark.parametrize("case", PREEMPTIONS)
def test_the_reader_of_victims_takes_what_kube_scheduler_takes(case: Case) -> None:
    response, expected = case["response"], case["expect"]
    on_node: dict[str, list[str]] = {node: [] for node in case["nodes"]}
    for pod in case["pods"]:
        on_node[pod["spec"]["nodeName"]].append(pod["metadata"]["uid"])
    try:
        read = read_preemption(response["status"], response["body"], on_node)
    except NotTakenError:
        assert "candidates" not in expected
        return
    assert read == {node: each["uids"] for node, each in expected["candidates"].items()}


@pytest.fixture(scope="module")
def client() -> Client:
    """The service in the cluster that the recorded requests came from."""
    import yaml

    nodes = {}
    for file in (RECORDED / "scheduler-nodes").glob("*.json"):
        for item in (json.loads(file.read_bytes()).get("Nodes") or {}).get("items", []):
            nodes[item["metadata"]["name"]] = NodeReader().read(json.dumps(item).encode())
    documents = yaml.safe_load_all((RECORDED / "runtimeclasses.yaml").read_text())
    store = SnapshotStore()
    store.replace_all(
        nodes.values(), [runtime_class_of(convert(each, RawRuntimeClass)) for each in documents]
    )
    health = Health(lambda: store.snapshot)
    service = Service(store, Metrics(), health, RefusedPods(lambda: 0.0))
    return Client(create_app(service, Threads.of(1)))


BOTH = ("scheduler-names", "scheduler-nodes")


@pytest.mark.parametrize("body", [case for mode in BOTH for case in recorded(mode, "prioritize")])
def test_recorded_prioritize_requests_get_the_scores_above_the_lowest(
    client: Client, body: bytes
) -> None:
    response = client.post("/prioritize", data=body)
    scores = read_priorities(response.status_code, response.text)
    asked = json.loads(body)
    names = asked["NodeNames"] or [each["metadata"]["name"] for each in asked["Nodes"]["items"]]
    assert list(scores) == [name for name in names if name in scores]
    assert set(scores.values()) <= set(range(1, 11))
    assert len(scores) < len(names)


@pytest.mark.parametrize("body", [case for mode in BOTH for case in recorded(mode, "preempt")])
def test_recorded_preempt_requests_keep_the_nodes_of_the_class(client: Client, body: bytes) -> None:
    asked = json.loads(body)
    if asked["NodeNameToMetaVictims"]:
        victims = {
            node: [pod["UID"] for pod in each["Pods"]]
            for node, each in asked["NodeNameToMetaVictims"].items()
        }
    else:
        victims = {
            node: [pod["metadata"]["uid"] for pod in each["Pods"]]
            for node, each in asked["NodeNameToVictims"].items()
        }
    response = client.post("/preempt", data=body)
    kept = read_preemption(response.status_code, response.text, victims)
    assert kept == {node: victims[node] for node in kept}
    assert sorted(kept) == ["node-000000", "node-000001", "node-000002"]


@pytest.mark.parametrize(
    "case", [case for case in vectors("extender", "preempt") if "request_body" in case.values[0]]
)
def test_victims_of_a_pod_without_a_class_come_back_as_they_were(
    client: Client, case: Case
) -> None:
    response = client.post("/preempt", data=case["request_body"].encode())
    asked = {node: each["uids"] for node, each in case["candidates"].items()}
    assert read_preemption(response.status_code, response.text, asked) == asked
