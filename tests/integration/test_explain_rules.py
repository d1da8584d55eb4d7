"""explain names the policy that does not allow the pod's class, as a command and over HTTP."""

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

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
from tests.processes import run, running, until

Json = dict[str, Any]

RULES: Final = {"runtimeclass-extender/allowed-classes": "gvisor"}
NAMESPACE: Final = {"kind": "Namespace", "metadata": {"name": "team-a", "annotations": RULES}}

NOT_ALLOWED: Final = (
    'RuntimeClass "kata" is not allowed in namespace "team-a", which allows "gvisor":'
    " policy runtimeclass-extender-allowed-classes, where it is applied, refuses "
)
CREATED: Final = "such a pod when it is created; this one came before, one in its place would not"
TO_BE_CREATED: Final = "it when it is created"


def pod(namespace: str = "team-a", *, uid: str = "", runtime: str | None = "kata") -> Json:
    spec = {"runtimeClassName": runtime} if runtime else {}
    return {
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": namespace, "uid": uid},
        "spec": spec,
    }


def manifests(folder: Path, *documents: Json) -> str:
    """A file with these objects, a node and the class kata."""
    kata = runtime_class("kata", "kata")
    items = [*documents, {**kata, "kind": "RuntimeClass"}, {**node("n"), "kind": "Node"}]
    file = folder / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "items": items}))
    return str(file)


def warnings(*arguments: str) -> list[str]:
    result = run("explain", *arguments, "-o", "json")
    assert (result.returncode, result.stderr) == (0, "")
    found: list[str] = json.loads(result.stdout)["warnings"]
    return found


@pytest.mark.parametrize(("uid", "said"), [("", TO_BE_CREATED), ("u", CREATED)])
def test_the_policy_is_named_that_refuses_the_pod(tmp_path: Path, uid: str, said: str) -> None:
    file = manifests(tmp_path, NAMESPACE, pod(uid=uid))
    assert warnings("team-a/web", "--manifests", file) == [NOT_ALLOWED + said]


def test_the_namespace_of_a_pod_in_a_file_is_the_cluster_s(tmp_path: Path) -> None:
    file = manifests(tmp_path, NAMESPACE)
    (tmp_path / "pod.json").write_text(json.dumps(pod()))
    flags = ("-f", str(tmp_path / "pod.json"), "--manifests", file)
    assert warnings(*flags) == [NOT_ALLOWED + TO_BE_CREATED]


def test_a_namespace_that_is_not_known_or_has_no_rules_says_nothing(tmp_path: Path) -> None:
    file = manifests(tmp_path, NAMESPACE, pod("other"))
    assert warnings("other/web", "--manifests", file) == []


def test_a_required_class_is_told_unless_the_namespace_gives_one(tmp_path: Path) -> None:
    key = "runtimeclass-extender/required"
    metadata = {"name": "team-a", "annotations": {key: "true"}}
    required = {"kind": "Namespace", "metadata": metadata}
    (warning,) = warnings(
        "team-a/web", "--manifests", manifests(tmp_path, required, pod(runtime=None))
    )
    assert 'a pod in namespace "team-a" must name a RuntimeClass' in warning
    assert "policy runtimeclass-extender-required-class, where it is applied," in warning
    metadata["annotations"] = {key: "true", "runtimeclass-extender/default-class": "kata"}
    file = manifests(tmp_path, required, pod(runtime=None))
    assert warnings("team-a/web", "--manifests", file) == []


def test_the_endpoint_says_the_same(tmp_path: Path) -> None:
    file = manifests(tmp_path, NAMESPACE, pod(uid="u"))
    with running("serve", "--bind", "127.0.0.1:0", "--manifests", file) as server:
        until(lambda: server.request("GET", "/readyz")[0] == 200)
        _, body, _ = server.request("GET", "/explain?pod=team-a/web")
    assert json.loads(body)["warnings"] == [NOT_ALLOWED + CREATED]


@pytest.fixture
def cluster() -> Iterator[FakeApiServer]:
    with FakeApiServer() as server:
        server.put(RUNTIME_CLASSES, runtime_class("kata", "kata"))
        server.put(NODES, node("n", handlers=["kata"]))
        server.put(NAMESPACES, NAMESPACE)
        server.scripts["/api/v1/namespaces/team-a/pods/web"] = deque([{"json": pod(uid="u")}] * 9)
        yield server


@pytest.fixture
def config(cluster: FakeApiServer, tmp_path: Path) -> str:
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig(cluster.url))
    return str(file)


def test_in_a_cluster_one_namespace_is_asked_for(cluster: FakeApiServer, config: str) -> None:
    assert warnings("team-a/web", "--kubeconfig", config) == [NOT_ALLOWED + CREATED]
    (asked,) = [each for each in cluster.requests if each.path == NAMESPACES]
    assert asked.query["fieldSelector"] == "metadata.name=team-a"


def test_without_the_right_to_list_namespaces_the_pod_is_explained_all_the_same(
    cluster: FakeApiServer, config: str
) -> None:
    cluster.faults[NAMESPACES].append(Fault(status=403))
    result = run("explain", "team-a/web", "--kubeconfig", config, "-o", "json")
    assert result.returncode == 0
    assert "left out whether the pod's namespace allows its class" in result.stderr
    assert json.loads(result.stdout)["warnings"] == []


@pytest.mark.parametrize("fault", [None, Fault(status=403)], ids=["allowed", "forbidden"])
def test_the_endpoint_of_a_cluster_says_the_same_where_it_may_look(
    cluster: FakeApiServer, config: str, fault: Fault | None
) -> None:
    cluster.faults[NAMESPACES].append(fault)
    with running("serve", "--bind", "127.0.0.1:0", "--kubeconfig", config) as server:
        until(lambda: server.request("GET", "/readyz")[0] == 200)
        status, body, _ = server.request("GET", "/explain?pod=team-a/web")
    assert status == 200
    assert json.loads(body)["warnings"] == ([] if fault else [NOT_ALLOWED + CREATED])
