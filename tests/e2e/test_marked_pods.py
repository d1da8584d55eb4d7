"""Marks on a real control plane: only pods with a class are asked about, in both ways to mark."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
import yaml

from tests.config.kustomize import prepare
from tests.config.shipped import FOLDER
from tests.e2e.cluster import PODS, Cluster, Program
from tests.e2e.policies import MARK, applied, ask, needs_mutating_policies
from tests.e2e.test_webhook import start_webhook, unregister
from tests.fakes.apiserver import NODES
from tests.processes import Server, running, until

_ASKED: Final = re.compile(
    rb'^runtimeclass_extender_requests_total\{code="200",verb="(?:filter|prioritize|preempt)"\}'
    rb" ([0-9]+)",
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("prepared"))


@pytest.fixture(params=["beside", "instead"])
def where(request: pytest.FixtureRequest) -> Cluster:
    """With the in-tree plugin, and without it; two nodes, one of which the class selects."""
    found: Cluster = request.getfixturevalue(request.param)
    found.add_node("n1", {"sandbox": "gvisor"}, handlers=["", "runc"])
    found.add_node("n2", handlers=["", "runc"])
    found.add_class("gvisor", "runsc", {"sandbox": "gvisor"})
    return found


@pytest.fixture(params=["policy", "webhook"])
def marking(
    where: Cluster, request: pytest.FixtureRequest, prepared: Path, tmp_path: Path
) -> Iterator[Cluster]:
    def is_marked() -> bool:
        return ask(where, runtimeClassName="gvisor").marks == [("1", "1")]

    if request.param == "policy":
        needs_mutating_policies(where)
        with applied(where, "mark", is_marked):
            yield where
        return
    folder = "openssl-marked" if _has_plugin(request) else "openssl-instead-of-plugin-marked"
    with ExitStack() as stack:
        webhook = start_webhook(stack, where, prepared / "webhook" / folder, tmp_path)
        stack.callback(unregister, where)
        webhook.register(where)
        until(is_marked, 30.0)
        yield where


def _has_plugin(request: pytest.FixtureRequest) -> bool:
    parameters: dict[str, str] = request.node.callspec.params
    return parameters["where"] == "beside"


@contextmanager
def serving(where: Cluster) -> Iterator[Server]:
    flags = ("--bind", "127.0.0.1:0", "--kubeconfig", str(where.kubeconfig("extender")))
    with running("serve", *flags, "--requeue-pods") as server:
        until(lambda: server.request("GET", "/readyz")[0] == 200)
        yield server


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
    with serving(marking) as server, scheduling(marking, server.url, f"{way}-marked"):
        for number in range(5):
            marking.add_pod(f"plain{number}")
        until(lambda: all(marking.node_of(f"plain{number}") for number in range(5)))
        assert asked(server) == 0
        marking.add_pod("web", "gvisor")
        until(lambda: "no runtime handler" in marking.message_of("web"))
        message = marking.message_of("web")
        print(message)
        assert '1 nodes don\'t match RuntimeClass "gvisor" (no runtime handler "runsc")' in message
        assert asked(server) > 0
        pod = marking.pod("web")
        assert pod["spec"]["containers"][0]["resources"] == {
            "requests": {MARK: "1"},
            "limits": {MARK: "1"},
        }
        assert pod["status"]["qosClass"] == "BestEffort"
        explained = orjson.loads(server.request("GET", "/explain?pod=default/web")[1])
        assert "handler" in {each["code"] for each in explained["reasons"]}
        handlers = [{"name": ""}, {"name": "runc"}, {"name": "runsc"}]
        marking.patch(f"{NODES}/n1/status", {"status": {"runtimeHandlers": handlers}})
        until(lambda: marking.node_of("web") == "n1", 30.0)


def test_a_marked_pod_waits_for_a_kube_scheduler_that_ignores_the_mark(marking: Cluster) -> None:
    """The order of steps in docs/scheduler-cost.md."""
    marking.patch(f"{NODES}/n1/status", {"status": {"runtimeHandlers": [{"name": "runsc"}]}})
    ignoring = {"name": "NodeResourcesFit", "args": {"ignoredResources": [MARK]}}
    profiles = [{"schedulerName": "default-scheduler", "pluginConfig": [ignoring]}]
    with serving(marking) as server:
        with scheduling(marking, server.url, "beside-plugin"):
            marking.add_pod("web", "gvisor")
            until(lambda: f"Insufficient {MARK}" in marking.message_of("web"))
        with scheduling(marking, server.url, "beside-plugin", profiles=profiles):
            until(lambda: marking.node_of("web") == "n1", 30.0)
        assert asked(server) > 0


def test_only_pods_of_the_second_scheduler_are_marked(where: Cluster) -> None:
    needs_mutating_policies(where)
    folder = FOLDER / "second-scheduler" / "beside-plugin-marked"
    text = where.kubectl("kustomize", str(folder))
    documents = [each for each in yaml.safe_load_all(text) if each["kind"].startswith("Mutating")]
    policies = yaml.safe_dump_all(documents)
    where.apply(policies)
    own: dict[str, Any] = {
        "runtimeClassName": "gvisor",
        "schedulerName": "runtimeclass-scheduler",
    }
    try:
        until(lambda: ask(where, **own).marks == [("1", "1")])
        assert ask(where, runtimeClassName="gvisor").marks == [(None, None)]
        assert ask(where, schedulerName="runtimeclass-scheduler").marks == [(None, None)]
    finally:
        where.kubectl("delete", "-f", "-", stdin=policies)
        until(lambda: ask(where, **own).marks == [(None, None)])
    assert where.get(PODS)["items"] == []
