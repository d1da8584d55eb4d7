"""Marks on a real control plane: only pods with a class are asked about, in both ways to mark."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
import yaml

from tests.config.chart import needs_helm, objects_of_chart
from tests.config.shipped import FOLDER
from tests.e2e.cluster import PODS, Cluster, Program
from tests.e2e.policies import MARK, applied, ask, needs_mutating_policies
from tests.e2e.test_webhook import installed
from tests.processes import Server, until

_ASKED: Final = re.compile(
    rb'^runtimeclass_extender_requests_total\{code="200",verb="(?:filter|prioritize|preempt)"\}'
    rb" ([0-9]+)",
    re.MULTILINE,
)


@pytest.fixture
def where(either: Cluster) -> Cluster:
    """Two nodes, one of which the class selects."""
    either.add_node("n1", {"sandbox": "gvisor"}, handlers=["", "runc"])
    either.add_node("n2", handlers=["", "runc"])
    either.add_class("gvisor", "runsc", {"sandbox": "gvisor"})
    return either


@pytest.fixture(params=["policy", "webhook"])
def marking(where: Cluster, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    def is_marked() -> bool:
        return ask(where, runtimeClassName="gvisor").marks == [("1", "1")]

    if request.param == "policy":
        needs_mutating_policies(where)
        with applied(where, "mark", is_marked):
            yield where
        return
    plugin = "beside" if _has_plugin(request) else "instead"
    with installed(where, tmp_path, values=("webhook.markPods=true", f"plugin={plugin}")):
        until(is_marked, 30.0)
        yield where


def _has_plugin(request: pytest.FixtureRequest) -> bool:
    parameters: dict[str, str] = request.node.callspec.params
    return parameters["either"] == "beside"


@contextmanager
def scheduling(where: Cluster, url: str, name: str, **fields: Any) -> Iterator[Program]:
    """kube-scheduler as a shipped file has it, but for where things are."""
    file = FOLDER / "control-plane" / "node" / f"kube-scheduler-{name}.yaml"
    configuration = {**yaml.safe_load(file.read_text()), **fields}
    configuration["extenders"][0]["urlPrefix"] = url
    for key in ("clientConnection", "leaderElection"):
        del configuration[key]
    with where.kube_scheduler(configuration) as program:
        yield program


def asked(server: Server) -> int:
    return sum(map(int, _ASKED.findall(server.request("GET", "/metrics")[1])))


def test_a_pod_with_a_class_is_filtered_and_explained_and_a_plain_one_makes_no_request(
    marking: Cluster, request: pytest.FixtureRequest
) -> None:
    way = "beside-plugin" if _has_plugin(request) else "instead-of-plugin"
    with (
        marking.serving("--requeue-pods") as server,
        scheduling(marking, server.url, f"{way}-marked"),
    ):
        for number in range(5):
            marking.add_pod(f"plain{number}")
        assert all(marking.bound(f"plain{number}") for number in range(5))
        assert asked(server) == 0
        marking.add_pod("web", "gvisor")
        refused = '1 nodes don\'t match RuntimeClass "gvisor" (no runtime handler "runsc")'
        until(lambda: refused in marking.message_of("web"))
        assert asked(server) > 0
        pod = marking.pod("web")
        assert pod["spec"]["containers"][0]["resources"] == {
            "requests": {MARK: "1"},
            "limits": {MARK: "1"},
        }
        assert pod["status"]["qosClass"] == "BestEffort"
        explained = orjson.loads(server.request("GET", "/explain?pod=default/web")[1])
        assert "handler" in {each["code"] for each in explained["reasons"]}
        marking.set_handlers("n1", "", "runc", "runsc")
        until(lambda: marking.node_of("web") == "n1", 30.0)


def test_a_marked_pod_waits_for_a_kube_scheduler_that_ignores_the_mark(marking: Cluster) -> None:
    """The order of steps in docs/scheduler-cost.md."""
    marking.set_handlers("n1", "runsc")
    ignoring = {"name": "NodeResourcesFit", "args": {"ignoredResources": [MARK]}}
    profiles = [{"schedulerName": "default-scheduler", "pluginConfig": [ignoring]}]
    with marking.serving("--requeue-pods") as server:
        with scheduling(marking, server.url, "beside-plugin"):
            marking.add_pod("web", "gvisor")
            until(lambda: f"Insufficient {MARK}" in marking.message_of("web"))
        with scheduling(marking, server.url, "beside-plugin", profiles=profiles):
            until(lambda: marking.node_of("web") == "n1", 30.0)
        assert asked(server) > 0


@needs_helm
def test_only_pods_of_the_second_scheduler_are_marked(where: Cluster) -> None:
    needs_mutating_policies(where)
    values = ("secondScheduler.enabled=true", "secondScheduler.marked=true")
    documents = [each for each in objects_of_chart(*values) if each["kind"].startswith("Mutating")]
    policies = yaml.safe_dump_all(documents)
    where.apply(policies)
    own: dict[str, Any] = {"runtimeClassName": "gvisor", "schedulerName": "runtimeclass-scheduler"}
    try:
        until(lambda: ask(where, **own).marks == [("1", "1")])
        assert ask(where, runtimeClassName="gvisor").marks == [(None, None)]
        assert ask(where, schedulerName="runtimeclass-scheduler").marks == [(None, None)]
    finally:
        where.kubectl("delete", "-f", "-", stdin=policies)
        until(lambda: ask(where, **own).marks == [(None, None)])
    assert where.get(PODS)["items"] == []
