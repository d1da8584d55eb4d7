"""Edits RuntimeClasses in manifests while something else asks the service that follows them."""

import json
import threading
import time
from pathlib import Path
from typing import Any, Final

from loadtest.bodies import names_body, pod
from loadtest.generator import Cluster, go_json, list_of
from loadtest.processes import Address
from loadtest.timing import Client

#: The class that comes and goes; nobody but the editor asks for it.
EDITED: Final = "edited"

_LOOK_SECONDS: Final = 0.05
_EFFECT_SECONDS: Final = 10.0


def split_manifests(cluster: Cluster, folder: Path) -> None:
    """Nodes and RuntimeClasses in files of their own."""
    nodes = (
        {"apiVersion": "v1", "kind": "Node", **cluster.node(index)}
        for index in range(cluster.spec.nodes)
    )
    (folder / "nodes.json").write_bytes(b"".join(list_of(nodes)))
    _write_classes(cluster, folder, None)


def _write_classes(cluster: Cluster, folder: Path, edit: int | None) -> None:
    classes = cluster.runtime_classes()
    if edit is not None:
        scheduling = {"nodeSelector": {"edited.example.com/pool": f"pool-{edit}"}}
        classes.append(
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": EDITED},
                "handler": "runc",
                "scheduling": scheduling,
            }
        )
    written = folder / ".runtimeclasses.json"
    written.write_bytes(b"".join(list_of(classes)))
    written.replace(folder / "runtimeclasses.json")


class Editor:
    """A thread that adds and removes a class, each time once the last edit has taken effect.

    `switches` counts the edits that did. It ends with the block, or when an edit has no effect.
    """

    def __init__(self, folder: Path, cluster: Cluster, address: Address) -> None:
        self.switches = 0
        self._folder = folder
        self._cluster = cluster
        self._address = address
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._edit, daemon=True)

    def __enter__(self) -> "Editor":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _edit(self) -> None:
        name = self._cluster.names[0]
        body = names_body(go_json(pod(0, EDITED)), [name])
        with Client(self._address) as client:
            while not self._ending.is_set():
                there = self.switches % 2 == 0
                _write_classes(self._cluster, self._folder, self.switches if there else None)
                if not self._await(client, body, name, there):
                    return
                self.switches += 1

    def _await(self, client: Client, body: bytes, name: str, there: bool) -> bool:
        deadline = time.monotonic() + _EFFECT_SECONDS
        while time.monotonic() < deadline and not self._ending.wait(_LOOK_SECONDS):
            answer: dict[str, Any] = json.loads(client.ask("filter", body).body)
            reasons = answer.get("FailedAndUnresolvableNodes", {})
            if name in reasons and ("not found" not in reasons[name]) is there:
                return True
        return False
