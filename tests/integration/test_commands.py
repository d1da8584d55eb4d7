"""explain, nodes and check as processes."""

import base64
import json
import os
import re
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.certificates import Authority
from tests.config.shipped import name_of, scheduler_configurations
from tests.fakes.apiserver import (
    NODES,
    PODS,
    RUNTIME_CLASSES,
    FakeApiServer,
    Fault,
    kubeconfig,
    node,
    pod,
    runtime_class,
)
from tests.processes import NOWHERE, ROOT, SAMPLES, called, listener, run, running, serving
from tests.terminals import on_a_terminal

CLUSTER: Final = ("--manifests", str(SAMPLES / "cluster"))


def test_a_cluster_without_any_object_was_not_checked(tmp_path: Path) -> None:
    with FakeApiServer() as server:
        (tmp_path / "kubeconfig").write_text(kubeconfig(server.url))
        pods = {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []}
        server.scripts[PODS] = deque([{"json": pods}])
        result = run("check", "--kubeconfig", str(tmp_path / "kubeconfig"))
    assert (result.returncode, result.stdout) == (2, "")
    assert "nothing was checked" in result.stderr


def test_a_pipe_of_a_shell_is_read_as_a_file_is() -> None:
    command = (
        f"{sys.executable} -m extender nodes kata -o json"
        f" --manifests <(cat {SAMPLES}/cluster/nodes.yaml)"
        f" --manifests <(cat {SAMPLES}/cluster/runtimeclasses.yaml)"
    )
    result = called("bash", "-c", command)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == run("nodes", "kata", *CLUSTER, "-o", "json").stdout


def test_a_named_pipe_where_a_file_must_stand_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    """Whichever flag names it."""
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    tls = ["serve", *CLUSTER, "--tls-cert-file", str(pipe), "--tls-private-key-file", str(pipe)]
    wrong = [
        ("classes", "--kubeconfig"),
        ("serve", "--manifests"),
        ("webhook", "--kubeconfig"),
        (*tls, "--client-ca-file"),
    ]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "extender", *flags, str(pipe)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        for flags in wrong
    ]
    for process in processes:
        out, error = process.communicate()
        assert (process.returncode, out, error.count("\n")) == (2, "", 1)
        assert f"{pipe}: is a pipe, expected a file" in error


# On a terminal


def test_colour_only_on_a_terminal_that_wants_it() -> None:
    arguments = ("nodes", "kata", *CLUSTER)

    def colours(**env: str) -> list[str]:
        # Not the codes that erase the line of progress, which a busy machine shows.
        return re.findall(r"\x1b\[[0-9;]*m", on_a_terminal(*arguments, **env)[1])

    assert "\x1b[32m" in colours()
    assert colours(NO_COLOR="1") == colours(TERM="dumb") == []
    assert "\x1b" not in run(*arguments).stdout


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_tables_fit_the_terminal(columns: int) -> None:
    arguments = ("explain", "default/kata", *CLUSTER, "--manifests", str(SAMPLES / "pods"))
    _, text = on_a_terminal(*arguments, COLUMNS=str(columns), NO_COLOR="1")
    copied = [line for line in text.splitlines() if line.startswith("  {")]
    assert len(copied) == 1
    others = [line for line in text.splitlines() if line not in copied]
    assert max(map(len, others)) <= columns


# Over a cluster


@pytest.fixture
def cluster(cluster: FakeApiServer) -> FakeApiServer:
    cluster.put(RUNTIME_CLASSES, runtime_class("kata", "kata", {"pool": "kata"}))
    for index in range(1200):
        labels = {"pool": "kata"} if index % 100 == 0 else {}
        cluster.put(NODES, node(f"n{index:04}", labels, handlers=["runc", "kata"]))
    return cluster


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


def test_a_pod_misspelt_is_told_its_neighbour_where_pods_may_be_listed(
    cluster: FakeApiServer, config: str
) -> None:
    told = "runtimeclass-extender explain: Pod default/wbe not found"
    cluster.put(PODS, pod("web", "kata"))
    said = run("explain", "default/wbe", "--kubeconfig", config).stderr
    assert said == f'{told}; did you mean "default/web"?\n'
    cluster.faults[PODS].append(Fault(status=403))
    assert run("explain", "default/wbe", "--kubeconfig", config).stderr == f"{told}\n"


# Scheduler configurations


@pytest.mark.parametrize("file", scheduler_configurations(), ids=name_of)
@pytest.mark.parametrize("version", ["1.30", "1.36"])
def test_the_shipped_configurations_have_no_findings(file: Path, version: str) -> None:
    flags = ["--no-admission-plugin"] if "instead-of" in str(file) else []
    words = ("check", "--scheduler-config", str(file), "--kubernetes-version", version, *flags)
    result = run(*words, env=NOWHERE)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("no findings in ")


def test_the_configuration_of_the_readme_has_no_findings(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    file = tmp_path / "config.yaml"
    file.write_text(block)
    result = run("check", "--scheduler-config", str(file), env=NOWHERE)
    assert (result.returncode, result.stderr) == (0, "")


# --probe


def probed(tmp_path: Path, url: str, **fields: object) -> dict[str, str]:
    """The finding about reachability, if any."""
    document = yaml.safe_load((ROOT / "tests/checks/sound.scheduler-config.yaml").read_text())
    (extender,) = document["extenders"]
    for key in ("enableHTTPS", "tlsConfig"):
        extender.pop(key, None)
    extender |= {"urlPrefix": url, **fields}
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(document))
    words = ("check", "--scheduler-config", str(file), "--probe", "-o", "json")
    result = run(*words, env=NOWHERE)
    assert result.returncode in (0, 1), result.stderr
    findings = json.loads(result.stdout)["findings"]
    return next((each for each in findings if each["code"] == "unreachable"), {})


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
    ca = str(authority.cert)
    inline = {
        f"{name}Data": base64.b64encode(file.read_bytes()).decode()
        for name, file in (("ca", authority.cert), ("cert", client.cert), ("key", client.key))
    }
    with running("serve", *words) as server:

        def said(**tls: object) -> str:
            found = probed(tmp_path, server.url, enableHTTPS=True, tlsConfig=tls)
            return found.get("what", "")

        assert said(caFile=ca, **certificate) == ""
        assert said(**inline) == ""
        assert said(caFile=ca, serverName="localhost", **certificate) == ""
        assert said(**certificate) == ""  # without a CA kube-scheduler trusts anybody
        assert "verify failed" in said(caFile=str(stranger.cert), **certificate)
        assert "verify failed" in said(caFile=ca, serverName="elsewhere", **certificate)
        assert said(caFile=ca)  # no client certificate
        assert "tlsConfig" in said(caFile="/none", **certificate)
        assert "tlsConfig" in said(caData="?", **certificate)
        assert probed(tmp_path, server.url, enableHTTPS=True, tlsConfig="x")


def test_where_nobody_answers_or_listens_is_told(tmp_path: Path) -> None:
    with listener() as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert "no answer within 5 s" in probed(tmp_path, url)["what"]
    assert "Connection refused" in probed(tmp_path, url)["what"]


@pytest.mark.parametrize("url", ["", "127.0.0.1:8888", "ftp://x", "http://[::1", "http://x:99999"])
def test_what_is_no_url_is_told(tmp_path: Path, url: str) -> None:
    assert "no URL" in probed(tmp_path, url)["what"]
