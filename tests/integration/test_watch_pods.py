"""serve --watch-pods, and pages of pods and nodes, of a cluster and of manifests."""

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pytest
import yaml

from tests.fakes.apiserver import NODES, PODS, RUNTIME_CLASSES, FakeApiServer, Right, filled, node
from tests.integration.test_rights import SERVICE
from tests.integration.test_usage_commands import CLUSTER, OBJECTS
from tests.processes import ROOT, Server, ready, run, serving, until

#: The gauges of tests/usage/cluster.yaml.
EXPECTED: Final = {
    'pods{runtimeclass="<unknown>",state="stranded"}': 1.0,
    'pods{runtimeclass="kata",state="drifted"}': 2.0,
    'pods{runtimeclass="kata",state="pending"}': 1.0,
    'pending_pods{runtimeclass="kata",why="other"}': 1.0,
    'pods{runtimeclass="kata",state="running"}': 1.0,
    'pods{runtimeclass="kata",state="stranded"}': 1.0,
    'overhead{resource="cpu",runtimeclass="kata"}': 1.0,
    'overhead{resource="memory",runtimeclass="kata"}': 600.0 * 2**20,
}

_SAMPLE: Final = re.compile(
    r"^runtimeclass_extender_((?:pods|pending_pods|overhead)\{.*\}) (\S+)$", re.MULTILINE
)


@pytest.fixture
def cluster(cluster: FakeApiServer) -> FakeApiServer:
    return filled(cluster, OBJECTS)


def gauges(server: Server) -> dict[str, float]:
    text = server.request("GET", "/metrics")[1].decode()
    samples = ((_sorted(name), float(value)) for name, value in _SAMPLE.findall(text))
    return {name: value for name, value in samples if value}


def _sorted(name: str) -> str:
    metric, _, labels = name.rstrip("}").partition("{")
    return f"{metric}{{{','.join(sorted(labels.split(',')))}}}"


def test_manifests_are_counted_as_a_cluster_is(cluster: FakeApiServer, config: str) -> None:
    expected = {_sorted(name): value for name, value in EXPECTED.items()}
    with serving(CLUSTER, flags=("--watch-pods",)) as server:
        assert gauges(server) == expected
    with serving(CLUSTER) as server:
        assert gauges(server) == {}
    with ready("serve", "--kubeconfig", config, "--watch-pods") as server:
        until(lambda: gauges(server) == expected)
        assert b"default/waits" in server.request("GET", "/explain?pod=default/wait")[1]
        cluster.delete(PODS, "orphan")
        cluster.put(NODES, {"metadata": {"name": "n7", "labels": {}}})
        stranded = _sorted('pods{runtimeclass="kata",state="stranded"}')
        until(lambda: gauges(server).get(stranded) == 2.0)
        # Pods and Nodes are watched side by side: either event may come first.
        unknown = _sorted('pods{runtimeclass="<unknown>",state="stranded"}')
        until(lambda: unknown not in gauges(server))
        assert "pod-watch" in server.request("GET", "/readyz?verbose")[1].decode()


#: Room for two more pods of kata, and no node for wasm.
POOLS: Final = ROOT / "tests" / "transcripts" / "pools.yaml"


def headroom(server: Server) -> dict[str, float]:
    text = server.request("GET", "/metrics")[1].decode()
    found = re.findall(
        r'^runtimeclass_extender_headroom_pods\{.*="(.+)"\} (.+)$', text, re.MULTILINE
    )
    return {name: float(value) for name, value in found}


def test_the_gauge_of_headroom_is_what_the_command_tells(
    cluster: FakeApiServer, config: str
) -> None:
    with serving(POOLS, flags=("--watch-pods",)) as server:
        assert headroom(server) == {"kata": 2.0, "wasm": 0.0}
    with serving(POOLS) as server:
        assert headroom(server) == {}
    objects = yaml.safe_load_all(POOLS.read_text())
    filled(cluster, [each for each in objects if each["kind"] in ("Node", "Pod", "RuntimeClass")])
    with ready("serve", "--kubeconfig", config, "--watch-pods") as server:
        until(lambda: headroom(server) == told(config))
        idle = told(config)
        assert idle["kata"] == 2.0
        requests = {"tdx.intel.com/keys": "2"}
        spec = {"nodeName": "n1", "containers": [{"resources": {"requests": requests}}]}
        cluster.put(PODS, {"metadata": {"name": "other", "namespace": "d"}, "spec": spec})
        until(lambda: headroom(server)["kata"] == 0.0)
        assert headroom(server) == told(config)
        cluster.delete(PODS, "other")
        until(lambda: headroom(server) == idle)


def told(config: str) -> dict[str, float]:
    """class → the headroom that `classes --headroom` prints."""
    answer = json.loads(run("classes", "--headroom", "-o", "json", "--kubeconfig", config).stdout)
    return {each["name"]: each["headroom"]["fits"] for each in answer["items"]}


def page_of(server: Server, path: str = "/") -> str:
    with closing(server.connect()) as connection:
        connection.request("GET", path, headers={"Accept": "text/html"})
        return connection.getresponse().read().decode()


def waiting(server: Server) -> list[str]:
    """The pods that the page lists as waiting."""
    section = page_of(server).partition('<section id="waiting"')[2].partition("</section>")[0]
    return [unquote(each) for each in re.findall(r'href="/explain\?pod=([^"]+)"', section)]


#: A pod that has ended without a node: its deletion began before it had one.
FAILED: Final = """\
apiVersion: v1
kind: Pod
metadata: {name: failed, namespace: default}
spec: {runtimeClassName: kata}
status: {phase: Failed}
"""


def test_the_page_lists_the_pods_that_wait_where_they_are_known(
    config: str, tmp_path: Path
) -> None:
    (tmp_path / "failed.yaml").write_text(FAILED)
    with serving(CLUSTER, tmp_path / "failed.yaml") as server:
        assert waiting(server) == ["default/waits"]
        assert server.request("GET", "/explain?pod=default/waits")[0] == 200
    with ready("serve", "--kubeconfig", config, "--watch-pods") as server:
        until(lambda: waiting(server) == ["default/waits"])
    with ready("serve", "--kubeconfig", config) as server:
        assert waiting(server) == []
        assert "serve --watch-pods" in page_of(server)


def test_the_page_of_a_node_tells_what_the_cluster_and_what_manifests_have(
    cluster: FakeApiServer, config: str, tmp_path: Path
) -> None:
    info = {"kubeletVersion": "v1.36.2", "containerRuntimeVersion": "containerd://2.1.4"}
    soft = {"key": "soft", "effect": "PreferNoSchedule"}
    known = node("n1", {"k": "v"}, taints=[soft], nodeInfo=info)
    (tmp_path / "nodes.json").write_text(json.dumps({"kind": "Node", **known}))
    cluster.put(NODES, known)
    for flag, file in (("--kubeconfig", config), ("--manifests", str(tmp_path / "nodes.json"))):
        with ready("serve", flag, file) as server:
            text, overview = page_of(server, "/nodes/n1"), page_of(server)
        for told in (*info.values(), "soft:PreferNoSchedule", "k=v"):
            assert f">{told}<" in text, (flag, told)
        assert (cluster.url if file is config else "manifests in nodes.json") in overview
        assert "read just now" in overview


def test_without_the_right_readiness_names_it_and_the_rest_works(
    cluster: FakeApiServer, config: str
) -> None:
    needed: set[Right] = {("", "pods", "list"), ("", "pods", "watch")}
    cluster.rights = SERVICE - needed
    with ready("serve", "--kubeconfig", config, "--watch-pods") as server:
        until(lambda: b'resource "pods"' in server.request("GET", "/readyz?verbose")[1])
        cluster.delete(RUNTIME_CLASSES, "kata-v2")
        until(lambda: b"kata-v2" not in server.request("GET", "/runtimeclasses")[1])
        assert gauges(server) == {}
        cluster.rights |= needed
        until(lambda: bool(gauges(server)), 40.0)
