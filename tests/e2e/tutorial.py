"""Follows docs/tutorial.md, command by command, on a real control plane of processes.

Processes stand in for what a reader has in containers: Node objects for kind's nodes; `serve` and
kube-scheduler, with the shipped arguments, files and rights, for the Deployment's pods; and this
module for the kubelets and controllers that write statuses and end what is being deleted.
`python -m tests.e2e.tutorial` writes the real output into the page.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from release.manifests import CHART, helm
from tests.config.kustomize import kubectl
from tests.config.shipped import FOLDER
from tests.documented import commands
from tests.e2e.cluster import PODS, Cluster, cluster, free_ports
from tests.e2e.ways import Way
from tests.processes import ROOT, until

PAGE: Final = ROOT / "docs" / "tutorial.md"
BESIDE: Final = "--disable-admission-plugins=ServiceAccount"

_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: What has no process to stand in for it, or has been done where the tests run.
UNTRIED: Final = ("kind ", "docker ", "make ", "export ")

#: Commands that read what takes a moment to become so.
_READS: Final = ("kubectl events ", "kubectl get ", "kubectl runtimeclass ")

_SETTLE_SECONDS: Final = 3.0

#: As on kind, whose containerd has a handler for the tests of Kubernetes.
_HANDLERS: Final = ["", "runc", "test-handler"]
_LINUX: Final = {"operatingSystem": "linux", "architecture": "amd64"}
_REQUIRED: Final = (
    "machineID systemUUID bootID kernelVersion osImage containerRuntimeVersion kubeProxyVersion"
)
_CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"

_DEPLOYMENT: Final = (
    "/apis/apps/v1/namespaces/runtimeclass-scheduler/deployments/runtimeclass-scheduler"
)


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """(language, content) of each fenced block."""
    for match in _BLOCK.finditer(text):
        yield match[1], match[2]


def alike(text: str) -> str:
    """Without what differs from one run to the next: ages, counts of events, columns' widths."""
    text = re.sub(r"\b(?:\d+[smh])+(?: \(x\d+ over \d+[smh]\))?", "AGE", text)
    text = re.sub(r"<(?:unknown|invalid)>", "AGE", text)
    return re.sub(r" +", " ", text).strip()


class Walk:
    """One reader with a cluster of their own."""

    def __init__(self, where: Cluster, folder: Path, stack: contextlib.ExitStack) -> None:
        self._cluster = where
        self._folder = folder
        self._stack = stack
        program = kubectl()
        assert program
        (folder / "bin").mkdir()
        (folder / "bin" / "kubectl").symlink_to(program)
        own = helm()
        assert own, "there is no helm: make helm"
        (folder / "bin" / "helm").symlink_to(own)
        (folder / "chart").symlink_to(CHART)
        (folder / "my-cluster").mkdir()
        path = [str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        self._environment = {
            **os.environ,
            "PATH": ":".join(path),
            "KUBECONFIG": str(where.kubeconfig("admin")),
            "KUBECACHEDIR": str(folder / "cache"),
            "COLUMNS": "100",
        }

    def run(self, script: str) -> str:
        """What a reader's shell prints; the script fails where a command of it does."""
        with (self._folder / "said").open("w+") as said:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", script],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
            try:
                until(lambda: self._tidied() and process.poll() is not None, 90.0)
            finally:
                process.kill()
                process.wait()
            said.seek(0)
            text = said.read()
        assert process.returncode == 0 or script.startswith("kubectl runtimeclass"), text
        return text

    def _tidied(self) -> bool:
        """Ends what is being deleted, as the kubelet and the controller of namespaces would."""
        for namespace in self._cluster.get("/api/v1/namespaces")["items"]:
            if "deletionTimestamp" in namespace["metadata"]:
                path = f"/api/v1/namespaces/{namespace['metadata']['name']}/finalize"
                namespace["spec"]["finalizers"] = []
                self._cluster.request("PUT", path, namespace)
        for pod in self._cluster.get(PODS)["items"]:
            if "deletionTimestamp" in pod["metadata"]:
                self._cluster.delete(f"{PODS}/{pod['metadata']['name']}")
        return True

    def block(self, script: str) -> None:
        """A block of commands whose output the page does not show."""
        if script.startswith("kind create"):
            self._make_nodes()
        if script.startswith(UNTRIED):
            return
        self.run(script)
        if script.startswith("helm install "):
            self._start_what_was_applied()

    def command(self, command: str, wanted: str | None = None) -> str:
        """What a command prints; one that reads is repeated until it says what is wanted."""
        if not command.startswith(_READS):
            return self.run(command)
        pause = threading.Event()
        if wanted is None:
            pause.wait(_SETTLE_SECONDS)
            return self.run(command)
        for _ in range(20):
            said = self.run(command)
            if alike(said) == alike(wanted):
                break
            pause.wait(0.5)
        return said

    def _make_nodes(self) -> None:
        version = {"kubeletVersion": f"v1.{self._cluster.minor}.1"}
        for name in ("control-plane", "worker", "worker2"):
            main = name == "control-plane"
            self._cluster.add_node(
                f"runtimeclass-{name}",
                {"kubernetes.io/os": "linux"},
                taints=[{"key": _CONTROL_PLANE, "effect": "NoSchedule"}] if main else None,
                handlers=_HANDLERS,
                nodeInfo={**dict.fromkeys(_REQUIRED.split(), ""), **_LINUX, **version},
            )

    def _start_what_was_applied(self) -> None:
        file = FOLDER / "second-scheduler" / "beside-plugin.yaml"
        folder = self._folder / "pods"
        folder.mkdir()
        way = Way.put_up(self._cluster, file, folder)
        (port,) = free_ports(1)
        self._stack.enter_context(way.service(port))
        self._stack.enter_context(way.scheduler(file, port))
        deployment = self._cluster.get(_DEPLOYMENT)
        ready = deployment["spec"]["replicas"]
        status = {
            "observedGeneration": deployment["metadata"]["generation"],
            **dict.fromkeys(
                ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), ready
            ),
        }
        self._cluster.patch(f"{_DEPLOYMENT}/status", {"status": status})


@contextlib.contextmanager
def walking() -> Iterator[Walk]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tutorial-")))
        yield Walk(stack.enter_context(cluster(BESIDE)), folder, stack)


def rewritten(text: str) -> str:
    """The page with the real output of its commands."""
    with walking() as walk:

        def fill(match: re.Match[str]) -> str:
            if match[1] != "console":
                walk.block(match[2])
                return match[0]
            parts = []
            for command, _ in commands(match[2]):
                output = walk.command(command).rstrip()
                parts.append(f"$ {command}\n{output}\n")
            return f"```console\n{''.join(parts)}```"

        return _BLOCK.sub(fill, text)


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
