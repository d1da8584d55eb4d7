"""The fields that a kubelet adds to a Node, up to about 10 KB. No verdict depends on them.

Conditions, addresses and the like are those of a real kubelet (tests/recorded/real-node). Images
are most of the size, as on nodes that have run for a while.
"""

import hashlib
import json
from functools import cache
from typing import Any, Final

from loadtest.processes import ROOT

Json = dict[str, Any]

#: The number of images listed; a kubelet reports up to 50 (--node-status-max-images).
IMAGES: Final = 32


@cache
def _real() -> Json:
    recorded = json.loads((ROOT / "tests/recorded/real-node/node.json").read_bytes())
    node: Json = recorded["items"][0]
    return node


def _image(index: int, number: int) -> Json:
    repository = f"registry.eu-west-1.example.com/platform/team-{number % 7}/service-{number:02d}"
    digest = hashlib.sha256(f"{index % 13}/{number}".encode()).hexdigest()
    return {
        "names": [f"{repository}@sha256:{digest}", f"{repository}:v1.{number}.{index % 13}"],
        "sizeBytes": 30_000_000 + 1_234_567 * number,
    }


def fatten(node: Json, index: int) -> Json:
    """The node with the fields that a kubelet reports."""
    real = _real()
    metadata = {
        **real["metadata"],
        "resourceVersion": str(100_000 + 17 * index),
        **node["metadata"],
    }
    images = [_image(index, number) for number in range(IMAGES)]
    status = {**real["status"], "images": images, "runtimeHandlers": []}
    return {
        # Go writes a struct's fields in their order: the name first.
        "metadata": {"name": metadata.pop("name"), **metadata},
        "spec": node["spec"],
        "status": status | node["status"],
    }
