"""The endpoints that people ask, over a socket."""

import json
from collections import deque
from typing import Any

from tests.fakes.apiserver import (
    NODES,
    RUNTIME_CLASSES,
    FakeApiServer,
    node,
    runtime_class,
    status_document,
)
from tests.processes import Server, ready


def get(server: Server, path: str, status: int = 200) -> Any:
    got, body, headers = server.request("GET", path)
    assert got == status, body
    assert headers["Content-Type"] == "application/json"
    return json.loads(body)


def test_a_posted_pod_is_explained_as_the_same_pod_of_the_cluster(sample: Server) -> None:
    metadata = {"name": "kata", "namespace": "default"}
    pod = {"kind": "Pod", "metadata": metadata, "spec": {"runtimeClassName": "kata"}}
    posted = sample.post("/explain", json.dumps(pod).encode())
    assert posted == get(sample, "/explain?pod=default/kata")
    assert sample.post("/explain", json.dumps({"Pod": pod}).encode()) == posted


def test_one_class_is_told_as_in_the_list(sample: Server) -> None:
    listed = get(sample, "/runtimeclasses")["items"]
    assert [get(sample, f"/runtimeclasses/{each['name']}") for each in listed] == listed


def test_every_node_is_listed_with_the_classes_it_supports(sample: Server) -> None:
    answer = get(sample, "/nodes")
    assert answer["leftOut"] == 0
    names = [each["node"] for each in answer["items"]]
    assert (len(names), names) == (13, sorted(names))
    for each in answer["items"]:
        single = get(sample, f"/nodes/{each['node']}")
        del single["notSupported"]
        assert each == single
    cut = get(sample, "/nodes?limit=2")
    assert cut == {"items": answer["items"][:2], "leftOut": 11}
    _, body, _ = sample.request("GET", "/nodes?limit=12&output=text")
    assert b"\ngvisor-3   gvisor, runc  unschedulable\n" in body
    assert body.endswith(b"\nleft out: 1 (?limit= lists more)\n")


def test_control_characters_of_a_pod_do_not_reach_a_terminal(sample: Server) -> None:
    evil = "\u001b[2J\u001b]0;owned\u0007\r\n\u202e"
    term = {"matchExpressions": [{"key": evil, "operator": evil, "values": [evil]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = {
        "runtimeClassName": evil,
        "nodeSelector": {evil: evil},
        "tolerations": [{"key": evil, "operator": evil, "value": evil, "effect": evil}],
        "affinity": {"nodeAffinity": required},
    }
    pod = {"metadata": {"name": evil, "namespace": evil}, "spec": spec}
    for wrapped in (pod, {"Pod": pod, "NodeNames": [evil, "kata-1"]}):
        sent = json.dumps(wrapped).encode()
        for query in ("output=text", "output=text&nodes=all"):
            status, body, _ = sample.request("POST", f"/explain?{query}", sent)
            assert status == 200
            text = body.decode()
            assert all(character.isprintable() or character == "\n" for character in text)


def test_a_pod_of_a_live_cluster_is_asked_for_when_it_is_explained(
    cluster: FakeApiServer, config: str
) -> None:
    path = "/api/v1/namespaces/ns/pods/web"
    pod = {"metadata": {"name": "web", "namespace": "ns"}, "spec": {"runtimeClassName": "kata"}}
    answers: list[dict[str, Any]] = [
        {"json": pod},
        {"json": status_document(404, "NotFound", "no such pod"), "status": 404},
        {"json": status_document(403, "Forbidden", "you may not"), "status": 403},
        {"cut": True},
    ]
    cluster.put(RUNTIME_CLASSES, runtime_class("kata", "kata", {"pool": "kata"}))
    cluster.put(NODES, node("n1", {"pool": "kata"}, handlers=["kata"]))
    cluster.scripts[path] = deque(answers)
    with ready("serve", "--kubeconfig", config) as server:
        assert get(server, "/explain?pod=ns/web")["feasible"] == 1
        assert "not found" in get(server, "/explain?pod=ns/web", 404)["error"]
        assert "you may not" in get(server, "/explain?pod=ns/web", 503)["error"]
        assert cluster.url in get(server, "/explain?pod=ns/web", 503)["error"]
        missing: Any = server.post("/explain", b'{"spec":{"runtimeClassName":"none"}}')
    assert missing["reasons"][0]["code"] == "not_found"
