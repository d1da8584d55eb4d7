"""explain, check -f: by the control plane's version nodes must declare features, or need not."""

import json
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from tests.cases_file import cases
from tests.fakes.apiserver import NODES, FakeApiServer, node, pod
from tests.processes import ready, run

UNDECLARED = "0/1 nodes are available: 1 node(s) didn't match Pod's required features."

#: hostNetwork with hostUsers: false needs UserNamespacesHostNetworkSupport.
NEEDY = pod("web", hostNetwork=True, hostUsers=False)


@pytest.fixture
def cluster(cluster: FakeApiServer) -> FakeApiServer:
    handler = {"name": "", "features": {"userNamespaces": True}}
    cluster.put(NODES, node("n", runtimeHandlers=[handler]))
    cluster.scripts["/api/v1/namespaces/default/pods/web"] = deque([{"json": NEEDY}] * 9)
    return cluster


def tells(cluster: FakeApiServer, *answers: Any) -> None:
    cluster.scripts["/version"] = deque(answers)


def explained(*flags: str) -> tuple[int, str]:
    result = run("explain", "default/web", "-o", "json", *flags)
    assert result.stderr == ""
    return result.returncode, json.loads(result.stdout)["summary"]


@cases
def test_the_api_server_is_asked_for_its_version(
    answer: Any, fits: bool, cluster: FakeApiServer, config: str
) -> None:
    tells(cluster, answer, answer)
    code, summary = explained("--kubeconfig", config)
    assert (code, summary) == ((0, "1/1 nodes are available.") if fits else (1, UNDECLARED))


def test_the_flag_counts_more_than_the_api_server(cluster: FakeApiServer, config: str) -> None:
    tells(cluster, {"json": {"gitVersion": "v1.35.1"}})
    assert explained("--kubeconfig", config, "--kubernetes-version=1.37") == (1, UNDECLARED)
    assert "/version" not in [each.path for each in cluster.requests]


def test_a_pod_that_needs_no_such_feature_costs_no_question(
    cluster: FakeApiServer, config: str
) -> None:
    cluster.scripts["/api/v1/namespaces/default/pods/web"] = deque([{"json": pod("web")}])
    assert explained("--kubeconfig", config)[0] == 0
    assert "/version" not in [each.path for each in cluster.requests]


def test_the_endpoint_says_the_same(cluster: FakeApiServer, config: str) -> None:
    tells(cluster, *({"json": {"gitVersion": "v1.37.0"}} for _ in range(2)))
    with ready("serve", "--kubeconfig", config) as server:
        by_name = server.request("GET", "/explain?pod=default/web")[1]
        by_body = server.request("POST", "/explain", json.dumps({"Pod": NEEDY}).encode())[1]
    assert json.loads(by_name)["summary"] == json.loads(by_body)["summary"] == UNDECLARED


@pytest.mark.parametrize(
    ("told", "flags", "code"),
    [("v1.35.9", [], 0), ("v1.37.1", [], 1), ("v1.36.0", ["--kubernetes-version=v1.35.9"], 0)],
)
def test_a_file_is_checked_by_the_version_too(
    told: str, flags: list[str], code: int, cluster: FakeApiServer, config: str, tmp_path: Path
) -> None:
    tells(cluster, {"json": {"gitVersion": told}})
    file = tmp_path / "pod.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **NEEDY}))
    result = run("check", "-f", str(file), "--kubeconfig", config, "-ojson", *flags)
    assert result.returncode == code, result.stderr
    assert ("/version" in [each.path for each in cluster.requests]) is not bool(flags)
    checks = [each["code"] for each in json.loads(result.stdout)["findings"]]
    assert checks == ["feature"] * code
