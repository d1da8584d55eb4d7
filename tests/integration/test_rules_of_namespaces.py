"""explain and check --policies ask a cluster for the rules of its namespaces, if they may."""

import json
from collections import deque
from typing import Any

import pytest
import yaml

from extender.kubernetes.workloads import WORKLOADS
from tests.documented import TRANSCRIPTS
from tests.fakes.apiserver import NAMESPACES, PODS, FakeApiServer, Fault, filled
from tests.processes import ready, run

POLICIES = ("check", "--policies", "--kubeconfig")


@pytest.fixture
def cluster(cluster: FakeApiServer) -> FakeApiServer:
    """The cluster of the transcript about explain."""
    return filled(cluster, yaml.safe_load_all((TRANSCRIPTS / "team.yaml").read_text()))


def warnings(text: str | bytes) -> list[str]:
    found: list[str] = json.loads(text)["warnings"]
    return found


def test_one_namespace_is_asked_for(cluster: FakeApiServer, config: str) -> None:
    said = run("explain", "team-a/web", "--kubeconfig", config, "-o", "json").stdout
    assert "is not allowed" in str(warnings(said))
    (asked,) = [each for each in cluster.requests if each.path == NAMESPACES]
    assert asked.query["fieldSelector"] == "metadata.name=team-a"


def test_without_the_right_to_list_namespaces_the_pod_is_explained_all_the_same(
    cluster: FakeApiServer, config: str
) -> None:
    cluster.faults[NAMESPACES].append(Fault(status=403))
    result = run("explain", "team-a/web", "--kubeconfig", config, "-o", "json")
    assert (result.returncode, warnings(result.stdout)) == (0, [])
    assert "left out whether the pod's namespace allows its class" in result.stderr


@pytest.mark.parametrize("fault", [None, Fault(status=403)], ids=["allowed", "forbidden"])
def test_the_endpoint_of_a_cluster_says_the_same_where_it_may_look(
    cluster: FakeApiServer, config: str, fault: Fault | None
) -> None:
    cluster.faults[NAMESPACES].append(fault)
    with ready("serve", "--kubeconfig", config) as server:
        status, body, _ = server.request("GET", "/explain?pod=team-a/web")
    assert (status, "is not allowed" in str(warnings(body))) == (200, not fault)


def test_without_the_flag_nobody_asks_for_workloads(cluster: FakeApiServer, config: str) -> None:
    run("check", "--kubeconfig", config)
    assert not {each.path for each in cluster.requests} & {each.path for each in WORKLOADS}


@pytest.mark.parametrize("path", [NAMESPACES, *(each.path for each in WORKLOADS)])
def test_what_may_not_be_listed_ends_with_exit_code_2(
    cluster: FakeApiServer, config: str, path: str
) -> None:
    cluster.faults[path].extend([Fault(status=403)] * 3)
    result = run(*POLICIES, config)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "403" in result.stderr


def test_a_pod_that_can_not_be_read_ends_with_one_line(cluster: FakeApiServer, config: str) -> None:
    pod: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"runtimeClassName": 7}}
    listed = {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": [pod]}
    cluster.scripts[PODS] = deque([{"json": listed}])
    result = run(*POLICIES, config)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "runtimeClassName" in result.stderr
