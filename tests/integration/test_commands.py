"""explain, nodes and check as processes."""

import base64
import json
import os
import pty
import re
import select
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.certificates import Authority
from tests.config.shipped import FOLDER, SCHEDULER_CONFIGURATION, documents, yaml_files
from tests.fakes.apiserver import (
    NAMESPACES,
    NODES,
    RUNTIME_CLASSES,
    FakeApiServer,
    Fault,
    kubeconfig,
    node,
    runtime_class,
    status_document,
)
from tests.processes import ROOT, SAMPLES, run, running, serving

CLUSTER: Final = ("--manifests", str(SAMPLES / "cluster"))
PODS: Final = ("--manifests", str(SAMPLES / "pods"))
FIXTURES: Final = ROOT / "tests" / "checks"

#: No cluster is anywhere to be found.
NOWHERE: Final = {"HOME": "/nonexistent", "KUBECONFIG": ""}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["explain", "default/gvisor", *CLUSTER, *PODS], 0, id="some node fits"),
        pytest.param(["explain", "default/kata", *CLUSTER, *PODS], 1, id="no node fits"),
        pytest.param(["explain", "default/missing", *CLUSTER, *PODS], 1, id="no such class"),
        pytest.param(["nodes", "kata", *CLUSTER], 0, id="some node matches"),
        pytest.param(["nodes", "wasm", *CLUSTER], 1, id="no node matches"),
        pytest.param(["check", *CLUSTER], 1, id="findings"),
    ],
)
def test_exit_codes_and_json(arguments: list[str], code: int) -> None:
    table, document = run(*arguments), run(*arguments, "-o", "json")
    assert table.returncode == document.returncode == code
    assert table.stdout
    assert json.loads(document.stdout)
    assert table.stderr == document.stderr == ""


def test_a_command_and_an_endpoint_answer_the_same() -> None:
    with serving(SAMPLES / "cluster", SAMPLES / "pods") as server:
        for arguments, path in (
            (["explain", "default/kata", *PODS], "/explain?pod=default/kata"),
            (
                ["explain", "default/gvisor", "--nodes=all", *PODS],
                "/explain?pod=default/gvisor&nodes=all",
            ),
            (["nodes", "kata", "--limit", "1"], "/runtimeclasses/kata/nodes?limit=1"),
        ):
            said = json.loads(run(*arguments, *CLUSTER, "-o", "json").stdout)
            assert said == json.loads(server.request("GET", path)[1])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["explain", *CLUSTER], "POD is needed", id="no pod"),
        pytest.param(["explain", "web", *CLUSTER], "NAMESPACE/NAME", id="no namespace"),
        pytest.param(["explain", "a/none", *CLUSTER], "a/none not found", id="no such pod"),
        pytest.param(
            ["explain", "default/kat", *CLUSTER, *PODS],
            'Pod default/kat not found; did you mean "kata"',
            id="a pod misspelt",
        ),
        pytest.param(
            ["nodes", "gvsor", *CLUSTER],
            'RuntimeClass "gvsor" not found; did you mean "gvisor"?',
            id="a class misspelt",
        ),
        pytest.param(
            ["explain", "default/kata", *PODS], "no Node is known", id="a pod and no node"
        ),
        pytest.param(
            ["nodes", "kata", "--manifests", str(SAMPLES / "cluster" / "runtimeclasses.yaml")],
            "no Node is known",
            id="a class and no node",
        ),
        pytest.param(["explain", "-f", "/none", *CLUSTER], "No such file", id="no such file"),
        pytest.param(
            ["explain", "-f", str(SAMPLES / "pods" / "pods.yaml"), *CLUSTER],
            "9 Pods, name one",
            id="several pods",
        ),
        pytest.param(
            ["explain", "-f", str(SAMPLES / "cluster" / "nodes.yaml"), *CLUSTER],
            "holds no Pod",
            id="a file without a pod",
        ),
        pytest.param(["explain", "-f", str(SAMPLES), *CLUSTER], "is a folder", id="a folder"),
        pytest.param(["nodes", *CLUSTER], "CLASS", id="no class"),
        pytest.param(["nodes", "none", *CLUSTER], "there are: gvisor, kata", id="no such class"),
        pytest.param(["nodes", "kata", "--manifests", "/none"], "/none", id="no such manifests"),
        pytest.param(["nodes", "kata", *CLUSTER, "--context", "x"], "exclude", id="two sources"),
        pytest.param(["nodes", "kata"], "no cluster", id="no source"),
        pytest.param(["check", "--probe", *CLUSTER], "--scheduler-config", id="probe of nothing"),
        pytest.param(["check", "--in-pod", *CLUSTER], "--scheduler-config", id="pod of nothing"),
        pytest.param(["check", "--scheduler-config", "/none"], "No such file", id="no such config"),
        pytest.param(
            ["check", "--scheduler-config", str(SAMPLES / "pods" / "pods.yaml")],
            "got kind Pod",
            id="another kind",
        ),
        pytest.param(
            ["check", *CLUSTER, "--kubernetes-version", "new"], "such as 1.36", id="no version"
        ),
        pytest.param(["check", *CLUSTER, "-o", "yaml"], "--output", id="output"),
        pytest.param(
            ["check", "--kubeconfig", "/none"], "--kubeconfig /none", id="no such kubeconfig"
        ),
    ],
)
def test_what_could_not_be_told_is_one_line_and_exit_code_2(
    arguments: list[str], said: str
) -> None:
    result = run(*arguments, env=NOWHERE)
    assert result.returncode == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.parametrize("text", ["kind: [", "a: &x [*x, *x]\nb: *y", "\x00", "[1]", "{"])
def test_a_configuration_that_is_no_yaml_is_told_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    result = run("check", "--scheduler-config", str(tmp_path / "config.yaml"), env=NOWHERE)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "config.yaml" in result.stderr
    assert "byte string" not in result.stderr


@pytest.mark.parametrize("text", ["", "kind: ConfigMap\n", "kind: List\nitems: []\n", "{}"])
@pytest.mark.parametrize("command", [["check"], ["nodes", "kata"], ["explain", "a/b"]])
def test_manifests_without_any_object_are_no_answer(
    tmp_path: Path, command: list[str], text: str
) -> None:
    (tmp_path / "a.yaml").write_text(text)
    result = run(*command, "--manifests", str(tmp_path))
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert f"no Node, RuntimeClass or Pod in {tmp_path}" in result.stderr


def test_a_cluster_without_any_object_was_not_checked(tmp_path: Path) -> None:
    with FakeApiServer() as server:
        (tmp_path / "kubeconfig").write_text(kubeconfig(server.url))
        pods = {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []}
        server.scripts["/api/v1/pods"] = deque([{"json": pods}])
        result = run("check", "--kubeconfig", str(tmp_path / "kubeconfig"))
    assert (result.returncode, result.stdout) == (2, "")
    assert "nothing was checked" in result.stderr


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_how_many_nodes_match_is_said_whatever_the_limit(limit: int) -> None:
    result = run("nodes", "gvisor", "--limit", str(limit), *CLUSTER)
    assert result.stdout.startswith("Nodes that match RuntimeClass gvisor, 3 of 13:\n")


def test_one_of_a_kind_is_counted_in_the_singular(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: a}\nhandler: a\n"
        "---\napiVersion: v1\nkind: Node\nmetadata: {name: n}\n"
    )
    result = run("check", "--manifests", str(tmp_path))
    assert result.stdout.endswith(" in 1 RuntimeClass, 1 node\n")
    sample = run("check", *CLUSTER)
    assert sample.stdout.endswith(" RuntimeClasses, 13 nodes\n")


def test_a_pipe_of_a_shell_is_read_as_a_file_is() -> None:
    command = (
        f"{sys.executable} -m extender nodes kata -o json"
        f" --manifests <(cat {SAMPLES}/cluster/nodes.yaml)"
        f" --manifests <(cat {SAMPLES}/cluster/runtimeclasses.yaml)"
    )
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == run("nodes", "kata", *CLUSTER, "-o", "json").stdout


def test_flags_come_from_the_environment_too() -> None:
    env = {"RUNTIMECLASS_EXTENDER_NODES_MANIFESTS": str(SAMPLES / "cluster")}
    assert run("nodes", "kata", env=env).returncode == 0


@pytest.mark.parametrize("command", ["nodes kata", "check", "explain default/kata", "serve"])
def test_a_misspelt_variable_is_one_line_and_exit_code_2(command: str) -> None:
    name = "RUNTIMECLASS_EXTENDER_SERVE_HANDLER_CHEK"
    result = run(*command.split(), *CLUSTER, env={name: "strict"})
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        f"runtimeclass-extender {command.split()[0]}: environment: no flag reads {name};"
        " did you mean RUNTIMECLASS_EXTENDER_SERVE_HANDLER_CHECK?\n"
    )
    assert run("serve", "--help", env={name: "strict"}).returncode == 0


def test_what_kubernetes_sets_for_a_service_of_the_same_name_breaks_nothing() -> None:
    env = {
        "RUNTIMECLASS_EXTENDER_SERVICE_HOST": "10.0.0.1",
        "RUNTIMECLASS_EXTENDER_SERVICE_PORT": "8888",
        "RUNTIMECLASS_EXTENDER_SERVICE_PORT_HTTPS": "8888",
        "RUNTIMECLASS_EXTENDER_PORT": "tcp://10.0.0.1:8888",
        "RUNTIMECLASS_EXTENDER_PORT_8888_TCP": "tcp://10.0.0.1:8888",
        "RUNTIMECLASS_EXTENDER_PORT_8888_TCP_PROTO": "tcp",
        "RUNTIMECLASS_EXTENDER_PORT_8888_TCP_PORT": "8888",
        "RUNTIMECLASS_EXTENDER_PORT_8888_TCP_ADDR": "10.0.0.1",
    }
    result = run("nodes", "kata", *CLUSTER, env=env)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_pod_comes_from_stdin() -> None:
    pod = yaml.safe_dump(
        {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"runtimeClassName": "gvisor"}}
    )
    result = run("explain", "-f", "-", *CLUSTER, "-o", "json", stdin=pod)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["pod"] == "default/p"


def test_the_kubectl_plugin_speaks_of_itself_as_kubectl() -> None:
    def plugin(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = Path(sys.executable).parent / "kubectl-runtimeclass"
        # Not what C code has put into the environment: readline sets COLUMNS.
        env = dict(os.environ)
        return subprocess.run(
            [program, *arguments], capture_output=True, text=True, env=env, check=False
        )

    usage = plugin()
    assert usage.returncode == 2
    assert usage.stdout.startswith("usage: kubectl runtimeclass COMMAND")
    assert "serve" not in usage.stdout
    wrong = plugin("nodes")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("kubectl runtimeclass nodes: ")
    same = plugin("nodes", "wasm", *CLUSTER)
    assert same.returncode == 1
    assert same.stdout == run("nodes", "wasm", *CLUSTER).stdout


# On a terminal


def on_a_terminal(*arguments: str, columns: int = 80, **env: str) -> str:
    """What a command prints when stdout and stderr are a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), **env}
    with subprocess.Popen(
        [sys.executable, "-m", "extender", *arguments],
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        env=environment,
    ) as process:
        os.close(theirs)
        pieces = []
        try:
            while piece := os.read(ours, 65536):
                pieces.append(piece)
        except OSError:  # that is how the end of a terminal shows
            pass
        process.wait()
    os.close(ours)
    return b"".join(pieces).decode()


def test_colour_only_on_a_terminal_that_wants_it() -> None:
    arguments = ("nodes", "kata", *CLUSTER)

    def colours(**env: str) -> list[str]:
        # Not what erases the line of progress, which a busy machine shows.
        return re.findall(r"\x1b\[[0-9;]*m", on_a_terminal(*arguments, columns=80, **env))

    assert "\x1b[32m" in colours()
    assert colours(NO_COLOR="1") == colours(TERM="dumb") == []
    assert "\x1b" not in run(*arguments).stdout


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_tables_fit_the_terminal(columns: int) -> None:
    text = on_a_terminal("explain", "default/kata", *CLUSTER, *PODS, columns=columns, NO_COLOR="1")
    copied = [line for line in text.splitlines() if line.startswith("  {")]
    assert len(copied) == 1
    others = [line for line in text.splitlines() if line not in copied]
    assert max(map(len, others)) <= columns


ONE_OF_EACH: Final = """\
kind: RuntimeClass
metadata: {name: kata}
handler: kata
---
kind: Node
metadata: {name: a}
"""


def test_progress_is_shown_on_a_terminal_once_it_takes_a_while(tmp_path: Path) -> None:
    manifest = tmp_path / "nodes.yaml"
    os.mkfifo(manifest)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "extender", "nodes", "kata", "--manifests", str(manifest)],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        cwd=ROOT,
    ) as process:
        os.close(theirs)
        shown = b""
        # The command waits for what stands in the manifest as long as the line is not seen.
        while b"0 nodes read, 1 s" not in shown:
            shown += os.read(ours, 65536)
        manifest.write_text(ONE_OF_EACH)
        assert process.wait(20) == 0
    os.close(ours)


def test_no_progress_is_shown_where_nobody_looks(tmp_path: Path) -> None:
    manifest = tmp_path / "nodes.yaml"
    os.mkfifo(manifest)
    with subprocess.Popen(
        [sys.executable, "-m", "extender", "nodes", "kata", "--manifests", str(manifest)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    ) as process:
        assert process.stderr is not None
        # Opening the FIFO waits for the command to do the same; it has then begun to wait.
        with manifest.open("w") as file:
            select.select([process.stderr], [], [], 1.5)
            file.write(ONE_OF_EACH)
        assert process.wait(20) == 0
        assert process.stderr.read() == b""


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "extender", "explain", "default/kata", *CLUSTER, *PODS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


# Over a cluster


@pytest.fixture
def cluster() -> Iterator[FakeApiServer]:
    with FakeApiServer() as server:
        server.put(RUNTIME_CLASSES, runtime_class("kata", "kata", {"pool": "kata"}))
        for index in range(1200):
            labels = {"pool": "kata"} if index % 100 == 0 else {}
            server.put(NODES, node(f"n{index:04}", labels, handlers=["runc", "kata"]))
        yield server


@pytest.fixture
def config(cluster: FakeApiServer, tmp_path: Path) -> str:
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig(cluster.url))
    return str(file)


def test_nodes_are_read_in_pages(cluster: FakeApiServer, config: str) -> None:
    result = run("nodes", "kata", "--kubeconfig", config, "-o", "json")
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout)["matching"]) == 12
    asked = [each.query for each in cluster.requests if each.path == NODES]
    assert [each["limit"] for each in asked] == ["500", "500", "500"]
    assert not any(each.is_watch for each in cluster.requests)


def test_a_command_that_is_to_say_more_tells_what_it_asks(
    cluster: FakeApiServer, config: str
) -> None:
    said = run("nodes", "kata", "-v", "--kubeconfig", config).stderr.splitlines()
    asked = [each.path for each in cluster.requests]
    assert re.findall(r'DEBUG asked path="([^"]*)" status=200', "\n".join(said)) == asked
    assert len(said) == len(asked)
    more = run("nodes", "kata", "-vv", "--kubeconfig", config).stderr.splitlines()
    assert len(more) > len(said)
    assert run("nodes", "kata", "--kubeconfig", config).stderr == ""


def test_an_expired_page_begins_the_list_again(cluster: FakeApiServer, config: str) -> None:
    cluster.faults[NODES].extend([None, Fault(status=410)])
    result = run("nodes", "kata", "--kubeconfig", config, "-o", "json")
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout)["matching"]) == 12


@pytest.mark.parametrize(
    "fault",
    [Fault(status=403), Fault(status=500), Fault(cut=True)],
    ids=["forbidden", "error", "cut off"],
)
def test_a_cluster_that_cannot_be_read_is_told_in_one_line(
    cluster: FakeApiServer, config: str, fault: Fault
) -> None:
    cluster.faults[NODES].append(fault)
    result = run("nodes", "kata", "--kubeconfig", config)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert cluster.url in result.stderr


def pod_document(name: str, runtime_class_name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"runtimeClassName": runtime_class_name},
    }


def test_a_pod_of_the_cluster_is_explained(cluster: FakeApiServer, config: str) -> None:
    path = "/api/v1/namespaces/ns/pods/web"
    found = {"json": pod_document("web", "kata")}
    missing = {"json": status_document(404, "NotFound", 'pods "web" not found'), "status": 404}
    cluster.scripts[path] = deque([found, missing])
    result = run("explain", "ns/web", "--kubeconfig", config, "-o", "json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["feasible"] == 12
    result = run("explain", "web", "-n", "ns", "--kubeconfig", config)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "ns/web not found" in result.stderr


def test_check_asks_a_cluster_for_its_pending_pods(cluster: FakeApiServer, config: str) -> None:
    pods = {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "1"},
        "items": [pod_document("a", "gone"), pod_document("b", "kata")],
    }
    cluster.scripts["/api/v1/pods"] = deque([{"json": pods}])
    result = run("check", "--kubeconfig", config, "-o", "json")
    assert result.returncode == 1
    (asked,) = [each for each in cluster.requests if each.path == "/api/v1/pods"]
    assert asked.query["fieldSelector"] == "status.phase=Pending"
    checks = {each["check"]: each["what"] for each in json.loads(result.stdout)["findings"]}
    assert "ns/a" in checks["missing-class"]


def test_check_finds_a_typo_in_a_namespace_s_default_class(
    cluster: FakeApiServer, config: str
) -> None:
    annotations = {"runtimeclass-extender/default-class": "kaat"}
    cluster.put(NAMESPACES, {"metadata": {"name": "team-a", "annotations": annotations}})
    result = run("check", "--kubeconfig", config, "-o", "json")
    assert result.returncode == 1
    checks = {each["check"]: each["what"] for each in json.loads(result.stdout)["findings"]}
    assert "of namespace team-a names it" in checks["missing-default-class"]


def test_without_the_right_to_list_namespaces_check_says_what_it_left_out(
    cluster: FakeApiServer, config: str
) -> None:
    cluster.faults[NAMESPACES].append(Fault(status=403))
    result = run("check", "--kubeconfig", config)
    assert result.returncode in (0, 1)
    (line,) = [each for each in result.stderr.splitlines() if "namespaces" in each]
    assert "left out whether namespaces have default classes that exist" in line
    assert "no namespaces, which may not be listed" in result.stdout


# Scheduler configurations


def shipped_configurations() -> list[Any]:
    return [
        pytest.param(file, id=str(file.relative_to(FOLDER)))
        for file in yaml_files()
        if any(
            isinstance(each, dict) and each.get("apiVersion") == SCHEDULER_CONFIGURATION
            for each in documents(file)
        )
    ]


@pytest.mark.parametrize("file", shipped_configurations())
@pytest.mark.parametrize("version", ["1.30", "1.36"])
def test_the_shipped_configurations_have_no_findings(file: Path, version: str) -> None:
    flags = ["--no-admission-plugin"] if "instead-of" in str(file) else []
    result = run(
        *("check", "--scheduler-config", str(file), "--kubernetes-version", version, *flags),
        env=NOWHERE,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("no findings in ")


def test_a_file_with_every_mistake_has_each_of_them_found() -> None:
    result = run(
        "check",
        *("--manifests", str(FIXTURES / "every-mistake")),
        *("--scheduler-config", str(FIXTURES / "every-mistake.scheduler-config.yaml")),
        *("--no-admission-plugin", "--kubernetes-version", "v1.35.1", "--probe", "-o", "json"),
    )
    assert result.returncode == 1, result.stderr
    findings = json.loads(result.stdout)["findings"]
    assert {each["check"] for each in findings} == {
        "no-matching-node",
        "unreported-handler",
        "handler-absent",
        "unused-toleration",
        "self-set-label",
        "equal-constraints",
        "missing-class",
        "missing-default-class",
        "default-class-label",
        "default-not-allowed",
        "missing-allowed-class",
        "required-but-none-allowed",
        "unreadable-required",
        "filter-verb",
        "prioritize-verb",
        "preempt-verb",
        "node-cache",
        "node-sampling",
        "min-candidate-nodes",
        "managed-resources",
        "timeout",
        "ignorable",
        "no-ca",
        "unreachable",
        "kubeconfig",
    }
    assert all(each["what"] and each["why"] and each["fix"] for each in findings)
    ranks = [["error", "warning", "advice"].index(each["severity"]) for each in findings]
    assert ranks == sorted(ranks)


def test_a_sound_cluster_and_configuration_have_no_findings() -> None:
    result = run(
        "check",
        *("--manifests", str(FIXTURES / "sound")),
        *("--scheduler-config", str(FIXTURES / "sound.scheduler-config.yaml")),
        *("--no-admission-plugin", "--kubernetes-version", "1.36"),
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_the_configuration_of_the_readme_has_no_findings(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    file = tmp_path / "config.yaml"
    file.write_text(block)
    checked = ("check", "--scheduler-config", str(file))
    result = run(*checked, "--in-pod=false", env=NOWHERE)
    assert (result.returncode, result.stderr) == (0, "")
    file.write_text(re.sub(r"clientConnection:\n.*\n", "", block))
    for flags, severities in (
        ([], ["warning"]),
        (["--in-pod=false"], ["error"]),
        (["--in-pod"], []),
    ):
        result = run(*checked, *flags, "-o", "json", env=NOWHERE)
        findings = json.loads(result.stdout)["findings"]
        assert [each["severity"] for each in findings] == severities
        assert {each["check"] for each in findings} <= {"kubeconfig"}
        assert result.returncode == (1 if severities else 0)


# --probe


def probed(tmp_path: Path, url: str, **fields: object) -> dict[str, str]:
    """The finding about reachability, if any."""
    document = yaml.safe_load((FIXTURES / "sound.scheduler-config.yaml").read_text())
    document["extenders"][0] = {
        key: value
        for key, value in document["extenders"][0].items()
        if key not in ("enableHTTPS", "tlsConfig")
    }
    document["extenders"][0].update({"urlPrefix": url, **fields})
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(document))
    result = run(
        *("check", "--scheduler-config", str(tmp_path / "config.yaml"), "--probe", "-o", "json"),
        env=NOWHERE,
    )
    assert result.returncode in (0, 1), result.stderr
    findings = json.loads(result.stdout)["findings"]
    return next((each for each in findings if each["check"] == "unreachable"), {})


def test_a_ready_extender_is_no_finding(tmp_path: Path) -> None:
    with serving(SAMPLES / "cluster") as server:
        assert probed(tmp_path, server.url) == {}
        assert "404" in probed(tmp_path, f"{server.url}/wrong")["what"]


def test_tls_of_the_configuration_is_used(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path / "one"), Authority(tmp_path / "another")
    server_files, client = authority.issue("server"), authority.issue("kube-scheduler")
    flags = {
        "--bind": "127.0.0.1:0",
        "--manifests": SAMPLES / "cluster",
        "--tls-cert-file": server_files.cert,
        "--tls-private-key-file": server_files.key,
        "--client-ca-file": authority.cert,
    }
    words = [str(word) for flag in flags.items() for word in flag]
    certificate = {"certFile": str(client.cert), "keyFile": str(client.key)}
    inline = {
        f"{name}Data": base64.b64encode(file.read_bytes()).decode()
        for name, file in (("ca", authority.cert), ("cert", client.cert), ("key", client.key))
    }
    with running("serve", *words) as server:

        def said(**tls: object) -> str:
            found = probed(tmp_path, server.url, enableHTTPS=True, tlsConfig=tls)
            return found.get("what", "")

        assert said(caFile=str(authority.cert), **certificate) == ""
        assert said(**inline) == ""
        assert said(caFile=str(authority.cert), serverName="localhost", **certificate) == ""
        assert said(**certificate) == ""  # without a CA kube-scheduler trusts anybody
        assert "verify failed" in said(caFile=str(stranger.cert), **certificate)
        assert "verify failed" in said(
            caFile=str(authority.cert), serverName="elsewhere", **certificate
        )
        assert said(caFile=str(authority.cert))  # no client certificate
        assert "tlsConfig" in said(caFile="/none", **certificate)
        assert "tlsConfig" in said(caData="?", **certificate)


@contextmanager
def listening() -> Iterator[tuple[str, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", listener


def test_a_port_where_nobody_listens_is_told(tmp_path: Path) -> None:
    with listening() as (url, _):
        pass
    assert "Connection refused" in probed(tmp_path, url)["what"]


def test_a_server_that_answers_byte_by_byte_is_given_up(tmp_path: Path) -> None:
    stopping = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not stopping.wait(0.2):
                    connection.sendall(b"x")
            except OSError:
                pass

    with listening() as (url, listener):
        thread = threading.Thread(target=drip, args=[listener])
        thread.start()
        try:
            assert "no answer within 5 s" in probed(tmp_path, url)["what"]
        finally:
            stopping.set()
            thread.join()


@pytest.mark.parametrize("url", ["", "127.0.0.1:8888", "ftp://x", "http://[::1", "http://x:99999"])
def test_what_is_no_url_is_told(tmp_path: Path, url: str) -> None:
    assert "no URL" in probed(tmp_path, url)["what"]


def test_a_file_that_kube_scheduler_refuses_is_no_sound_one(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "clientConnection: {kubeconfig: /k}\n"
        "parallelism: 1\n"
        "parallelism: 2\n"
        "profile: []\n"
        "profiles: [{schedulerName: a}, {schedulerName: a, percentageOfNodesToScore: 101}]\n"
        "extenders:\n"
        "  - urlPrefix: 127.0.0.1:8888/filter\n"
        "    filterVerb: filter\n"
        "    prioritizeVerb: prioritize\n"
        "    preemptVerb: preempt\n"
        "    weight: 3\n"
        '    nodeCacheCapable: "yes"\n'
        "    ignorable: maybe\n"
    )
    result = run("check", "--scheduler-config", str(file), "-o", "json", env=NOWHERE)
    assert result.returncode == 1, result.stderr
    findings = json.loads(result.stdout)["findings"]
    told = {each["check"]: each["what"] for each in findings if each["severity"] == "error"}
    assert told.keys() == {
        *("duplicate-key", "unknown-field", "scheduler-name", "out-of-range", "wrong-type"),
        "url-prefix",
    }
    assert told["duplicate-key"] == "line 5, column 1: parallelism stands twice in one object"


@pytest.mark.parametrize("may_list", [True, False], ids=["may list pods", "may not"])
def test_a_pod_misspelt_of_a_cluster_is_told_its_neighbour_where_pods_may_be_listed(
    cluster: FakeApiServer, config: str, may_list: bool
) -> None:
    missing = {"json": status_document(404, "NotFound", 'pods "wbe" not found'), "status": 404}
    cluster.scripts["/api/v1/namespaces/ns/pods/wbe"] = deque([missing])
    pods = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}
    listed = {"json": {**pods, "items": [pod_document("web", "kata")]}}
    refused = {"json": status_document(403, "Forbidden", "pods is forbidden"), "status": 403}
    cluster.scripts["/api/v1/pods"] = deque([listed if may_list else refused])
    result = run("explain", "ns/wbe", "--kubeconfig", config)
    assert result.returncode == 2
    suggested = '; did you mean "web"?' if may_list else ""
    assert result.stderr.endswith(f"Pod ns/wbe not found{suggested}\n")
