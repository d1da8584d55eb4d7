"""Somebody who follows a page of docs/, block by block, on the machine and on the node."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.e2e.cluster import ASSETS
from tests.e2e.tutorial import blocks
from tests.fakes.apiserver import Json
from tests.node.node import ADDRESS, CHECKOUT, Node
from tests.node.parts import BUSYBOX, said, step, until
from tests.processes import ROOT

#: What the pages leave open.
_FILLED_IN: Final = {"REGISTRY/": "", "API-SERVER": ADDRESS, "CLASS\n": "runc\n"}
_ON_THE_NODE: Final = "/root/checkout"

#: Ways whose page says how: the page, the heading, and the release.
_PAGES: Final = {
    "second-scheduler": ("install-second-scheduler", "## 1. Install", "runtimeclass-scheduler"),
    "webhook": ("webhook", "## Installing it", "runtimeclass-webhook"),
    "remote": ("install-remote", "## 1. Certificates and the service", "runtimeclass-extender"),
}


class Reader:
    """With a copy of the checkout, in which the pages have files made."""

    def __init__(self, node: Node, folder: Path) -> None:
        self.node = node
        self.folder = folder
        for name in ("scheduler-config", "chart", "install"):
            shutil.copytree(ROOT / name, folder / name)
        copy = f"mkdir -p {_ON_THE_NODE}; cp -r {CHECKOUT}/scheduler-config {_ON_THE_NODE}"
        node.inside("sh", "-ec", copy)

    @staticmethod
    def read(page: str, heading: str) -> list[str]:
        """The commands under a heading of a page, block by block, with what they leave open."""
        text = (ROOT / "docs" / f"{page}.md").read_text()
        _, found, rest = text.partition(f"\n{heading}\n")
        assert found, (page, heading)
        scripts = [script for language, script in blocks(rest.split("\n## ")[0]) if not language]
        for place, name in _FILLED_IN.items():
            scripts = [script.replace(place, name) for script in scripts]
        return scripts

    def types(self, script: str) -> str:
        """On the machine, in the checkout; fails where a command does."""
        path = f"{ASSETS}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        words = ("bash", "-euo", "pipefail", "-c", script)
        env = {"PATH": path, "KUBECONFIG": str(self.node.kubeconfig)}
        done = said(words, self.folder, env)
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        return done.stdout

    def types_on_the_node(self, script: str) -> str:
        return self.node.inside("bash", "-euo", "pipefail", "-c", f"cd {_ON_THE_NODE}\n{script}")

    def install(self, way: str) -> None:
        """WAY/VALUE,VALUE of the chart as its page says; or a folder or file that needs no page."""
        name, _, values = way.partition("/")
        with step(f"installing {way}"):
            if name not in _PAGES:
                self.types(f"kubectl apply {_file(way)}")
                return
            page, heading, _ = _PAGES[name]
            more = f" --set {values}" if values else ""
            for script in self.read(page, heading):
                self.types(script.replace(" --set image.", f"{more} --set image.", 1))

    def remove(self, way: str) -> None:
        *_, release = _PAGES.get(way.split("/")[0], ("",))
        if not release:
            self.types(f"kubectl delete {_file(way)}")
        elif release == "runtimeclass-webhook":
            scripts = self.read("upgrade-and-removal", "## Removal")
            self.types(next(each for each in scripts if release in each))
        else:
            self.types(f"helm uninstall {release} --namespace {release}")

    @contextmanager
    def with_(self, *ways: str) -> Iterator[None]:
        """They are removed afterwards, the last first."""
        for way in ways:
            self.install(way)
        try:
            yield
        finally:
            for way in reversed(ways):
                self.remove(way)

    def apply(self, *documents: Json) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        self.node.kubectl("apply", "-f", "-", stdin=json.dumps(items))

    def wait(
        self, pod: str, condition: str = "condition=Ready", namespace: str = "default"
    ) -> Json:
        """The pod, once it is so."""
        words = ("wait", "-n", namespace, f"pod/{pod}", f"--for={condition}", "--timeout=120s")
        self.node.kubectl(*words)
        found: Json = self.node.get("pod", "-n", namespace, pod)
        return found

    def ends(self, pod: str) -> Json:
        return self.wait(pod, "jsonpath={.status.phase}=Succeeded")

    def waits(self, pod: str, reason: str, seconds: float = 60) -> Json:
        """The pod, which has no node, once its event has that reason."""
        until(lambda: reason in self.events(pod), seconds)
        return self.wait(pod, "condition=PodScheduled=false")

    def both_run(self, **spec: Any) -> None:
        """A pod of each runtime is scheduled, and runs."""
        names = ("runc", "crun")
        self.apply(*(a_pod(f"on-{name}", name, **spec) for name in names))
        for name in names:
            self.wait(f"on-{name}")

    def events(self, name: str) -> str:
        """All that was said about a pod."""
        selector = f"involvedObject.name={name}"
        items = self.node.get("events", "--field-selector", selector)["items"]
        return "\n".join(f"{each['reason']}: {each['message']}" for each in items)


def _file(way: str) -> str:
    """As kubectl is given it."""
    return f"-k scheduler-config/{way}" if "/" in way else f"-f install/{way}.yaml"


def a_class(name: str, handler: str = "", **more: Any) -> Json:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": handler or name,
        **more,
    }


def a_pod(
    name: str, runtime_class: str | None = None, namespace: str = "default", **spec: Any
) -> Json:
    """A pod that runs until it is told to end; it ends at once then."""
    wait = "trap 'exit 0' TERM; while :; do sleep 86400 & wait; done"
    container = {
        "name": "c",
        "image": BUSYBOX,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", wait],
    }
    chosen = {"runtimeClassName": runtime_class} if runtime_class else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [container], **chosen, **spec},
    }
