"""explain: how a pod is named, and what it makes of workloads, as processes."""

import json
import os
import subprocess
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.fakes.apiserver import (
    NODES,
    RUNTIME_CLASSES,
    FakeApiServer,
    kubeconfig,
    node,
    runtime_class,
    status_document,
)
from tests.processes import SAMPLES, run

Json = dict[str, Any]

CLUSTER: Final = ("--manifests", str(SAMPLES / "cluster"))
PODS: Final = ("--manifests", str(SAMPLES / "pods"))
POD_FILE: Final = ("-f", str(SAMPLES / "pods" / "pods.yaml"))


def plugin(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return run(*arguments, env=env, program="kubectl-runtimeclass")


def answer(result: subprocess.CompletedProcess[str]) -> Json:
    assert result.returncode in (0, 1), result.stderr
    document: Json = json.loads(result.stdout)
    return document


# Workloads


def samples() -> list[Json]:
    return list(yaml.safe_load_all((SAMPLES / "pods" / "pods.yaml").read_text()))


def workload(kind: str, pod: Json) -> Json:
    """What makes pods of this spec."""
    metadata = {"name": pod["metadata"]["name"], "namespace": pod["metadata"].get("namespace")}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod["spec"]}
    head = {"apiVersion": API_VERSIONS[kind], "kind": kind, "metadata": metadata}
    if kind == "PodTemplate":
        return {**head, "template": template}
    if kind == "CronJob":
        return {
            **head,
            "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}},
        }
    return {**head, "spec": {"template": template}}


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


def by_name(documents: list[Json]) -> dict[str, Json]:
    return {each["metadata"]["name"]: each for each in documents}


@pytest.mark.parametrize("kind", sorted(set(API_VERSIONS) - {"DaemonSet"}))
@pytest.mark.parametrize("dump", [yaml.safe_dump, json.dumps], ids=["YAML", "JSON"])
def test_a_template_is_explained_as_its_pod_is(kind: str, dump: Any, tmp_path: Path) -> None:
    for name in ("gvisor", "kata-merged"):
        pod = by_name(samples())[name]
        file = tmp_path / "workload.yaml"
        file.write_text(dump(workload(kind, pod)))
        of_workload = run("explain", "-f", str(file), *CLUSTER, "-o", "json")
        of_pod = run("explain", f"default/{name}", *POD_FILE, *CLUSTER, "-o", "json")
        assert answer(of_workload) == {**answer(of_pod), "kind": kind}
        assert of_workload.returncode == of_pod.returncode
        text = run("explain", "-f", str(file), *CLUSTER).stdout
        assert text.startswith(f"{kind} default/{name}, RuntimeClass ")


#: What a node may have wrong, and whether a pod of a DaemonSet goes there all the same.
TAINTS: Final = {
    "not-ready:NoExecute": True,
    "unreachable:NoExecute": True,
    "disk-pressure:NoSchedule": True,
    "memory-pressure:NoSchedule": True,
    "pid-pressure:NoSchedule": True,
    "unschedulable:NoSchedule": True,
    "not-ready:NoSchedule": False,
    "out-of-service:NoExecute": False,
}


def tainted(text: str) -> Json:
    key, _, effect = text.partition(":")
    taint = {"key": f"node.kubernetes.io/{key}", "effect": effect}
    name = text.replace(":", "-").lower()
    return {"kind": "Node", "metadata": {"name": name}, "spec": {"taints": [taint]}}


@pytest.mark.parametrize("on_host", [False, True], ids=["pod network", "host network"])
def test_a_daemon_set_pod_tolerates_what_its_controller_lets_it(
    on_host: bool, tmp_path: Path
) -> None:
    network = "network-unavailable:NoSchedule"
    known = [tainted(text) for text in (*TAINTS, network)]
    known.append(
        {"kind": "Node", "metadata": {"name": "cordoned"}, "spec": {"unschedulable": True}}
    )
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(known))
    pod = {"metadata": {"name": "web"}, "spec": {"hostNetwork": on_host}}

    def fits(kind: str) -> set[str]:
        (tmp_path / "it.json").write_text(json.dumps(workload(kind, pod)))
        words = ("-f", str(tmp_path / "it.json"), "--manifests", str(tmp_path / "cluster.yaml"))
        said = answer(run("explain", *words, "--nodes=all", "-o", "json"))
        return {name for name, reason in said["nodes"].items() if not reason}

    assert fits("Deployment") == set()
    expected = {tainted(text)["metadata"]["name"] for text, passes in TAINTS.items() if passes}
    if on_host:
        expected.add(tainted(network)["metadata"]["name"])
    assert fits("DaemonSet") == expected | {"cordoned"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("kind: Deployment\napiVersion: apps/v1", "spec.template: missing", id="bare"),
        pytest.param(
            "kind: CronJob\napiVersion: batch/v1\nspec: {template: {}}",
            "spec.jobTemplate.spec.template: missing",
            id="a job's place",
        ),
        pytest.param(
            "kind: Job\napiVersion: batch/v1\nspec: {template: {spec: {affinity: []}}}",
            "spec.template.spec.affinity: expected",
            id="wrong type",
        ),
        pytest.param(
            "kind: Deployment\napiVersion: apps.example.com/v1\nspec: {template: {spec: {}}}",
            "holds no Pod or workload",
            id="of another group",
        ),
        pytest.param(
            "kind: Deploymnet\napiVersion: apps/v1\nspec: {template: {spec: {}}}",
            'holds no Pod or workload: kind "Deploymnet" is left out; did you mean "Deployment"?',
            id="misspelt",
        ),
    ],
)
def test_what_makes_no_pod_is_told_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "it.yaml").write_text(text)
    result = run("explain", "-f", str(tmp_path / "it.yaml"), *CLUSTER)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_a_misspelt_field_of_a_file_is_a_warning_beside_the_answer(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}
    file.write_text(yaml.safe_dump({**pod, "spec": {"runtimeClass": "kata"}}))
    result = run("explain", "-f", str(file), *CLUSTER)
    assert result.returncode == 0
    assert result.stderr == (
        'runtimeclass-extender explain: warning: Pod "a": Kubernetes knows no spec.runtimeClass;'
        ' did you mean "runtimeClassName"?\n'
    )


def test_a_broken_workload_among_manifests_is_ignored_as_other_kinds_are(tmp_path: Path) -> None:
    (tmp_path / "it.yaml").write_text("kind: Deployment\napiVersion: apps/v1\nspec: 1\n")
    result = run("nodes", "kata", *CLUSTER, "--manifests", str(tmp_path))
    assert (result.returncode, result.stderr) == (0, "")


# How a pod is named


@pytest.fixture
def several(tmp_path: Path) -> str:
    spec: Json = {"runtimeClassName": "gvisor"}
    pod = {"kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    deployment = workload(
        "Deployment", {"metadata": {"name": "web", "namespace": "team"}, "spec": {}}
    )
    other = workload("Job", {"metadata": {"name": "once", "namespace": "team"}, "spec": spec})
    (tmp_path / "several.yaml").write_text(yaml.safe_dump_all([pod, deployment, other]))
    return str(tmp_path / "several.yaml")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["once"], "Job team/once"),
        (["team/once"], "Job team/once"),
        (["job/once"], "Job team/once"),
        (["jobs/once"], "Job team/once"),
        (["deploy/web"], "Deployment team/web"),
        (["Deployment/web"], "Deployment team/web"),
        (["pod/web"], "Pod default/web"),
        (["once", "-n", "team"], "Job team/once"),
        (["pod/web", "-n", "here"], "Pod here/web"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("program", [run, plugin], ids=["extender", "plugin"])
def test_one_of_several_objects_of_a_file_is_chosen(
    program: Any, words: list[str], expected: str, several: str
) -> None:
    said = answer(program("explain", *words, "-f", several, *CLUSTER, "-o", "json"))
    assert f"{said.get('kind', 'Pod')} {said['pod']}" == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "3 objects, name one of them: default/web, Deployment team/web, Job team/once"),
        (["web"], "2 objects"),
        (["sts/web"], "has default/web, Deployment team/web, Job team/once, not StatefulSet/web"),
        (["once", "-n", "here"], "not here/once"),
        (["a/b/c"], "expected NAME"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_what_a_file_does_not_tell_is_one_line(words: list[str], said: str, several: str) -> None:
    result = run("explain", *words, "-f", several, *CLUSTER)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert said in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sts/web"], "kubectl get sts/web -o yaml | kubectl runtimeclass explain -f -"),
        (["a/web", "-n", "b"], "not of --namespace b"),
        ([], "POD is needed, NAME"),
        (["/web"], "expected NAME, pod/NAME or NAMESPACE/NAME"),
        (["pod/"], "expected NAME"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_a_name_that_names_no_pod_is_one_line(words: list[str], said: str) -> None:
    result = plugin("explain", *words, *CLUSTER)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert said in result.stderr


# Over a cluster


@pytest.fixture
def cluster() -> Iterator[FakeApiServer]:
    with FakeApiServer() as server:
        server.put(RUNTIME_CLASSES, runtime_class("kata", "kata"))
        server.put(NODES, node("n", handlers=["kata"]))
        for namespace in ("team", "default", "other", "pod"):
            pod = {
                "metadata": {"name": "web", "namespace": namespace},
                "spec": {"runtimeClassName": "kata"},
            }
            path = f"/api/v1/namespaces/{namespace}/pods/web"
            server.scripts[path] = deque([{"json": pod}])
        missing = {"json": status_document(404, "NotFound", "none"), "status": 404}
        server.scripts["/api/v1/namespaces/team/pods/none"] = deque([missing])
        yield server


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


@pytest.mark.parametrize(
    ("words", "pod"),
    [
        (["web"], "team/web"),
        (["pod/web"], "team/web"),
        (["pods/web"], "team/web"),
        (["web", "-n", "other"], "other/web"),
        (["pod/web", "--namespace=other"], "other/web"),
        (["other/web"], "other/web"),
        (["other/web", "-n", "other"], "other/web"),
        (["web", "-n", "pod"], "pod/web"),
        (["web", "--context", "bare"], "default/web"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else each,
)
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
    assert (
        answer(run("explain", "pod/web", "--kubeconfig", config, "-o", "json"))["pod"] == "pod/web"
    )
