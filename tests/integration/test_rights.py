"""The commands under the rights that are shipped and documented, which an API server enforces."""

import json
import re
import subprocess
from collections import deque
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from tests.config.shipped import FOLDER, Json, the_object
from tests.fakes.apiserver import (
    NODES,
    RUNTIME_CLASSES,
    FakeApiServer,
    Right,
    kubeconfig,
    node,
    right_of,
    runtime_class,
)
from tests.processes import ROOT, SAMPLES, run, running

GROUPS: Final = {"nodes": "", "runtimeclasses": "node.k8s.io", "pods": "", "namespaces": ""}

#: (group, resource) of what the table calls workloads.
WORKLOADS: Final = {
    ("", "replicationcontrollers"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
}

_VERB: Final = re.compile(r"\b(?:get|list|watch|patch)\b")


def documented() -> dict[str, frozenset[Right]]:
    """By command what the table of scheduler-config/README.md says that it needs."""
    text = (FOLDER / "README.md").read_text()
    (table,) = re.findall(r"^\| command \|(.*)\n\|[-|]*\n((?:\|.*\n)+)", text, re.MULTILINE)
    resources = [each.strip() for each in table[0].strip("|").split("|")]
    found = {}
    for line in table[1].splitlines():
        command, *cells = (each.strip().strip("`") for each in line.strip("|").split("|"))
        found[command] = frozenset(
            (*each, verb)
            for column, cell in zip(resources, cells, strict=True)
            for each in (WORKLOADS if column == "workloads" else {(GROUPS[column], column)})
            for verb in _VERB.findall(cell.partition(";")[0])
        )
    return found


NEEDED: Final = documented()


def granted(path: str) -> frozenset[Right]:
    role = the_object("ClusterRole", path)
    return frozenset(
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


VIEWER: Final = granted("viewer/clusterrole.yaml")

SERVICE: Final = granted("remote/base/rbac.yaml")

PENDING: Final[Json] = {
    "metadata": {"name": "waits", "namespace": "ns"},
    "spec": {"runtimeClassName": "gone"},
}

API: Final = ROOT / "tests" / "workloads" / "folder" / "api.yaml"

#: What each command is tried with.
COMMANDS: Final = {
    "explain": ["explain", "ns/web"],
    "fit": ["fit", "ns/web"],
    "nodes": ["nodes", "kata"],
    "check": ["check"],
    "check -f": ["check", "-f", str(API)],
    "render": ["render", "-f", str(API)],
    "pods": ["pods"],
    "classes": ["classes"],
    "can-delete": ["can-delete", "kata"],
    "rollout": ["rollout", "kata", "kata-v2"],
}


#: What a command does without, and says so.
LEFT_OUT: Final = {
    ("check", "pods"),
    ("check", "namespaces"),
    ("check -f", "namespaces"),
    ("explain", "namespaces"),
    ("fit", "namespaces"),
}


@pytest.fixture
def cluster() -> Iterator[FakeApiServer]:
    with FakeApiServer() as server:
        selector = {"node-restriction.kubernetes.io/pool": "kata"}
        server.put(RUNTIME_CLASSES, runtime_class("kata", "kata", selector))
        newer = {"node-restriction.kubernetes.io/kata-v2": "true"}
        server.put(RUNTIME_CLASSES, runtime_class("kata-v2", "kata-v2", newer))
        server.put(NODES, node("n", {**selector, **newer}, handlers=["kata", "kata-v2"]))
        pods = {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": [PENDING]}
        web = {"metadata": {"name": "web", "namespace": "ns"}, "spec": {"runtimeClassName": "kata"}}
        server.scripts["/api/v1/pods"] = deque([{"json": pods}] * 8)
        server.scripts["/api/v1/namespaces/ns/pods/web"] = deque([{"json": web}] * 4)
        yield server


@pytest.fixture
def config(cluster: FakeApiServer, tmp_path: Path) -> str:
    (tmp_path / "kubeconfig").write_text(kubeconfig(cluster.url))
    return str(tmp_path / "kubeconfig")


def ask(command: str, config: str) -> subprocess.CompletedProcess[str]:
    return run(*COMMANDS[command], "--kubeconfig", config, "-o", "json")


def test_the_shipped_roles_are_what_the_table_says() -> None:
    assert frozenset(chain(*(NEEDED[command] for command in COMMANDS))) == VIEWER
    assert NEEDED["completion of names"] <= VIEWER
    assert NEEDED["serve"] == SERVICE
    webhook = granted("webhook/base/rbac.yaml")
    assert webhook <= NEEDED["webhook"]
    # --default-class and --fit bring theirs in components.
    by_flag = ("nodes", "namespaces")
    assert {each for each in NEEDED["webhook"] if each[1] not in by_flag} <= webhook


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_needs_what_the_table_says_and_asks_for_nothing_else(
    command: str, cluster: FakeApiServer, config: str
) -> None:
    cluster.rights = NEEDED[command]
    result = ask(command, config)
    assert result.returncode in (0, 1)
    assert result.stderr == ""
    assert {right_of(each) for each in cluster.requests} == NEEDED[command]


@pytest.mark.parametrize(
    ("command", "right"),
    [
        pytest.param(command, right, id=f"{command} without {right[2]} {right[1]}")
        for command in COMMANDS
        for right in sorted(NEEDED[command])
        if (command, right[1]) not in LEFT_OUT
    ],
)
def test_what_may_not_be_read_is_told_in_one_line(
    command: str, right: Right, cluster: FakeApiServer, config: str
) -> None:
    cluster.rights = VIEWER - {right}
    result = ask(command, config)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert f'403 {right[1]} is forbidden: User "me" cannot {right[2]}' in result.stderr
    assert "ClusterRole runtimeclass-viewer of scheduler-config/viewer" in result.stderr


def test_all_commands_answer_under_the_shipped_viewer_role(
    cluster: FakeApiServer, config: str
) -> None:
    cluster.rights = VIEWER
    for command in COMMANDS:
        result = ask(command, config)
        assert result.returncode == (1 if command == "check" else 0), result.stderr
        assert result.stderr == ""


@pytest.mark.parametrize("broken", [False, True], ids=["sound", "with a finding"])
def test_check_as_a_service_that_requeues_no_pods_leaves_them_out_and_says_so(
    broken: bool, cluster: FakeApiServer, config: str
) -> None:
    if broken:
        cluster.put(RUNTIME_CLASSES, runtime_class("wasm", "spin", {"x.k8s.io/wasm": "true"}))
    cluster.rights = SERVICE - {
        ("", "pods", "list"),
        ("", "pods", "patch"),
        ("", "namespaces", "list"),
    }
    result = ask("check", config)
    assert result.returncode == (1 if broken else 0)
    checks = {each["check"] for each in json.loads(result.stdout)["findings"]}
    assert checks == ({"no-matching-node", "unreported-handler"} if broken else set())
    pods, namespaces = result.stderr.splitlines()
    assert "left out whether pods wait for a class that does not exist" in pods
    assert 'User "me" cannot list resource "pods"' in pods
    assert "left out whether namespaces have default classes that exist" in namespaces
    assert 'User "me" cannot list resource "namespaces"' in namespaces
    table = run("check", "--kubeconfig", config)
    assert table.returncode == result.returncode
    left_out = "no pods, which may not be listed, no namespaces, which may not be listed"
    assert left_out in " ".join(table.stdout.split())


def test_the_service_is_ready_and_explains_a_pod_under_its_own_role(
    cluster: FakeApiServer, config: str
) -> None:
    cluster.rights = SERVICE
    flags = ("--bind", "127.0.0.1:0", "--kubeconfig", config, "--requeue-pods")
    with running("serve", *flags) as server:
        server.wait_for_line("serving")
        status, body, _ = server.request("GET", "/explain?pod=ns/web")
        assert (status, json.loads(body)["feasible"]) == (200, 1)
    assert {right_of(each) for each in cluster.requests} <= SERVICE


def test_a_pod_of_a_file_needs_no_right_to_read_pods(cluster: FakeApiServer, config: str) -> None:
    cluster.rights = NEEDED["nodes"]
    file = str(SAMPLES / "pods" / "pods.yaml")
    result = run("explain", "-f", file, "pod/kata", "--kubeconfig", config)
    assert result.returncode in (0, 1), result.stderr
