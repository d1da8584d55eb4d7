"""Clusters made up from a seed: Node and RuntimeClass objects, and manifests of them.

    python -m loadtest.generator --nodes 65000 --out cluster.json

The same seed gives the same cluster. What decides about RuntimeClasses is laid out so that
1. as many different shapes exist as asked for, whatever the number of RuntimeClasses;
2. HALF_CLASS fits the nodes of even index and no other (with one shape: all nodes);
3. it is refused for three reasons: the selector, a taint, a missing handler.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
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

#: Any combination of them makes another shape: 2 ** 13 = 8,192.
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

MAX_SHAPES: Final = 2 ** len(EXTRA_HANDLERS)

#: The nodes' names hold their number in three bytes of an address.
MAX_NODES: Final = 2**24

_BASE_36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """How large and how varied a cluster is."""

    nodes: int = 1000
    shapes: int = 20
    runtime_classes: int = 5
    seed: int = 1

    def __post_init__(self) -> None:
        for value, most, what in (
            (self.nodes, MAX_NODES, "nodes"),
            (self.shapes, MAX_SHAPES, "shapes"),
            (self.runtime_classes, 100_000, "RuntimeClasses"),
        ):
            if not 1 <= value <= most:
                raise ValueError(f"{value} {what}: expected 1 to {most}")


def go_json(value: object) -> bytes:
    """JSON as Go's encoding/json writes it: compact, with <, > and & escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        if character in text:
            text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode()


def base_36(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, 36)
        digits.append(_BASE_36[digit])
    return "".join(reversed(digits))


def made_up_uuid(*seed: object) -> str:
    digest = hashlib.sha256(repr(seed).encode()).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"


def _name(index: int, seed: int) -> str:
    """A name as clouds and people give them; unique by its index."""
    kind, digest = index // 2 % 4, hashlib.sha256(f"{seed}/{index}".encode()).hexdigest()
    if kind == 0:
        address = f"{index >> 16 & 255}-{index >> 8 & 255}-{index & 255}"
        return f"ip-10-{address}.eu-west-1.compute.internal"
    if kind == 1:
        return f"gke-prod-pool-{index // 512 % 40}-{digest[:8]}-{base_36(index, 5)}"
    if kind == 2:
        serial = int(digest[:7], 16) % 10**8
        return f"aks-nodepool{index // 1024 % 20}-{serial:08d}-vmss{base_36(index, 6)}"
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
    """What the nodes of one shape have in common; even numbers fit HALF_CLASS, odd ones don't."""

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
    elif number % 8 == 3:  # gVisor is there, and so is a GPU that other pods are kept from
        labels[_GVISOR_LABEL] = "true"
        names.append("runsc")
        taints.append(_taint("nvidia.com/gpu", "present"))
    elif number % 8 == 5:  # labelled too early
        labels[_GVISOR_LABEL] = "true"
    elif number % 6 == 1:
        labels[_KATA_LABEL] = "true"
        taints.append(_taint("dedicated", "kata"))
    handlers = [_handler("", True), _handler("runc", True)]
    handlers += [_handler(name, name in ("crun", "youki")) for name in sorted(names)]
    # One shape with a kubelet that is too old to report handlers.
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
    """A cluster of ClusterSpec's size; its objects are made when they are asked for."""

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self._shapes: dict[int, _Shape] = {}

    @cached_property
    def names(self) -> list[str]:
        return [_name(index, self.spec.seed) for index in range(self.spec.nodes)]

    def fits_half_class(self, index: int) -> bool:
        return self.shape_number(index) % 2 == 0

    def shape_number(self, index: int) -> int:
        shapes = self.spec.shapes
        pair, odd = divmod(index, 2)
        return (
            2 * (pair % (shapes // 2)) + 1 if odd and shapes > 1 else 2 * (pair % -(-shapes // 2))
        )

    def node(self, index: int, *, fat: bool = False) -> Json:
        """A v1 Node: slim is what decides and a little more, fat is 10 KB as a kubelet has it."""
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
            "uid": made_up_uuid(self.spec.seed, "node", index),
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

    def manifest(self, *, fat: bool = False) -> Iterator[bytes]:
        """A List of all RuntimeClasses and Nodes, an object a line."""
        return list_of(
            (
                *self.runtime_classes(),
                *(
                    {"apiVersion": "v1", "kind": "Node", **self.node(index, fat=fat)}
                    for index in range(self.spec.nodes)
                ),
            )
        )

    def write_manifest(self, path: Path, *, fat: bool = False) -> None:
        with path.open("wb") as file:
            file.writelines(self.manifest(fat=fat))


def list_of(objects: Iterable[Json]) -> Iterator[bytes]:
    """A v1 List in pieces."""
    yield b'{"apiVersion":"v1","kind":"List","items":['
    separator = b"\n"
    for each in objects:
        yield separator + go_json(each)
        separator = b",\n"
    yield b"\n]}\n"


def add_cluster_flags(parser: argparse.ArgumentParser, nodes: int) -> None:
    defaults = ClusterSpec()
    parser.add_argument("--nodes", type=int, default=nodes, help="nodes of the cluster")
    parser.add_argument("--shapes", type=int, default=defaults.shapes, help="different shapes")
    parser.add_argument(
        "--runtimeclasses", type=int, default=defaults.runtime_classes, help="RuntimeClasses"
    )
    parser.add_argument("--seed", type=int, default=defaults.seed, help="another, another cluster")


def cluster_of(flags: argparse.Namespace) -> Cluster:
    """The cluster that the flags describe. Raises ValueError."""
    return Cluster(ClusterSpec(flags.nodes, flags.shapes, flags.runtimeclasses, flags.seed))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m loadtest.generator",
        description="Write the manifest of a made-up cluster (a JSON List).",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add_cluster_flags(parser, 65_000)
    parser.add_argument("--fat", action="store_true", help="nodes of 10 KB as a kubelet has them")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to write")
    flags = parser.parse_args(argv)
    try:
        cluster = cluster_of(flags)
        cluster.write_manifest(flags.out, fat=flags.fat)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    size = flags.out.stat().st_size / 2**20
    print(
        f"{flags.out}: {flags.nodes} nodes, {flags.runtimeclasses} RuntimeClasses, {size:.1f} MiB"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
