"""pods, classes, can-delete and rollout as processes: from manifests, and from an API server."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from extender.cli.commands import PLUGIN_COMMANDS
from tests.fakes.apiserver import PODS, FakeApiServer, Fault, filled
from tests.processes import ROOT, run, serving
from tests.terminals import running_on_a_terminal

CLUSTER: Final = ROOT / "tests" / "usage" / "cluster.yaml"
OBJECTS: Final[list[dict[str, Any]]] = list(yaml.safe_load_all(CLUSTER.read_text()))


def ask(*words: str, code: int) -> Any:
    result = run(*words, "-o", "json")
    assert (result.returncode, result.stderr) == (code, "")
    return json.loads(result.stdout)


REAL: Final = ROOT / "tests" / "recorded" / "real-node"
STARTING: Final = ("broken", "noshim", "nosuch")


def test_of_a_real_node_pods_without_a_sandbox_are_starting() -> None:
    paths = [REAL / f"{each}.json" for each in ("node", "runtimeclasses", "pods")]
    files = [f"--manifests={each}" for each in paths]
    pods = {each["name"]: each for each in ask("pods", *files, code=0)["items"]}
    classes = {each["name"]: each["pods"] for each in ask("classes", *files, code=0)["items"]}
    with serving(*paths, flags=("--watch-pods",)) as server:
        metrics = server.request("GET", "/metrics")[1].decode()
    none = {"running": 0, "starting": 0, "pending": 0, "stranded": 0, "drifted": 0}
    for of_class in (*STARTING, "crun"):
        name, state = f"{of_class}-1", "starting" if of_class in STARTING else "running"
        command = f"kubectl describe pod -n default {name}"
        assert pods[name]["state"] == state
        assert (command in pods[name]["reason"]) is (state == "starting")
        said = json.loads(run("explain", f"default/{name}", *files, "-o", "json").stdout)["state"]
        starting = [f"since 2026-11-22T11:30:38Z: {command}" in each for each in said[1:]]
        assert starting == [True] * (state == "starting")
        assert classes[of_class] == {**none, state: 2}
        assert f'_pods{{runtimeclass="{of_class}",state="{state}"}} 2.0' in metrics


def test_a_rollout_is_done_once_nothing_names_the_old_class_and_no_pool_is_halfway(
    tmp_path: Path,
) -> None:
    kept = [each for each in OBJECTS if each["kind"] in ("Node", "RuntimeClass")]
    file = tmp_path / "objects.yaml"

    def done(objects: list[dict[str, Any]]) -> bool:
        file.write_text(yaml.safe_dump_all(objects))
        result = run("rollout", "kata", "kata-v2", "--manifests", str(file), "-o", "json")
        assert result.returncode in (0, 1), result.stderr
        found: bool = json.loads(result.stdout)["done"]
        assert result.returncode == (0 if found else 1)
        return found

    assert not done(kept), "n9 runs the old class only"
    finished = [each for each in kept if each["metadata"]["name"] != "n9"]
    assert done(finished)
    for each in OBJECTS:
        if each["kind"] in ("CronJob", "Deployment", "Namespace") or (
            each["metadata"]["name"] in ("runs", "waits")
        ):
            assert not done([*finished, each]), each["metadata"]["name"]
    (waits,) = (each for each in OBJECTS if each["metadata"]["name"] == "waits")
    file.write_text(yaml.safe_dump_all([*finished, waits]))
    told = run("rollout", "kata", "kata-v2", "--manifests", str(file)).stdout
    assert "1 pod still has kata, which no template names any more: re-create it" in told
    (old,) = (each for each in kept if each["metadata"]["name"] == "kata")
    assert done([each for each in finished if each is not old]), "the class is deleted"


@pytest.fixture
def cluster(cluster: FakeApiServer) -> FakeApiServer:
    return filled(cluster, OBJECTS)


def test_many_pods_are_listed_in_pages(cluster: FakeApiServer, config: str) -> None:
    spec = {"runtimeClassName": "kata", "nodeName": "n7"}
    for number in range(1200):
        cluster.put(PODS, {"metadata": {"name": f"p{number}", "namespace": "many"}, "spec": spec})
    kata = ask("classes", "--kubeconfig", config, code=0)["items"][0]
    assert kata["pods"]["running"] == 1204
    pages = [each for each in cluster.requests if each.path == PODS]
    assert [each.query["limit"] for each in pages] == ["500"] * 3
    assert not any(each.is_watch for each in cluster.requests)


def test_the_plugin_looks_at_the_namespace_of_the_context(
    cluster: FakeApiServer, config: str
) -> None:
    assert {"pods", "classes", "can-delete", "rollout"} <= PLUGIN_COMMANDS.keys()
    document = json.loads(Path(config).read_text())
    document["contexts"][0]["context"]["namespace"] = "shop"
    Path(config).write_text(json.dumps(document))
    for flags, count in (((), 4), (("-A",), 6), (("-n", "default"), 2)):
        words = ("pods", *flags, "--kubeconfig", config, "-o", "json")
        answer = run(*words, program="kubectl-runtimeclass").stdout
        assert len(json.loads(answer)["items"]) == count
    assert any(each.path == "/api/v1/namespaces/shop/pods" for each in cluster.requests)


def test_on_a_terminal_it_is_told_how_many_pods_are_read(
    cluster: FakeApiServer, config: str
) -> None:
    for number in range(600):
        cluster.put(PODS, {"metadata": {"name": f"z{number}", "namespace": "many"}})
    cluster.faults[PODS].extend([None, Fault(hang=True)])
    with running_on_a_terminal("pods", "--kubeconfig", config) as terminal:
        assert terminal.wait_for("reading pods: 500, ")
