"""explain: how a pod is named, and what it makes of workloads, as processes."""

import json
import os
import subprocess
from collections import deque
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.cases_file import cases
from tests.fakes.apiserver import (
    NODES,
    RUNTIME_CLASSES,
    FakeApiServer,
    kubeconfig,
    node,
    runtime_class,
    status_document,
)
from tests.json_objects import Json
from tests.processes import SAMPLES, run

CLUSTER: Final = ("--manifests", str(SAMPLES / "cluster"))


def plugin(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return run(*arguments, env=env, program="kubectl-runtimeclass")


def answer(result: subprocess.CompletedProcess[str]) -> Json:
    assert result.returncode in (0, 1), result.stderr
    document: Json = json.loads(result.stdout)
    return document


# Workloads


def samples() -> dict[str, Json]:
    documents = yaml.safe_load_all((SAMPLES / "pods" / "pods.yaml").read_text())
    return {each["metadata"]["name"]: each for each in documents}


def workload(kind: str, pod: Json) -> Json:
    """A workload whose template has the spec of this pod."""
    metadata = {"name": pod["metadata"]["name"], "namespace": pod["metadata"].get("namespace")}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod["spec"]}
    head = {"apiVersion": API_VERSIONS[kind], "kind": kind, "metadata": metadata}
    if kind == "PodTemplate":
        return {**head, "template": template}
    spec: Json = {"template": template}
    if kind == "CronJob":
        spec = {"schedule": "@daily", "jobTemplate": {"spec": spec}}
    return {**head, "spec": spec}


API_VERSIONS: Final = {
    "CronJob": "batch/v1",
    "DaemonSet": "apps/v1",
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "PodTemplate": "v1",
    "ReplicaSet": "apps/v1",
    "ReplicationController": "v1",
    "StatefulSet": "apps/v1",
}


@pytest.mark.parametrize("kind", sorted(set(API_VERSIONS) - {"DaemonSet"}))
def test_a_template_is_explained_as_its_pod_is(kind: str, tmp_path: Path) -> None:
    for name, dump in (("gvisor", yaml.safe_dump), ("kata-merged", json.dumps)):
        pod = samples()[name]
        file = tmp_path / "workload.yaml"
        file.write_text(dump(workload(kind, pod)))
        of_workload = run("explain", "-f", str(file), *CLUSTER, "-o", "json")
        pods = str(SAMPLES / "pods" / "pods.yaml")
        of_pod = run("explain", f"default/{name}", "-f", pods, *CLUSTER, "-o", "json")
        assert answer(of_workload) == {**answer(of_pod), "kind": kind}
        assert of_workload.returncode == of_pod.returncode
        text = run("explain", "-f", str(file), *CLUSTER).stdout
        assert text.startswith(f"{kind} default/{name}, RuntimeClass ")


def test_a_broken_workload_among_manifests_is_ignored_as_other_kinds_are(tmp_path: Path) -> None:
    (tmp_path / "it.yaml").write_text("kind: Deployment\napiVersion: apps/v1\nspec: 1\n")
    result = run("nodes", "kata", *CLUSTER, "--manifests", str(tmp_path))
    assert (result.returncode, result.stderr) == (0, "")


# How a pod of a cluster is named


@pytest.fixture
def cluster(cluster: FakeApiServer) -> FakeApiServer:
    cluster.put(RUNTIME_CLASSES, runtime_class("kata", "kata"))
    cluster.put(NODES, node("n", handlers=["kata"]))
    for namespace in ("team", "default", "other", "pod"):
        metadata = {"name": "web", "namespace": namespace}
        pod = {"metadata": metadata, "spec": {"runtimeClassName": "kata"}}
        cluster.scripts[f"/api/v1/namespaces/{namespace}/pods/web"] = deque([{"json": pod}])
    missing = {"json": status_document(404, "NotFound", "none"), "status": 404}
    cluster.scripts["/api/v1/namespaces/team/pods/none"] = deque([missing])
    return cluster


@pytest.fixture
def config(cluster: FakeApiServer, tmp_path: Path) -> str:
    """A kubeconfig whose context has namespace team, and another that has none."""
    document = json.loads(kubeconfig(cluster.url))
    (context,) = document["contexts"]
    document["contexts"] = [
        {"name": "there", "context": {**context["context"], "namespace": "team"}},
        {"name": "bare", "context": context["context"]},
    ]
    (tmp_path / "kubeconfig").write_text(json.dumps(document))
    return str(tmp_path / "kubeconfig")


@cases
def test_the_plugin_names_a_pod_as_kubectl_does(words: list[str], pod: str, config: str) -> None:
    said = answer(plugin("explain", *words, "-o", "json", env={"KUBECONFIG": config}))
    assert said["pod"] == pod


def test_the_first_kubeconfig_of_several_decides(config: str, tmp_path: Path) -> None:
    document = json.loads(Path(config).read_text())
    document["contexts"][0]["context"]["namespace"] = "nowhere"
    (tmp_path / "second").write_text(json.dumps(document))
    env = {"KUBECONFIG": f"{config}{os.pathsep}{tmp_path / 'second'}"}
    assert answer(plugin("explain", "web", "-o", "json", env=env))["pod"] == "team/web"


def test_a_pod_that_is_not_in_the_namespace_is_told_with_it(config: str) -> None:
    result = plugin("explain", "none", "--kubeconfig", config)
    assert result.returncode == 2
    assert result.stderr == "kubectl runtimeclass explain: Pod team/none not found\n"


def test_a_pod_of_a_file_gets_the_namespace_of_the_context(config: str, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("kind: Pod\nmetadata: {name: new}\n")
    flags = ("-f", str(tmp_path / "pod.yaml"), "--kubeconfig", config, "-o", "json")
    assert answer(plugin("explain", *flags))["pod"] == "team/new"
    assert answer(plugin("explain", *flags, "-n", "other"))["pod"] == "other/new"
    assert answer(run("explain", *flags))["pod"] == "default/new"


def test_the_other_program_wants_the_namespace_said(config: str) -> None:
    result = run("explain", "web", "--kubeconfig", config)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "expected NAMESPACE/NAME" in result.stderr
    said = answer(run("explain", "pod/web", "--kubeconfig", config, "-o", "json"))
    assert said["pod"] == "pod/web"
