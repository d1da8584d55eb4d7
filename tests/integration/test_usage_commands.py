"""pods, classes, can-delete and rollout as processes: from manifests, and from an API server."""

import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from extender.cli import PLUGIN_COMMANDS
from tests.fakes.apiserver import (
    NAMESPACES,
    NODES,
    PODS,
    RUNTIME_CLASSES,
    WORKLOADS,
    FakeApiServer,
    Fault,
    kubeconfig,
)
from tests.processes import ROOT, run

CLUSTER: Final = ROOT / "tests" / "usage" / "cluster.yaml"
MANIFESTS: Final = ("--manifests", str(CLUSTER))
OBJECTS: Final[list[dict[str, Any]]] = list(yaml.safe_load_all(CLUSTER.read_text()))
PATHS: Final = {
    **WORKLOADS,
    "Namespace": NAMESPACES,
    "Node": NODES,
    "Pod": PODS,
    "RuntimeClass": RUNTIME_CLASSES,
}


def filled(server: FakeApiServer) -> FakeApiServer:
    """The server with all objects of the manifest, by name, as etcd has them."""

    def key(item: dict[str, Any]) -> tuple[str, str]:
        return item["metadata"].get("namespace", "default"), item["metadata"]["name"]

    for each in sorted(OBJECTS, key=key):
        metadata = dict(each["metadata"])
        if each["kind"] not in ("Node", "RuntimeClass", "Namespace"):
            metadata.setdefault("namespace", "default")
        server.put(PATHS[each["kind"]], {**each, "metadata": metadata})
    return server


@pytest.fixture(params=["manifests", "cluster"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """The flags that say where the cluster is, which is the same one both times."""
    if request.param == "manifests":
        yield MANIFESTS
        return
    with filled(FakeApiServer()) as server:
        (tmp_path / "kubeconfig").write_text(kubeconfig(server.url))
        yield "--kubeconfig", str(tmp_path / "kubeconfig")


def ask(*words: str, code: int) -> Any:
    result = run(*words, "-o", "json")
    assert (result.returncode, result.stderr) == (code, "")
    return json.loads(result.stdout)


KATA: Final = 'nodes don\'t match RuntimeClass "kata" '
SELECTOR: Final = "(nodeSelector node-restriction.kubernetes.io/sandbox=kata)"

#: NAMESPACE/NAME → the class's handler, the node, the state, and how the reason begins.
STATES: Final = {
    "default/old": ("kata-qemu", "n8", "drifted", 'RuntimeClass "kata" was created after the pod'),
    "default/waits": ("kata-qemu", "", "pending", "3/4 nodes are available: 1 nodes don't match"),
    "shop/cheap": (
        "kata-qemu",
        "n9",
        "drifted",
        "the pod carries cpu=250m, memory=120Mi overhead, "
        'RuntimeClass "kata" has cpu=250m, memory=160Mi today',
    ),
    "shop/lost": ("kata-qemu", "n1", "stranded", f"{KATA}{SELECTOR}"),
    "shop/orphan": (
        "",
        "n7",
        "stranded",
        'nodes don\'t match RuntimeClass "gone" (RuntimeClass not found)',
    ),
    "shop/runs": ("kata-qemu", "n7", "running", ""),
}


def test_pods_tells_where_each_runs_and_whether_it_could_again(source: tuple[str, ...]) -> None:
    items = ask("pods", *source, code=0)["items"]
    assert [f"{each['namespace']}/{each['name']}" for each in items] == list(STATES)
    for each in items:
        handler, node, state, reason = STATES[f"{each['namespace']}/{each['name']}"]
        assert (each["handler"], each["node"], each["state"]) == (handler, node, state)
        assert each["reason"].startswith(reason)
        assert bool(each["reason"]) is bool(reason)
        assert set(each) == {"namespace", "name", "class", "handler", "node", "state", "reason"}


@pytest.mark.parametrize(
    ("flags", "names", "code"),
    [
        (["-n", "default"], ["old", "waits"], 0),
        (["--class", "gone"], ["orphan"], 0),
        (["--class", "none"], [], 0),
        (["--stranded"], ["lost", "orphan"], 1),
        (["--stranded", "-n", "default"], [], 0),
        (["--pending"], ["plain-waits", "waits"], 1),
        (["--pending", "--class", "kata"], ["waits"], 1),
        (["--pending", "--stranded"], ["plain-waits", "waits", "lost", "orphan"], 1),
        (["-A", "--class", "kata"], ["old", "waits", "cheap", "lost", "runs"], 0),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_pods_can_be_asked_about_some_only(
    flags: list[str], names: list[str], code: int, source: tuple[str, ...]
) -> None:
    items = ask("pods", *flags, *source, code=code)["items"]
    assert [each["name"] for each in items] == names


def test_pending_says_of_each_pod_what_explain_says(source: tuple[str, ...]) -> None:
    items = ask("pods", "--pending", "-n", "default", *MANIFESTS, code=1)["items"]
    for each in items:
        pod = f"{each['namespace']}/{each['name']}"
        explained = run("explain", pod, *MANIFESTS, "-o", "json")
        assert json.loads(explained.stdout)["summary"] == each["reason"]


def test_classes_counts_nodes_pods_and_overhead(source: tuple[str, ...]) -> None:
    kata, other = ask("classes", *source, code=0)["items"]
    findings = {each["check"] for each in kata.pop("findings")}
    assert kata == {
        "name": "kata",
        "handler": "kata-qemu",
        "isolation": "vm",
        "default": False,
        "nodes": {"matching": 3, "ready": 2, "total": 4},
        "pods": {"running": 4, "pending": 1, "stranded": 1, "drifted": 2},
        "overhead": {"cpu": "1", "memory": "600Mi"},
    }
    assert findings == set()
    assert other["default"] is True
    assert (other["pods"]["running"], other["overhead"]) == (0, {})
    assert [each["check"] for each in other["findings"]] == ["handler-absent"]


def test_classes_by_pool_tells_the_pools_apart(source: tuple[str, ...]) -> None:
    kata = ask("classes", "--by-pool", *source, code=0)["items"][0]
    general, sandbox = kata["pools"]
    assert general["pool"] == "general"
    assert general["nodes"] == {"matching": 0, "ready": 0, "total": 1}
    assert general["pods"] == {"running": 1, "pending": 0, "stranded": 1, "drifted": 0}
    assert sandbox["nodes"] == {"matching": 3, "ready": 2, "total": 3}
    assert sandbox["overhead"] == {"cpu": "750m", "memory": "440Mi"}


def test_can_delete_lists_what_uses_a_class(source: tuple[str, ...]) -> None:
    assert ask("can-delete", "kata", *source, code=1) == {
        "class": "kata",
        "canDelete": False,
        "uses": [
            {"kind": "CronJob", "namespace": "default", "name": "nightly"},
            {"kind": "Deployment", "namespace": "shop", "name": "web"},
            {"kind": "Namespace", "namespace": "", "name": "team-a"},
            {"kind": "Pod", "namespace": "default", "name": "old"},
            {"kind": "Pod", "namespace": "default", "name": "waits"},
            {"kind": "Pod", "namespace": "shop", "name": "cheap"},
            {"kind": "Pod", "namespace": "shop", "name": "lost"},
            {"kind": "Pod", "namespace": "shop", "name": "runs"},
        ],
    }
    uses = ask("can-delete", "kata-v2", *source, code=1)["uses"]
    assert uses == [{"kind": "RuntimeClass", "namespace": "", "name": "kata-v2"}]


@pytest.mark.parametrize("kind", WORKLOADS)
def test_every_kind_of_workload_keeps_its_class(kind: str, tmp_path: Path) -> None:
    path = WORKLOADS[kind]
    version = path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")[0]
    template = {"spec": {"runtimeClassName": "kata"}}
    spec: dict[str, Any] = {"template": template}
    if kind == "CronJob":
        spec = {"jobTemplate": {"spec": spec}}
    objects = [
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "kata"},
            "handler": "kata",
        },
        {"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": spec},
    ]
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    uses = ask("can-delete", "kata", "--manifests", str(file), code=1)["uses"]
    assert uses == [{"kind": kind, "namespace": "default", "name": "w"}]


def test_rollout_tells_pool_by_pool_how_far_it_has_come(source: tuple[str, ...]) -> None:
    document = ask("rollout", "kata", "kata-v2", *source, code=1)
    assert (document["old"], document["new"], document["done"]) == ("kata", "kata-v2", False)
    general, sandbox = document["pools"]
    assert (general["pool"], general["ready"], general["total"]) == ("general", 0, 1)
    assert (sandbox["pool"], sandbox["ready"], sandbox["total"]) == ("sandbox", 1, 3)
    assert {each["reason"]: each["nodes"] for each in sandbox["notReady"]} == {
        "node is not ready": ["n8"],
        'nodes don\'t match RuntimeClass "kata-v2" (no runtime handler "kata-clh")': ["n9"],
    }
    assert (sandbox["drain"], sandbox["pods"]) == ("n9", 3)
    assert document["workloads"] == [
        {"kind": "CronJob", "namespace": "default", "name": "nightly"},
        {"kind": "Deployment", "namespace": "shop", "name": "web"},
    ]
    assert document["defaults"] == [{"kind": "Namespace", "namespace": "", "name": "team-a"}]
    assert document["pods"] == {"running": 4, "pending": 1}


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


@pytest.mark.parametrize(
    "words",
    [
        ["pods"],
        ["pods", "--pending"],
        ["classes", "--by-pool"],
        ["can-delete", "kata"],
        ["rollout", "kata", "kata-v2"],
    ],
    ids=" ".join,
)
def test_the_tables_say_what_the_documents_say(words: list[str], source: tuple[str, ...]) -> None:
    table = run(*words, *source)
    document = run(*words, *source, "-o", "json")
    assert table.returncode == document.returncode
    assert table.stderr == ""
    names = {
        each["name"]
        for key in ("items", "uses", "workloads")
        for each in json.loads(document.stdout).get(key, ())
    }
    assert names
    assert all(name in table.stdout for name in names)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["can-delete"], "CLASS"),
        (["can-delete", "kat"], 'did you mean "kata"'),
        (["rollout", "kata"], "NEW"),
        (["rollout", "kata", "kata-3"], 'did you mean "kata" or "kata-v2"?'),
        (["rollout", "kata", "kata"], "both kata"),
        (["pods", "-n", "shop", "-A"], "exclude each other"),
        (["classes", "--manifests", "/none"], "/none"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_what_could_not_be_told_is_one_line_and_exit_code_2(words: list[str], said: str) -> None:
    result = run(*words, *MANIFESTS)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert said in result.stderr


def test_a_list_that_begins_again_counts_no_pod_twice(tmp_path: Path) -> None:
    """A continue token expires after five minutes: the list begins anew."""
    with FakeApiServer() as server:
        filled(server)
        for number in range(1200):
            spec = {"runtimeClassName": "kata", "nodeName": "n7"}
            server.put(
                PODS, {"metadata": {"name": f"p{number}", "namespace": "many"}, "spec": spec}
            )
        server.faults[PODS].extend([None, None, Fault(status=410)])
        (tmp_path / "kubeconfig").write_text(kubeconfig(server.url))
        source = ("--kubeconfig", str(tmp_path / "kubeconfig"))
        kata = ask("classes", *source, code=0)["items"][0]
        assert kata["pods"]["running"] == 1204
        pages = [each for each in server.requests if each.path == PODS]
        assert all(each.query["limit"] == "500" for each in pages)
        assert len(pages) == 6


def test_the_plugin_looks_at_the_namespace_of_the_context(tmp_path: Path) -> None:
    assert {"pods", "classes", "can-delete", "rollout"} <= PLUGIN_COMMANDS.keys()
    plugin = Path(sys.executable).with_name("kubectl-runtimeclass")
    with filled(FakeApiServer()) as server:
        config = json.loads(kubeconfig(server.url))
        config["contexts"][0]["context"]["namespace"] = "shop"
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        source = ("--kubeconfig", str(tmp_path / "kubeconfig"))
        for flags, count in (((), 4), (("-A",), 6), (("-n", "default"), 2)):
            words = [plugin, "pods", *flags, *source, "-o", "json"]
            answer = subprocess.run(words, capture_output=True, timeout=60, check=True).stdout
            assert len(json.loads(answer)["items"]) == count
        assert any(each.path == "/api/v1/namespaces/shop/pods" for each in server.requests)


def test_on_a_terminal_it_is_told_how_many_pods_are_read(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with filled(FakeApiServer()) as server:
        for number in range(600):
            server.put(PODS, {"metadata": {"name": f"z{number}", "namespace": "many"}})
        server.faults[PODS].extend([None, Fault(hang=True)])
        (tmp_path / "kubeconfig").write_text(kubeconfig(server.url))
        words = ["pods", "--kubeconfig", str(tmp_path / "kubeconfig")]
        command = [sys.executable, "-m", "extender", *words]
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=theirs, cwd=ROOT
        ) as asking:
            os.close(theirs)
            shown = b""
            while b"500 pods read, " not in shown:
                assert select.select([ours], [], [], 30.0)[0], shown
                shown += os.read(ours, 1000)
            asking.kill()
    os.close(ours)
