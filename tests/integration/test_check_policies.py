"""check --policies, as a process."""

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from extender.cluster import kinds
from tests.fakes.apiserver import (
    NAMESPACES,
    NODES,
    RUNTIME_CLASSES,
    FakeApiServer,
    Fault,
    kubeconfig,
    node,
    runtime_class,
)
from tests.processes import run

Json = dict[str, Any]

ALLOWED: Final = "runtimeclass-extender/allowed-classes"
REQUIRED: Final = "runtimeclass-extender/required"

PODS: Final = "/api/v1/pods"
WORKLOADS: Final = {each.path: each.name for each in kinds.WORKLOADS}


def namespace(name: str, **annotations: str) -> Json:
    ours = {f"runtimeclass-extender/{key}": text for key, text in annotations.items()}
    return {"kind": "Namespace", "metadata": {"name": name, "annotations": ours}}


def pod(name: str, where: str, runtime: str | None, phase: str = "Running") -> Json:
    spec = {"runtimeClassName": runtime} if runtime else {}
    metadata = {"name": name, "namespace": where}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}}


def deployment(name: str, where: str, runtime: str | None) -> Json:
    spec = {"runtimeClassName": runtime} if runtime else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": where},
        "spec": {"template": {"spec": spec}},
    }


NAMESPACED: Final = [namespace("team-a", **{"allowed-classes": "kata", "required": "true"})]
RUNNING: Final = [
    pod("good", "team-a", "kata"),
    pod("bad", "team-a", "gvisor"),
    pod("done", "team-a", "gvisor", "Succeeded"),
    pod("plain", "team-a", None),
    pod("elsewhere", "team-b", "gvisor"),
]
TEMPLATES: Final = [deployment("web", "team-a", "gvisor"), deployment("db", "team-a", "kata")]

REFUSED: Final = {
    'RuntimeClass "gvisor" is not allowed in namespace "team-a", which allows "kata":'
    " Deployment team-a/web, Pod team-a/bad",
    'a pod in namespace "team-a" must name a RuntimeClass (spec.runtimeClassName); allowed:'
    ' "kata": Pod team-a/plain',
}


def listed(kind: str, *items: Json) -> deque[Any]:
    document = {"kind": f"{kind}List", "metadata": {"resourceVersion": "1"}, "items": list(items)}
    return deque([{"json": document}] * 9)


@pytest.fixture
def cluster() -> Iterator[FakeApiServer]:
    with FakeApiServer() as server:
        for name in ("kata", "gvisor"):
            server.put(RUNTIME_CLASSES, runtime_class(name, name))
        server.put(NODES, node("n", handlers=["kata", "gvisor"]))
        for each in NAMESPACED:
            server.put(NAMESPACES, each)
        server.scripts[PODS] = listed("Pod", *RUNNING)
        for path, kind in WORKLOADS.items():
            server.scripts[path] = listed(kind, *(TEMPLATES if kind == "Deployment" else ()))
        yield server


@pytest.fixture
def config(cluster: FakeApiServer, tmp_path: Path) -> str:
    (tmp_path / "kubeconfig").write_text(kubeconfig(cluster.url))
    return str(tmp_path / "kubeconfig")


def refused(*arguments: str) -> tuple[int, set[str]]:
    result = run("check", *arguments, "-o", "json")
    findings = json.loads(result.stdout)["findings"]
    mine = {each["what"] for each in findings if each["check"] == "refused-by-policy"}
    return result.returncode, mine


def test_what_a_cluster_would_refuse_today_is_listed(config: str) -> None:
    assert refused("--policies", "--kubeconfig", config) == (1, REFUSED)


def test_files_are_judged_the_same(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "items": [*NAMESPACED, *RUNNING, *TEMPLATES]}))
    assert refused("--policies", "--manifests", str(file)) == (1, REFUSED)


def test_where_nothing_would_be_refused_the_exit_code_is_0(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    kata = {**runtime_class("kata"), "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"}
    items = [*NAMESPACED, kata, deployment("web", "team-a", "kata")]
    file.write_text(json.dumps({"kind": "List", "items": items}))
    result = run("check", "--policies", "--manifests", str(file))
    assert result.returncode == 0, result.stdout
    assert "1 pods and templates" in " ".join(result.stdout.split())


def test_without_the_flag_nobody_asks_for_workloads(cluster: FakeApiServer, config: str) -> None:
    _, found = refused("--kubeconfig", config)
    assert found == set()
    assert not {each.path for each in cluster.requests} & WORKLOADS.keys()


@pytest.mark.parametrize("path", [NAMESPACES, *WORKLOADS])
def test_what_may_not_be_listed_ends_with_exit_code_2(
    cluster: FakeApiServer, config: str, path: str
) -> None:
    if path == NAMESPACES:
        cluster.faults[path].extend([Fault(status=403)] * 3)
    else:
        status = {"kind": "Status", "code": 403, "message": "forbidden"}
        cluster.scripts[path] = deque([{"json": status, "status": 403}])
    result = run("check", "--policies", "--kubeconfig", config)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "403" in result.stderr


def test_a_pod_that_can_not_be_read_ends_with_one_line(cluster: FakeApiServer, config: str) -> None:
    cluster.scripts[PODS] = listed(
        "Pod", {"metadata": {"name": "p"}, "spec": {"runtimeClassName": 7}}
    )
    result = run("check", "--policies", "--kubeconfig", config)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "runtimeClassName" in result.stderr
