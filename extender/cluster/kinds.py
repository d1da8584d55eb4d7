"""The kinds of objects that are followed or listed, and where the API server has them."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects and where the API server has them."""

    name: str
    resource: str
    path: str


NODES: Final = Kind("Node", "nodes", "/api/v1/nodes")
PODS: Final = Kind("Pod", "pods", "/api/v1/pods")
RUNTIME_CLASSES: Final = Kind(
    "RuntimeClass", "runtimeclasses.node.k8s.io", "/apis/node.k8s.io/v1/runtimeclasses"
)
