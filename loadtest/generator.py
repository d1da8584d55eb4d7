"""Generated clusters: Node and RuntimeClass objects, and manifests of them.

The same ClusterSpec gives the same cluster. The fields that verdicts depend on are chosen so that
1. the cluster has the given number of shapes, whatever the number of RuntimeClasses;
2. HALF_CLASS fits the nodes of even index and no others (with one shape: all nodes);
3. nodes refuse HALF_CLASS for three reasons: the selector, a taint, a missing handler.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from loadtest.fat import fatten

Json = dict[str, Any]

#: The RuntimeClass that fits every second node.
HALF_CLASS: Final = "gvisor"

_GVISOR_LABEL: Final = "sandbox.example.com/gvisor"
_KATA_LABEL: Final = "katacontainers.io/kata-runtime"
_POOL_LABEL: Final = "node.example.com/pool"

#: Each combination of these handlers makes another shape: 2 ** 13 = 8,192.
EXTRA_HANDLERS: Final = (
    "kata-qemu",
    "kata-clh",
    "kata-fc",
    "kata-dragonball",
    "kata-remote",
    "kata-qemu-snp",
    "kata-qemu-tdx",
    "runsc-kvm",
    "runsc-systrap",
    "crun",
    "youki",
    "nvidia",
    "spin",
)


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """How large and how varied a cluster is."""

    nodes: int = 1000
    shapes: int = 20
    runtime_classes: int = 5


def go_json(value: object) -> bytes:
    """JSON as Go's encoding/json writes it: compact, with <, > and & escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        if character in text:
            text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode()


def made_up_uuid(*seed: object) -> str:
    digest = hashlib.sha256(repr(seed).encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"


def _name(index: int) -> str:
    """A node name as clouds and people choose it, unique for each index."""
    kind, digest = index // 2 % 3, hashlib.sha256(f"1/{index}".encode()).hexdigest()
    if kind == 0:
        address = f"{index >> 16 & 255}-{index >> 8 & 255}-{index & 255}"
        return f"ip-10-{address}.eu-west-1.compute.internal"
    if kind == 1:
        return f"gke-prod-pool-{index // 512 % 40}-{digest[:8]}-{index:05x}"
    return f"worker-{index:06d}.rack{index // 48 % 100:02d}.dc1.example.com"


def _taint(key: str, value: str) -> Json:
    return {"key": key, "value": value, "effect": "NoSchedule"}


def _handler(name: str, features: bool) -> Json:
    return {
        "name": name,
        "features": {"recursiveReadOnlyMounts": features, "userNamespaces": features},
    }


@dataclass(frozen=True, slots=True)
class _Shape:
    """The fields that nodes of a shape share. Even numbers fit HALF_CLASS, odd ones don't."""

    labels: Json
    taints: list[Json]
    handlers: list[Json]


def _shape(number: int) -> _Shape:
    labels = {_POOL_LABEL: f"pool-{number}"}
    taints = []
    names = [name for bit, name in enumerate(EXTRA_HANDLERS) if number >> bit & 1]
    if number % 2 == 0:
        labels[_GVISOR_LABEL] = "true"
        names.append("runsc")
        if number % 4 == 2:
            taints.append(_taint(_GVISOR_LABEL, "true"))
    elif number % 8 == 3:  # has gVisor, and a GPU whose taint keeps other pods away
        labels[_GVISOR_LABEL] = "true"
        names.append("runsc")
        taints.append(_taint("nvidia.com/gpu", "present"))
    elif number % 8 == 5:  # labelled before gVisor is installed
        labels[_GVISOR_LABEL] = "true"
    elif number % 6 == 1:
        labels[_KATA_LABEL] = "true"
        taints.append(_taint("dedicated", "kata"))
    handlers = [_handler("", True), _handler("runc", True)]
    handlers += [_handler(name, name in ("crun", "youki")) for name in sorted(names)]
    # The kubelet of one shape is too old to report handlers.
    return _Shape(labels, taints, [] if number == 7 else handlers)


def _runtime_class(number: int, shapes: int) -> Json:
    name, handler, scheduling = f"tenant-{number:05d}", "", {}
    overhead: Json = {}
    if number == 0:
        name, handler = HALF_CLASS, "runsc"
        scheduling = {
            "nodeSelector": {_GVISOR_LABEL: "true"},
            "tolerations": [{"key": _GVISOR_LABEL, "operator": "Exists", "effect": "NoSchedule"}],
        }
    elif number == 1:
        name, handler = "kata", "kata-qemu"
        overhead = {"podFixed": {"cpu": "250m", "memory": "160Mi"}}
        scheduling = {
            "nodeSelector": {_KATA_LABEL: "true", "kubernetes.io/os": "linux"},
            "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "kata"}],
        }
    elif number == 2:
        name, handler = "runc", "runc"
    elif number == 3:
        name, handler = "wasm", "spin"
        scheduling = {"nodeSelector": {"wasm.example.com/spin": "true"}}
    elif number == 4:
        name, handler = "windows-2022", "runhcs-wcow-process"
        scheduling = {"nodeSelector": {"kubernetes.io/os": "windows"}}
    else:
        handler = EXTRA_HANDLERS[number % len(EXTRA_HANDLERS)]
        scheduling = {"nodeSelector": {_POOL_LABEL: f"pool-{number % shapes}"}}
    document: Json = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": handler,
    }
    if overhead:
        document["overhead"] = overhead
    if scheduling:
        document["scheduling"] = scheduling
    return document


class Cluster:
    """A cluster as in its ClusterSpec. Its objects are made on demand."""

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self._shapes: dict[int, _Shape] = {}

    @cached_property
    def names(self) -> list[str]:
        return [_name(index) for index in range(self.spec.nodes)]

    def shape_number(self, index: int) -> int:
        shapes = self.spec.shapes
        pair, odd = divmod(index, 2)
        return (
            2 * (pair % (shapes // 2)) + 1 if odd and shapes > 1 else 2 * (pair % -(-shapes // 2))
        )

    def node(self, index: int, *, fat: bool = False) -> Json:
        """A v1 Node with the deciding fields and a few others; fat: 10 KB, as from a kubelet."""
        number = self.shape_number(index)
        shape = self._shapes.get(number)
        if shape is None:
            shape = self._shapes[number] = _shape(number)
        name = self.names[index]
        labels = {
            **shape.labels,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": ("m5.4xlarge", "c6i.8xlarge", "r6g.2xlarge")[
                number % 3
            ],
            "topology.kubernetes.io/region": "eu-west-1",
            "topology.kubernetes.io/zone": f"eu-west-1{'abc'[index % 3]}",
        }
        metadata = {
            "name": name,
            "uid": made_up_uuid("node", index),
            "labels": dict(sorted(labels.items())),
        }
        status: Json = {
            "nodeInfo": {"containerRuntimeVersion": "containerd://2.1.4"},
            "runtimeHandlers": shape.handlers,
        }
        spec: Json = {"taints": shape.taints}
        for part, key in ((spec, "taints"), (status, "runtimeHandlers")):
            if not part[key]:
                del part[key]
        node: Json = {"metadata": metadata, "spec": spec, "status": status}
        return fatten(node, index) if fat else node

    def runtime_classes(self) -> list[Json]:
        return [
            _runtime_class(number, self.spec.shapes) for number in range(self.spec.runtime_classes)
        ]

    def write_manifest(self, path: Path) -> None:
        """Write a List of all RuntimeClasses and Nodes, one object on each line."""
        nodes = (
            {"apiVersion": "v1", "kind": "Node", **self.node(index)}
            for index in range(self.spec.nodes)
        )
        objects = map(go_json, (*self.runtime_classes(), *nodes))
        with path.open("wb") as file:
            file.write(b'{"apiVersion":"v1","kind":"List","items":[\n' + next(objects))
            file.writelines(b",\n" + each for each in objects)
            file.write(b"\n]}\n")
