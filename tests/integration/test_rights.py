"""The commands under the rights that are shipped and documented, which an API server enforces."""

import json
import re
import subprocess
from collections import deque
from itertools import chain
from typing import Final

import pytest

from extender.cluster.reading_once import ForbiddenError
from tests.config.shipped import FOLDER, Json, the_object
from tests.fakes.apiserver import (
    NODES,
    RUNTIME_CLASSES,
    FakeApiServer,
    Right,
    node,
    right_of,
    runtime_class,
)
from tests.processes import ROOT, SAMPLES, ready, run

GROUPS: Final = {"nodes": "", "runtimeclasses": "node.k8s.io", "pods": "", "namespaces": ""}

#: (group, resource) of what the table calls workloads.
WORKLOADS: Final = {
    ("", "replicationcontrollers"),
    *(("apps", each) for each in ("daemonsets", "deployments", "replicasets", "statefulsets")),
    *(("batch", each) for each in ("cronjobs", "jobs")),
}

#: The resources of autoscalers that describe new nodes.
NEW_NODES: Final = {("karpenter.sh", "nodepools"), ("cluster.x-k8s.io", "machinedeployments")}
SEVERAL: Final = {"workloads": WORKLOADS, "new nodes": NEW_NODES}

_VERB: Final = re.compile(r"\b(?:get|list|watch|patch)\b")


def documented() -> dict[str, frozenset[Right]]:
    """command → the rights that it needs by the table of scheduler-config/README.md."""
    text = (FOLDER / "README.md").read_text()
    (table,) = re.findall(r"^\| command \|(.*)\n\|[-|]*\n((?:\|.*\n)+)", text, re.MULTILINE)
    resources = [each.strip() for each in table[0].strip("|").split("|")]
    found = {}
    for line in table[1].splitlines():
        command, *cells = (each.strip().strip("`") for each in line.strip("|").split("|"))
        found[command] = frozenset(
            (*each, verb)
            for column, cell in zip(resources, cells, strict=True)
            for each in SEVERAL.get(column) or {(GROUPS[column], column)}
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


VIEWER: Final = granted("install/viewer.yaml")
SERVICE: Final = granted("install/remote.yaml")

EVENTS: Final = ("", "events", "create")

PENDING: Final[Json] = {
    "metadata": {"name": "waits", "namespace": "ns"},
    "spec": {"runtimeClassName": "gone"},
}

API: Final = ROOT / "tests" / "workloads" / "folder" / "api.yaml"

#: The words that each command is run with.
COMMANDS: Final = {
    "explain": ["explain", "ns/web"],
    "fit": ["fit", "ns/web"],
    "nodes": ["nodes", "kata"],
    "check": ["check"],
    "check -f": ["check", "-f", str(API)],
    "render": ["render", "-f", str(API)],
    "pods": ["pods"],
    "classes": ["classes"],
    "classes --headroom": ["classes", "--headroom"],
    "can-delete": ["can-delete", "kata"],
    "rollout": ["rollout", "kata", "kata-v2"],
    "impact": ["impact", "--without-handler", "kata"],
}

#: What a command does without, and says so: a resource, or one verb of it.
LEFT_OUT: Final = {
    ("check", "pods"),
    ("check", "namespaces"),
    ("check -f", "namespaces"),
    ("explain", "namespaces"),
    ("explain", "pods", "list"),
    ("fit", "namespaces"),
    *(("classes --headroom", resource) for _, resource in NEW_NODES),
}


@pytest.fixture
def cluster(cluster: FakeApiServer) -> FakeApiServer:
    selector = {"node-restriction.kubernetes.io/pool": "kata"}
    cluster.put(RUNTIME_CLASSES, runtime_class("kata", "kata", selector))
    newer = {"node-restriction.kubernetes.io/kata-v2": "true"}
    cluster.put(RUNTIME_CLASSES, runtime_class("kata-v2", "kata-v2", newer))
    cluster.put(NODES, node("n", {**selector, **newer}, handlers=["kata", "kata-v2"]))
    pods = {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": [PENDING]}
    web = {"metadata": {"name": "web", "namespace": "ns"}, "spec": {"runtimeClassName": "kata"}}
    cluster.scripts["/api/v1/pods"] = deque([{"json": pods}] * 8)
    cluster.scripts["/api/v1/namespaces/ns/pods/web"] = deque([{"json": web}] * 4)
    return cluster


def ask(command: str, config: str) -> subprocess.CompletedProcess[str]:
    return run(*COMMANDS[command], "--kubeconfig", config, "-o", "json")


def rights_used(cluster: FakeApiServer) -> set[Right]:
    """The rights that the requests needed; everybody may read the version."""
    return {right_of(each) for each in cluster.requests if each.path != "/version"}


def test_the_shipped_roles_are_what_the_table_says() -> None:
    assert frozenset(chain(*(NEEDED[command] for command in COMMANDS))) == VIEWER
    assert NEEDED["completion of names"] <= VIEWER
    assert NEEDED["serve"] | {EVENTS} == SERVICE
    webhook = granted("install/webhook.yaml")
    assert webhook <= NEEDED["webhook"]
    # --default-class, --fit and --warn-impact bring theirs.
    by_flag = ("nodes", "namespaces", "pods")
    assert {each for each in NEEDED["webhook"] if each[1] not in by_flag} <= webhook


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_needs_what_the_table_says_and_asks_for_nothing_else(
    command: str, cluster: FakeApiServer, config: str
) -> None:
    cluster.rights = NEEDED[command]
    result = ask(command, config)
    assert result.returncode in (0, 1)
    assert result.stderr == ""
    assert rights_used(cluster) == NEEDED[command]
    if command == "check":
        (asked,) = (each for each in cluster.requests if each.path == "/api/v1/pods")
        assert asked.query["fieldSelector"] == "status.phase=Pending"
        assert "ns/waits" in result.stdout


@pytest.mark.parametrize(
    ("command", "right"),
    [
        pytest.param(command, right, id=f"{command} without {right[2]} {right[1]}")
        for command in COMMANDS
        for right in sorted(NEEDED[command])
        if not {(command, right[1]), (command, *right[1:])} & LEFT_OUT
    ],
)
def test_what_may_not_be_read_is_told_in_one_line(
    command: str, right: Right, cluster: FakeApiServer, config: str
) -> None:
    cluster.rights = VIEWER - {right}
    result = ask(command, config)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert f'403 {right[1]} is forbidden: User "me" cannot {right[2]}' in result.stderr
    grant = "kubectl create clusterrolebinding runtimeclass-viewer"
    assert f"{grant} --clusterrole=runtimeclass-viewer --user=me (" in result.stderr


@pytest.mark.parametrize("readable", [True, False], ids=["may read the pod", "may not"])
def test_without_rights_explain_tells_all_that_lack_and_shows_the_pod_itself(
    readable: bool, cluster: FakeApiServer, config: str
) -> None:
    event = "0/3 nodes are available: 3 Insufficient cpu."
    condition = {"type": "PodScheduled", "status": "False", "message": event}
    pod = {
        "metadata": {"name": "web", "namespace": "ns"},
        "spec": {"runtimeClassName": "kata", "nodeSelector": {"disk": "fast"}},
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    cluster.scripts["/api/v1/namespaces/ns/pods/web"] = deque([{"json": pod}])
    cluster.rights = frozenset({("", "pods", "get")} if readable else ())
    result = run("explain", "ns/web", "--kubeconfig", config)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert 'runtimeclasses is forbidden: User "me"' in result.stderr
    assert "; nor may it list nodes, pods, namespaces; an administrator" in result.stderr
    for each in (event, "kata", "disk=fast"):
        assert (each in result.stdout) is readable
    as_json = run("explain", "ns/web", "--kubeconfig", config, "-o", "json")
    assert (as_json.returncode, as_json.stdout) == (2, "")


def test_a_service_account_is_granted_rights_as_one(cluster: FakeApiServer) -> None:
    said = 'nodes is forbidden: User "system:serviceaccount:ci:deployer" cannot list'
    assert "--user=system:serviceaccount:ci:deployer (" in str(ForbiddenError(said))
    assert "--user='a b' (" in str(ForbiddenError('User "a b" cannot list'))


@pytest.mark.parametrize("broken", [False, True], ids=["sound", "with a finding"])
def test_check_as_a_service_that_requeues_no_pods_leaves_them_out_and_says_so(
    broken: bool, cluster: FakeApiServer, config: str
) -> None:
    if broken:
        cluster.put(RUNTIME_CLASSES, runtime_class("wasm", "spin", {"x.k8s.io/wasm": "true"}))
    lacking = {("", "pods", "list"), ("", "pods", "patch"), ("", "namespaces", "list")}
    cluster.rights = SERVICE - lacking
    result = ask("check", config)
    assert result.returncode == (1 if broken else 0)
    checks = {each["code"] for each in json.loads(result.stdout)["findings"]}
    assert checks == ({"no-matching-node", "unreported-handler"} if broken else set())
    pods, namespaces = result.stderr.splitlines()
    assert "left out whether pods wait for a class that does not exist" in pods
    assert 'User "me" cannot list resource "pods"' in pods
    assert "left out whether namespaces have default classes that exist" in namespaces
    assert 'User "me" cannot list resource "namespaces"' in namespaces


def test_the_service_is_ready_and_explains_a_pod_under_its_own_role(
    cluster: FakeApiServer, config: str
) -> None:
    cluster.rights = SERVICE
    with ready("serve", "--kubeconfig", config, "--requeue-pods") as server:
        status, body, _ = server.request("GET", "/explain?pod=ns/web")
        assert (status, json.loads(body)["feasible"]) == (200, 1)
    assert rights_used(cluster) <= SERVICE


def test_a_pod_of_a_file_needs_no_right_to_read_pods(cluster: FakeApiServer, config: str) -> None:
    cluster.rights = NEEDED["nodes"]
    file = str(SAMPLES / "pods" / "pods.yaml")
    result = run("explain", "-f", file, "pod/kata", "--kubeconfig", config)
    assert result.returncode in (0, 1), result.stderr
