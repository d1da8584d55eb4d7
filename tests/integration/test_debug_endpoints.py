"""The endpoints that people ask, over a socket."""

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fakes.apiserver import (
    NODES,
    RUNTIME_CLASSES,
    FakeApiServer,
    kubeconfig,
    node,
    runtime_class,
    status_document,
)
from tests.processes import SAMPLES, Server, running, serving, until

REQUESTS: Final = SAMPLES / "requests"
NAMES: Final = sorted(
    path.stem for path in REQUESTS.glob("*.json") if "NodeNames" in json.loads(path.read_text())
)


@pytest.fixture(scope="module")
def sample() -> Iterator[Server]:
    with serving(SAMPLES / "cluster", SAMPLES / "pods") as server:
        yield server


def get(server: Server, path: str, status: int = 200) -> Any:
    got, body, headers = server.request("GET", path)
    assert got == status, body
    assert headers["Content-Type"] == "application/json"
    return json.loads(body)


def test_a_pod_of_the_manifests_is_explained(sample: Server) -> None:
    answer = get(sample, "/explain?pod=default/kata")
    assert list(answer) == [
        "pod",
        "runtimeClass",
        "feasible",
        "total",
        "summary",
        "reasons",
        "leftOut",
        "requirements",
        "warnings",
    ]
    assert (answer["pod"], answer["runtimeClass"]) == ("default/kata", "kata")
    assert (answer["feasible"], answer["total"]) == (0, 13)
    assert answer["reasons"][1] == {
        "reason": "node(s) had untolerated taint(s)",
        "code": "pod_taint",
        "origin": "Pod",
        "count": 2,
        "nodes": ["kata-1", "kata-2"],
        "leftOut": 0,
    }


def test_an_explanation_says_how_many_nodes_it_does_not_name(sample: Server) -> None:
    answer = get(sample, "/explain?pod=default/kata")
    assert [each["leftOut"] for each in answer["reasons"]] == [3, 0, 0, 0]
    assert answer["leftOut"] == 3
    for each in answer["reasons"]:
        assert each["count"] == len(each["nodes"]) + each["leftOut"]


def test_a_posted_pod_is_explained_as_the_same_pod_of_the_cluster(sample: Server) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "kata", "namespace": "default"},
        "spec": {"runtimeClassName": "kata"},
    }
    posted = sample.post("/explain", json.dumps(pod).encode())
    assert posted == get(sample, "/explain?pod=default/kata")
    assert sample.post("/explain", json.dumps({"Pod": pod}).encode()) == posted


@pytest.mark.parametrize("name", NAMES)
def test_extender_args_are_explained_as_the_filter_answers_them(sample: Server, name: str) -> None:
    body = (REQUESTS / f"{name}.json").read_bytes()
    filtered: Any = sample.post("/filter", body)
    explained: Any = sample.post("/explain?nodes=all", body)
    asked = json.loads(body)["NodeNames"]
    assert sorted(explained["nodes"]) == sorted(set(asked))
    for name_of_node, reason in filtered["FailedAndUnresolvableNodes"].items():
        assert explained["nodes"][name_of_node] == reason
    ours = [each for each in explained["reasons"] if "RuntimeClass" in each["reason"]]
    failed = filtered["FailedAndUnresolvableNodes"].values()
    assert sum(each["count"] for each in ours) >= sum("RuntimeClass" in each for each in failed)


def test_extender_args_with_nodes_are_judged_by_the_objects(sample: Server) -> None:
    node = {"metadata": {"name": "new", "labels": {"sandbox.example.com/gvisor": "true"}}}
    body = {"Pod": {"spec": {"runtimeClassName": "gvisor"}}, "Nodes": {"items": [node]}}
    answer: Any = sample.post("/explain?nodes=all", json.dumps(body).encode())
    assert (answer["feasible"], answer["total"]) == (1, 1)
    assert answer["nodes"] == {"new": ""}


def test_scores_are_those_of_prioritize(sample: Server) -> None:
    body = (REQUESTS / "selector-and-taint.json").read_bytes()
    explained: Any = sample.post("/explain?nodes=all", body)
    scored: Any = sample.post("/prioritize", body)
    full = {name: each["score"] for name, each in explained["scores"].items()}
    lowest = min(full.values())
    above = {name: score - lowest for name, score in full.items() if score > lowest}
    assert {each["Host"]: each["Score"] for each in scored} == above
    status, table, _ = sample.request("POST", "/prioritize?output=text", body)
    assert status == 200
    rows = [line.split() for line in table.decode().splitlines()[1:]]
    assert {row[0]: int(row[2]) for row in rows} == full
    assert explained["scores"]["kata-1"] == {"cost": 1, "score": 5, "serves": ["kata"]}


def test_every_runtime_class_is_listed(sample: Server) -> None:
    items = get(sample, "/runtimeclasses")["items"]
    assert [each["name"] for each in items] == ["gvisor", "kata", "runc", "wasm", "windows-2022"]
    kata = items[1]
    assert kata.pop("warnings")
    assert kata == {
        "name": "kata",
        "handler": "kata-qemu",
        "nodeSelector": {
            "katacontainers.io/kata-runtime": "true",
            "kubernetes.io/os": "linux",
        },
        "tolerations": [
            {"key": "dedicated", "operator": "Equal", "value": "kata", "effect": "NoSchedule"}
        ],
        "overhead": {"cpu": "250m", "memory": "160Mi"},
        "matchingNodes": 2,
        "notMatchingNodes": 11,
    }
    assert items[2]["warnings"] == []


def test_the_nodes_of_a_class_are_cut_by_the_limit(sample: Server) -> None:
    whole = get(sample, "/runtimeclasses/kata/nodes")
    assert whole["matching"] == ["kata-1", "kata-2"]
    assert [each["count"] for each in whole["notMatching"]] == [8, 2, 1]
    assert whole["leftOut"] == 0
    cut = get(sample, "/runtimeclasses/kata/nodes?limit=1")
    assert cut["matching"] == ["kata-1"]
    assert [each["nodes"] for each in cut["notMatching"]] == [
        ["general-1"],
        ["windows-1"],
        ["kata-3"],
    ]
    assert cut["leftOut"] == 1 + 7 + 1
    assert get(sample, "/runtimeclasses/kata/nodes?limit=0")["leftOut"] == 13


def test_one_class_is_told_as_in_the_list(sample: Server) -> None:
    listed = get(sample, "/runtimeclasses")["items"]
    assert [get(sample, f"/runtimeclasses/{each['name']}") for each in listed] == listed
    status, body, _ = sample.request("GET", "/runtimeclasses/kata?output=text")
    assert status == 200
    for said in (b"kata-qemu", b"dedicated=kata:NoSchedule", b"memory=160Mi", b"kata-3"):
        assert said in body


def test_every_node_is_listed_with_the_classes_it_supports(sample: Server) -> None:
    answer = get(sample, "/nodes")
    assert answer["leftOut"] == 0
    assert [each["node"] for each in answer["items"]] == sorted(
        each["node"] for each in answer["items"]
    )
    assert len(answer["items"]) == 13
    for each in answer["items"]:
        single = get(sample, f"/nodes/{each['node']}")
        del single["notSupported"]
        assert each == single
    cut = get(sample, "/nodes?limit=2")
    assert cut == {"items": answer["items"][:2], "leftOut": 11}
    status, body, _ = sample.request("GET", "/nodes?limit=12&output=text")
    assert status == 200
    assert [line for line in body.split(b"\n") if line.startswith(b"gvisor-3 ")] == [
        b"gvisor-3    gvisor, runc   unschedulable"
    ]
    assert body.endswith(b"\nleft out: 1 (?limit= lists more)\n")


def test_the_classes_of_a_node(sample: Server) -> None:
    answer = get(sample, "/nodes/kata-3")
    assert answer["handlers"] == ["", "runc"]
    assert answer["supported"] == []
    assert answer["notSupported"][1] == {
        "runtimeClass": "kata",
        "reason": 'nodes don\'t match RuntimeClass "kata" (no runtime handler "kata-qemu")',
        "code": "handler",
    }
    assert get(sample, "/nodes/gvisor-3")["state"] == ["unschedulable"]


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        pytest.param("/explain", 400, "NAMESPACE/NAME", id="no pod named"),
        pytest.param("/explain?pod=web", 400, "NAMESPACE/NAME", id="no namespace"),
        pytest.param("/explain?pod=a/b/c", 400, "NAMESPACE/NAME", id="a slash too many"),
        pytest.param("/explain?pod=default/none", 404, "default/none", id="no such pod"),
        pytest.param("/explain?pod=default/kata&nodes=some", 400, "nodes", id="nodes"),
        pytest.param("/explain?pod=default/kata&output=yaml", 400, "output", id="output"),
        pytest.param("/runtimeclasses?output=wide", 400, "output", id="output of a list"),
        pytest.param("/explain?pod=a/b&node=all", 400, "'node'; there are", id="parameter"),
        pytest.param("/runtimeclasses?limit=1", 400, "'limit'", id="parameter of another"),
        pytest.param("/runtimeclasses/kata/nodes?a%0Ab=", 400, "'a?b'", id="hostile parameter"),
        pytest.param("/nodes/kata-1?outptu=text", 400, "'outptu'", id="parameter of a node"),
        pytest.param("/runtimeclasses/none/nodes", 404, "none", id="no such class"),
        pytest.param("/runtimeclasses/kata/nodes?limit=-1", 400, "limit", id="negative limit"),
        pytest.param("/runtimeclasses/kata/nodes?limit=x", 400, "limit", id="limit of words"),
        pytest.param("/runtimeclasses/kata/nodes?limit=%D9%A3", 400, "limit", id="Arabic limit"),
        pytest.param("/nodes/none", 404, "none", id="no such node"),
        pytest.param("/nodes/%ED%A0%80", 404, "not found", id="no UTF-8"),
        pytest.param("/explain?pod=default/kat", 404, 'mean "default/kata"', id="pod misspelt"),
        pytest.param("/explain?pod=defualt/kata", 404, '"default/kata"', id="namespace misspelt"),
        pytest.param("/runtimeclasses/kta", 404, 'mean "kata"?', id="class misspelt"),
        pytest.param("/runtimeclasses/gVisor/nodes", 404, '"gvisor"', id="class in capitals"),
        pytest.param("/nodes/kata1", 404, '"kata-1"', id="node misspelt"),
        pytest.param("/nodes?limit=all", 400, "limit", id="limit of the list of nodes"),
        pytest.param("/nodes?nodes=all", 400, "nodes", id="parameter of another endpoint"),
        pytest.param("/nodes/", 404, "no such path", id="a slash too many behind nodes"),
    ],
)
def test_what_is_asked_wrongly_is_told_in_one_line(
    sample: Server, path: str, status: int, said: str
) -> None:
    answer = get(sample, path, status)
    assert list(answer) == ["error"]
    assert said in answer["error"]
    assert answer["error"].isprintable()


@pytest.mark.parametrize(
    ("body", "place"),
    [
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(b"[]", "expected `object`", id="a list"),
        pytest.param(b"{}", "expected a Pod", id="nothing"),
        pytest.param(b'{"kind":"Node","metadata":{}}', "expected a Pod", id="a Node"),
        pytest.param(b'{"kind":1,"metadata":{}}', "kind", id="kind is a number"),
        pytest.param(b'{"Pod":null}', "Pod: missing", id="Pod null"),
        pytest.param(b'{"spec":{"affinity":[]}}', "Pod.spec.affinity", id="affinity is a list"),
        pytest.param(b'{"spec":{"overhead":1}}', "Pod.spec.overhead", id="overhead is a number"),
        pytest.param(b'{"Pod":{},"NodeNames":[1]}', "NodeNames", id="a number as name"),
        pytest.param(b'{"metadata":{"name":"\\ud800"},"spec":{}}', "not JSON", id="half a pair"),
    ],
)
def test_a_body_that_cannot_be_read_is_a_400(sample: Server, body: bytes, place: str) -> None:
    status, answer, _ = sample.request("POST", "/explain", body)
    assert status == 400
    assert place in json.loads(answer)["error"]


@pytest.mark.parametrize(
    "path",
    [
        "/explain?pod=default/kata",
        "/explain?pod=default/plain&nodes=all",
        "/runtimeclasses?",
        "/runtimeclasses/kata/nodes?limit=1",
        "/nodes/kata-1?",
        "/nodes?limit=9",
        "/runtimeclasses/kata?",
    ],
)
def test_text_is_a_table_of_no_more_than_100_columns(sample: Server, path: str) -> None:
    status, body, headers = sample.request("GET", f"{path}&output=text")
    assert status == 200
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    lines = body.decode().splitlines()
    assert len(lines) > 2
    assert all(len(line) <= 100 for line in lines)
    assert b"\x1b" not in body


def test_control_characters_of_a_pod_do_not_reach_a_terminal(sample: Server) -> None:
    evil = "\u001b[2J\u001b]0;owned\u0007\r\n\u202e"
    pod = {
        "metadata": {"name": evil, "namespace": evil},
        "spec": {
            "runtimeClassName": evil,
            "nodeSelector": {evil: evil},
            "tolerations": [{"key": evil, "operator": evil, "value": evil, "effect": evil}],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": evil, "operator": evil, "values": [evil]}
                                ]
                            }
                        ]
                    }
                }
            },
        },
    }
    for wrapped in (pod, {"Pod": pod, "NodeNames": [evil, "kata-1"]}):
        for query in ("output=text", "output=text&nodes=all"):
            status, body, _ = sample.request(
                "POST", f"/explain?{query}", json.dumps(wrapped).encode()
            )
            assert status == 200
            text = body.decode()
            assert all(character.isprintable() or character == "\n" for character in text)


def test_a_pod_of_many_requirements_is_answered_in_time(sample: Server) -> None:
    """What its author may write in 1.5 MB costs a person's patience, not the scheduler's."""
    pod = {
        "spec": {
            "runtimeClassName": "kata",
            "nodeSelector": {f"k{index}": "v" for index in range(20_000)},
            "tolerations": [{"key": f"k{index}", "operator": "Exists"} for index in range(20_000)],
        }
    }
    answer: Any = sample.post("/explain", json.dumps(pod).encode())
    assert len(answer["requirements"]) > 40_000


def test_a_pod_of_a_live_cluster_is_asked_for_when_it_is_explained(tmp_path: Path) -> None:
    path = "/api/v1/namespaces/ns/pods/web"
    pod = {"metadata": {"name": "web", "namespace": "ns"}, "spec": {"runtimeClassName": "kata"}}
    answers: list[dict[str, Any]] = [
        {"json": pod},
        {"json": status_document(404, "NotFound", "no such pod"), "status": 404},
        {"json": status_document(403, "Forbidden", "you may not"), "status": 403},
        {"cut": True},
    ]
    with FakeApiServer() as cluster:
        cluster.put(RUNTIME_CLASSES, runtime_class("kata", "kata", {"pool": "kata"}))
        cluster.put(NODES, node("n1", {"pool": "kata"}, handlers=["kata"]))
        cluster.scripts[path] = deque(answers)
        (tmp_path / "kubeconfig").write_text(kubeconfig(cluster.url))
        config = ("--kubeconfig", str(tmp_path / "kubeconfig"))
        with running("serve", "--bind", "127.0.0.1:0", *config) as server:
            until(lambda: server.request("GET", "/readyz")[0] == 200)
            assert get(server, "/explain?pod=ns/web")["feasible"] == 1
            assert "not found" in get(server, "/explain?pod=ns/web", 404)["error"]
            assert "you may not" in get(server, "/explain?pod=ns/web", 503)["error"]
            assert cluster.url in get(server, "/explain?pod=ns/web", 503)["error"]
            missing = server.post("/explain", b'{"spec":{"runtimeClassName":"none"}}')
    assert isinstance(missing, dict)
    assert missing["reasons"][0]["code"] == "not_found"
