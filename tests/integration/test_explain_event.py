"""explain: what kube-scheduler would say and what it said last, by commands and over HTTP.

A cluster is asked for no more pods than are needed.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from extender.cluster.api.config import ClusterConfig
from extender.cluster.reading_once import ClusterReader
from extender.cluster.snapshot_store import SnapshotStore
from extender.explain.attempt import Attempt, outlook_of
from extender.explain.own_checks import Question
from extender.kubernetes.explained_pods import explained_pod
from extender.kubernetes.nodes import NodeReader
from extender.rules.node_checks import Policy
from extender.rules.pools import nodes_of
from tests.fakes.apiserver import NODES, PODS, FakeApiServer, Json, node, pod
from tests.integration.test_rights import VIEWER
from tests.processes import ready, run, serving, until

ROOM: Final = {"cpu": "4", "memory": "8Gi", "pods": "10"}
CPU: Final = "0/3 nodes are available: 3 Insufficient cpu."
NO_VICTIMS: Final = "3 No preemption victims found for incoming pod."
EVENT: Final = f"{CPU} preemption: 0/3 nodes are available: {NO_VICTIMS}"


def asking(cpu: str, name: str = "web", *, message: str = "", **spec: Any) -> Json:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    return pod(name, message=message, containers=containers, **spec)


def nodes(count: int = 3) -> list[Json]:
    return [node(f"n{number:03}", allocatable=ROOM) for number in range(count)]


def filled(server: FakeApiServer, count: int, busy: int) -> None:
    """A cluster whose first nodes have room for 1 CPU."""
    for number, each in enumerate(nodes(count)):
        server.put(NODES, each)
        if number < busy:
            server.put(PODS, asking("3", f"b{number}", nodeName=each["metadata"]["name"]))


def explained(config: str, code: int) -> Any:
    result = run("explain", "default/web", "--kubeconfig", config, "-o", "json")
    assert (result.returncode, result.stderr) == (code, "")
    return json.loads(result.stdout)


def text_of(config: str) -> str:
    return " ".join(run("explain", "default/web", "--kubeconfig", config).stdout.split())


def asked_for_pods(server: FakeApiServer) -> list[str]:
    return [each.query.get("fieldSelector", "") for each in server.requests if each.path == PODS]


def test_where_a_node_has_room_no_other_one_is_asked_about(
    cluster: FakeApiServer, config: str
) -> None:
    """Two nodes are busy, and a third one has been cleared for another pod."""
    filled(cluster, 200, 2)
    nominee = asking("4", "nominee")
    nominee["status"]["nominatedNodeName"] = "n002"
    cluster.put(PODS, nominee)
    cluster.put(PODS, asking("2"))
    assert explained(config, code=0)["event"] == ""
    asked = asked_for_pods(cluster)
    assert asked[0].startswith("status.nominatedNodeName!=,spec.nodeName=,")
    assert [each.partition(",")[0] for each in asked[1:]] == [
        f"spec.nodeName=n{number:03}" for number in range(4)
    ]


@pytest.mark.parametrize(("count", "requests"), [(12, 13), (130, 10)], ids=["by name", "all"])
def test_all_pods_of_the_nodes_that_pass_are_counted(
    count: int, requests: int, cluster: FakeApiServer, config: str
) -> None:
    filled(cluster, count, count)
    cluster.put(NODES, node("tainted", taints=[{"key": "x", "effect": "NoSchedule"}]))
    cluster.put(PODS, asking("2"))
    event = explained(config, code=1)["event"]
    head = f"{count} Insufficient cpu, 1 node(s) had untolerated taint(s)."
    assert head in event or ", ".join(reversed(head.rstrip(".").split(", "))) in event
    asked = asked_for_pods(cluster)
    assert len(asked) == requests
    assert not any("tainted" in each for each in asked)


def test_pods_that_may_not_be_listed_are_not_counted_and_it_is_said(
    cluster: FakeApiServer, config: str
) -> None:
    filled(cluster, 3, 3)
    cluster.put(PODS, asking("2", message=EVENT))
    cluster.rights = VIEWER - {("", "pods", "list")}
    document = explained(config, code=1)
    assert document["event"] == ""
    assert 'cannot list resource "pods"' in document["uncounted"]
    told = text_of(config)
    assert "What runs on the nodes is not counted:" in told
    assert f"Last event: {CPU}" in told


def test_more_pods_than_are_read_are_not_counted(cluster: FakeApiServer, config: str) -> None:
    filled(cluster, 130, 130)
    store, reader = SnapshotStore(), NodeReader()
    store.replace_all([reader.read(json.dumps(each).encode()) for each in nodes(130)], [])
    asked = explained_pod(json.dumps(asking("2")).encode())
    attempt = Attempt(Question(asked, None, nodes_of(store.snapshot), Policy()))
    for most, uncounted in ((129, "more than 129 pods would have to be read"), (130, "")):
        beside = partial(ClusterReader(ClusterConfig(config)).pods_beside, most=most)
        event, not_counted = outlook_of(attempt, beside)
        assert not_counted == uncounted
        assert bool(event) is not bool(uncounted)


def test_a_service_says_the_same_of_a_cluster_and_of_manifests(
    cluster: FakeApiServer, config: str, tmp_path: Path
) -> None:
    filled(cluster, 3, 3)
    web = asking("2", message=EVENT)
    cluster.put(PODS, web)
    bound = [asking("3", f"b{n}", nodeName=f"n{n:03}") for n in range(3)]
    items = [{"kind": "Node", **each} for each in nodes()]
    items += [{"kind": "Pod", **each} for each in [*bound, web]]
    file = tmp_path / "all.json"
    file.write_text(json.dumps({"kind": "List", "items": items}))
    said = run("explain", "default/web", f"--manifests={file}", "-o", "json")
    assert json.loads(said.stdout)["event"] == EVENT
    body = json.dumps(web).encode()
    with ready("serve", "--kubeconfig", config) as live, serving(file) as local:
        for server in (live, local):
            for answer in (
                server.request("GET", "/explain?pod=default/web"),
                server.request("POST", "/explain", body),
            ):
                document = json.loads(answer[1])
                assert (document["event"], document["lastEvent"]) == (EVENT, EVENT)
            text = server.request("GET", "/explain?pod=default/web&output=text")[1].decode()
            assert "Event: 0/3 nodes are available: 3 Insufficient cpu." in text
        cluster.put(NODES, node("n000", allocatable={**ROOM, "cpu": "8"}))
        until(lambda: json.loads(live.request("POST", "/explain", body)[1])["event"] == "")
