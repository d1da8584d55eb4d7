"""The kinds of objects that are followed or listed, and where the API server has them."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects and where the API server has them."""

    name: str
    resource: str
    path: str


NAMESPACES: Final = Kind("Namespace", "namespaces", "/api/v1/namespaces")
NODES: Final = Kind("Node", "nodes", "/api/v1/nodes")
PODS: Final = Kind("Pod", "pods", "/api/v1/pods")
RUNTIME_CLASSES: Final = Kind(
    "RuntimeClass", "runtimeclasses.node.k8s.io", "/apis/node.k8s.io/v1/runtimeclasses"
)


def pod_path(namespace: str, name: str) -> str:
    """Where the API server has one pod."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
