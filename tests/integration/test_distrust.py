"""`serve --distrust` as a process: what it makes of pods that a real kubelet could not start."""

import json
import re
from typing import Any, Final

import pytest

from tests.fakes.apiserver import NODES, PODS, RUNTIME_CLASSES, FakeApiServer, Json, node, real_node
from tests.integration.test_rights import EVENTS, SERVICE
from tests.integration.test_watch_pods import page_of
from tests.processes import Server, ready, run, until
from tests.vectors_file import RECORDED

BROKEN: Final = {"broken", "noshim", "nosuch"}
OTHERS: Final = ("n2", "n3", "n4", "n5")


def recorded(file: str) -> list[Json]:
    found: list[Json] = json.loads((RECORDED / "real-node" / file).read_bytes())["items"]
    return found


@pytest.fixture
def cluster(cluster: FakeApiServer) -> FakeApiServer:
    """The recorded node with its pods, and four others with the same handlers."""
    classes = recorded("runtimeclasses.json")
    handlers = [each["handler"] for each in classes]
    of_node = {"runtimeHandlers": [{"name": each} for each in handlers]}
    here = real_node()
    cluster.put(NODES, {**here, "status": {**here["status"], **of_node}})
    for name in OTHERS:
        cluster.put(NODES, node(name, here["metadata"]["labels"], handlers=handlers))
    for each in classes:
        cluster.put(RUNTIME_CLASSES, each)
    for each in recorded("pods.json"):
        cluster.put(PODS, each)
    return cluster


def asked(server: Server, verb: str, runtime_class: str, *, whole: bool = False) -> Any:
    names = ["node1", *OTHERS]
    pod = {"metadata": {"name": "p"}, "spec": {"runtimeClassName": runtime_class}}
    nodes = {"items": [node(name, handlers=[runtime_class]) for name in names]} if whole else None
    body = {"Pod": pod, "Nodes": nodes, "NodeNames": None if whole else names}
    return server.post(verb, json.dumps(body).encode())


def suspect_classes(server: Server) -> set[str]:
    text = server.request("GET", "/metrics")[1].decode()
    return set(re.findall(r'_suspect_nodes\{runtimeclass="(\w+)"\} 1\.0', text))


def starts(cluster: FakeApiServer, name: str) -> None:
    pod, ran = cluster.objects(PODS)[name], cluster.objects(PODS)["runc-1"]
    cluster.put(PODS, {**pod, "status": ran["status"]})


def test_the_handlers_that_did_not_work_on_the_recorded_node_are_refused_until_one_does(
    cluster: FakeApiServer, config: str
) -> None:
    cluster.rights = SERVICE
    with ready("serve", "--kubeconfig", config, "--distrust", "refuse") as server:
        until(lambda: suspect_classes(server) == BROKEN)
        for name in BROKEN:
            text = (
                f'nodes don\'t match RuntimeClass "{name}" (runtime handler "{name}" failed to'
                " start 2 pods)"
            )
            for whole in (False, True):
                answer = asked(server, "/filter", name, whole=whole)
                assert answer["FailedAndUnresolvableNodes"] == {"node1": text}
        for name in ("runc", "crun"):
            assert len(asked(server, "/filter", name)["NodeNames"]) == 1 + len(OTHERS)
        cluster.wait_for(lambda: len(cluster.written) == len(BROKEN))
        event = next(each for each in cluster.written.values() if '"noshim"' in each["message"])
        assert event["reason"] == "RuntimeHandlerSuspect"
        assert event["involvedObject"]["name"] == "node1"
        assert event["type"] == "Warning"
        told = 'runtime handler "noshim" failed to start 2 pods'
        for path in ("/nodes/node1", "/runtimeclasses/noshim/nodes"):
            state = json.loads(server.request("GET", path)[1])["state"]
            assert told in (state if isinstance(state, list) else state["node1"])
        assert "fails to start pods" in server.request("GET", "/runtimeclasses/noshim")[1].decode()
        assert "fails to start pods" in page_of(server)
        for words, said in ((["nodes", "noshim"], told), (["classes"], "fails to start pods")):
            assert said in " ".join(run(*words, "--server", server.url).stdout.split())
        explained = asked(server, "/explain", "noshim")
        assert [each["code"] for each in explained["reasons"]] == ["suspect"]
        # What drives nobody away: the pods of that handler are starting there, and not stranded.
        starts(cluster, "noshim-1")
        until(lambda: len(asked(server, "/filter", "noshim")["NodeNames"]) == 1 + len(OTHERS))
        cluster.wait_for(lambda: len(cluster.written) == len(BROKEN) + 1)
        assert suspect_classes(server) == BROKEN - {"noshim"}
    one: dict[str, dict[str, object]] = {"extender.cluster.distrust": {"MAX_EVENTS": 1}}
    with ready("serve", "--kubeconfig", config, "--distrust", "refuse", constants=one) as server:
        until(lambda: suspect_classes(server) == BROKEN - {"noshim"})
        server.wait_for_line("2 runtime handlers changed; the first 1:")
        # A start says the same of the same occasion.
        assert len(cluster.written) == len(BROKEN) + 1


def test_by_default_they_score_lowest_and_a_missing_right_is_one_line(
    cluster: FakeApiServer, config: str
) -> None:
    cluster.rights = SERVICE - {EVENTS}
    flags = ("--kubeconfig", config, "--watch-pods")
    with ready("serve", *flags) as server:
        until(lambda: suspect_classes(server) == BROKEN)
        for whole in (False, True):
            scores = asked(server, "/prioritize", "broken", whole=whole)
            assert scores == [{"Host": name, "Score": 10} for name in OTHERS]
        assert asked(server, "/prioritize", "runc") == []
        assert len(asked(server, "/filter", "broken")["NodeNames"]) == 1 + len(OTHERS)
        (warning,) = asked(server, "/explain", "broken")["warnings"]
        assert warning.startswith("on 1 node where it fits, runtime handler")
        assert (
            b'runtimeclass_extender_pods{runtimeclass="runc"'
            in server.request("GET", "/metrics")[1]
        )
        assert cluster.written == {}
    with ready("serve", *flags, "--distrust", "off") as server:
        assert asked(server, "/prioritize", "broken") == []
        assert suspect_classes(server) == set()
