"""Completion: what the program answers, and what real shells make of it."""

import json
import os
import re
import shutil
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from extender.cli.commands import PLUGIN_COMMANDS
from tests.cases_file import cases, tables
from tests.config.kustomize import kubectl
from tests.fakes.apiserver import (
    NODES,
    RUNTIME_CLASSES,
    FakeApiServer,
    Fault,
    kubeconfig,
    runtime_class,
)
from tests.processes import NOWHERE, SAMPLES, called, run
from tests.terminals import Terminal, terminal

BIN: Final = Path(sys.executable).parent
CLUSTER: Final = str(SAMPLES / "cluster")

PROGRAMS_IN_PATH: Final = {**os.environ, **NOWHERE, "PATH": f"{BIN}:/usr/bin:/bin"}

#: The environment of an interactive shell.
SHELL: Final = {"PATH": f"{BIN}:/usr/bin:/bin", "PS1": "READY> ", "LC_ALL": "C.UTF-8"}


def asked(program: str, *words: str, **env: str) -> tuple[dict[str, str], int]:
    """(candidate → its description, the directive)."""
    if program != "kubectl_complete-runtimeclass":
        words = ("__complete", *words)
    result = run(*words, env={**NOWHERE, **env}, program=program)
    assert (result.returncode, result.stderr) == (0, "")
    *lines, last = result.stdout.splitlines()
    pairs = (line.partition("\t")[::2] for line in lines)
    return dict(pairs), int(last.removeprefix(":"))


NO_FILES: Final = 4


def test_what_no_terminal_should_see_is_no_candidate(tmp_path: Path) -> None:
    names = ["good", "two\nlines", "red\x1b[31m", "tab\there"]
    pods = [{"kind": "Pod", "metadata": {"name": name}} for name in names]
    (tmp_path / "pods.json").write_text(json.dumps({"kind": "List", "items": pods}))
    found, _ = asked("runtimeclass-extender", "explain", "--manifests", str(tmp_path), "")
    assert list(found) == ["default/good"]


# Over a cluster


@pytest.fixture
def cluster(cluster: FakeApiServer) -> FakeApiServer:
    cluster.put(RUNTIME_CLASSES, runtime_class("kata", "kata-qemu"))
    cluster.put(RUNTIME_CLASSES, runtime_class("runc", "runc"))
    return cluster


def test_classes_pods_and_contexts_come_from_the_cluster(
    cluster: FakeApiServer, config: str
) -> None:
    document: dict[str, Any] = json.loads(Path(config).read_text())
    document["contexts"][0]["context"]["namespace"] = "team"
    Path(config).write_text(json.dumps(document))
    items = [{"metadata": {"name": "web", "namespace": each}} for each in ("team", "other")]
    pods = {"json": {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": items}}
    cluster.scripts["/api/v1/pods"] = deque([pods, pods])
    env = {"KUBECONFIG": config}
    found, _ = asked("runtimeclass-extender", "nodes", "k", **env)
    assert found == {"kata": "handler kata-qemu"}
    found, _ = asked("kubectl-runtimeclass", "explain", "", **env)
    assert list(found) == ["web"]
    found, _ = asked("runtimeclass-extender", "explain", "", **env)
    assert list(found) == ["other/web", "team/web"]
    found, _ = asked("runtimeclass-extender", "nodes", "--context", "", **env)
    assert list(found) == ["there"]
    assert not [each for each in cluster.requests if each.path == NODES]


@pytest.mark.parametrize("fault", [Fault(status=403), Fault(cut=True), Fault(hang=True)], ids=str)
def test_a_cluster_that_does_not_answer_gives_no_candidates_and_no_words(
    cluster: FakeApiServer, config: str, fault: Fault
) -> None:
    cluster.faults[RUNTIME_CLASSES].extend([fault] * 5)
    assert asked("runtimeclass-extender", "nodes", "", KUBECONFIG=config) == ({}, NO_FILES)


# In real shells


def completed(terminal: Terminal, typed: str) -> str:
    """The line as Tab leaves it."""
    # The line becomes the arguments of printf: what stands on the terminal is printed twice.
    terminal.type(f"{typed}\t\x01printf '<%s>' \x05 END\r")
    said = terminal.wait_for(r"\n((?:<[^>\n]*>)+)<END>")[1]
    return " ".join(re.findall("<(.*?)>", said))


#: name → the shell, and what it must read before it can complete anything.
SHELLS: Final = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "bind 'set bell-style none'"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -U compinit; compinit -u -D; unsetopt beep auto_remove_slash",
    ),
}

#: A context as clouds name it; bash splits words at the colons.
CONTEXT: Final = "arn:aws:eks:eu-central-1:1:cluster/one"

PROGRAMS: Final = ("runtimeclass-extender", "kubectl-runtimeclass")


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    command, first = SHELLS[request.param]
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} here")
    (tmp_path / "a cluster.yaml").write_text("kind: RuntimeClass\n")
    shutil.copytree(SAMPLES / "cluster", tmp_path / "manifests")
    document = json.loads(kubeconfig("http://127.0.0.1:1"))
    document["contexts"][0]["name"] = CONTEXT
    (tmp_path / "config").write_text(json.dumps(document))
    with terminal(*command, folder=tmp_path, env={**SHELL, "HOME": str(tmp_path)}) as shell:
        shell.wait_for("READY> ")
        scripts = "; ".join(f"source <({each} completion {request.param})" for each in PROGRAMS)
        shell.type(f"{first}; {scripts}; echo LOA''DED\r")
        shell.wait_for("\nLOADED")
        yield shell


def test_a_shell_completes_what_is_typed(shell: Terminal) -> None:
    for typed, expected in tables("completion")["shells"].items():
        assert completed(shell, f"{PROGRAMS[0]} {typed}") == f"{PROGRAMS[0]} {expected}"
    assert completed(shell, "kubectl-runtimeclass che") == "kubectl-runtimeclass check"


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
@cases
def test_fish_completes_what_is_typed(typed: str, candidates: list[str], tmp_path: Path) -> None:
    typed = typed.replace("CLUSTER", CLUSTER)
    scripts = "; ".join(f"{each} completion fish | source" for each in PROGRAMS)
    words = ("fish", "--no-config", "-c", f"{scripts}; complete -C '{typed}'")
    result = called(*words, env={**PROGRAMS_IN_PATH, "HOME": str(tmp_path)})
    assert (result.returncode, result.stderr) == (0, "")
    found = [line.partition("\t")[0] for line in result.stdout.splitlines()]
    assert found[: len(candidates)] == candidates
    assert bool(found) is bool(candidates)


@pytest.mark.skipif(kubectl() is None, reason="no kubectl in KUBEBUILDER_ASSETS or PATH")
def test_kubectl_asks_the_plugin() -> None:
    """kubectl's own scripts run `kubectl __complete`, which finds kubectl_complete-runtimeclass."""
    words = ("__complete", "runtimeclass", "ch")
    result = called(kubectl(), *words, env=PROGRAMS_IN_PATH)
    answer = [f"check\t{PLUGIN_COMMANDS['check'].short_help}", ":4"]
    assert result.stdout.splitlines() == answer


def test_zsh_takes_the_script_from_its_fpath_too(tmp_path: Path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("no zsh here")
    script = called(BIN / PROGRAMS[0], "completion", "zsh").stdout
    (tmp_path / f"_{PROGRAMS[0]}").write_text(script)
    with terminal("zsh", "-f", "-i", folder=tmp_path, env={**SHELL, "HOME": str(tmp_path)}) as zsh:
        zsh.wait_for("READY> ")
        zsh.type("fpath+=($PWD); autoload -U compinit; compinit -u -D; echo LOA''DED\r")
        zsh.wait_for("\nLOADED")
        assert completed(zsh, f"{PROGRAMS[0]} ch") == f"{PROGRAMS[0]} check"
        assert completed(zsh, f"{PROGRAMS[0]} ex") == f"{PROGRAMS[0]} explain"
