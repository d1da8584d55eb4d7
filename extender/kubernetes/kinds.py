"""The kinds of objects that are watched or listed, and their paths at the API server."""

from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind, or its objects in one namespace. short: kubectl's name. version: the group's."""

    name: str
    group: str
    plural: str
    short: str = ""
    namespace: str = ""
    version: str = "v1"

    @property
    def path(self) -> str:
        version = f"/apis/{self.group}/{self.version}" if self.group else "/api/v1"
        within = f"/namespaces/{quote(self.namespace, safe='')}" if self.namespace else ""
        return f"{version}{within}/{self.plural}"

    @property
    def resource(self) -> str:
        """The name in RBAC and in kubectl: PLURAL.GROUP."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


NAMESPACES: Final = Kind("Namespace", "", "namespaces", "ns")
NODES: Final = Kind("Node", "", "nodes", "no")
PODS: Final = Kind("Pod", "", "pods", "po")
RUNTIME_CLASSES: Final = Kind("RuntimeClass", "node.k8s.io", "runtimeclasses")

#: Autoscalers' objects that describe the nodes they would add.
NODE_POOLS: Final = Kind("NodePool", "karpenter.sh", "nodepools")
NODE_TEMPLATES: Final = (
    NODE_POOLS,
    Kind("MachineDeployment", "cluster.x-k8s.io", "machinedeployments", version="v1beta1"),
)

#: Field selectors for the pods that may still run, and for those of them without a node.
ALIVE: Final = "status.phase!=Succeeded,status.phase!=Failed"
WAITING: Final = "spec.nodeName=,status.phase=Pending"

#: The path of the API server's version, which every client may read.
VERSION_PATH: Final = "/version"


def pods_of(namespace: str) -> Kind:
    """The pods of one namespace; of all namespaces if it is ""."""
    return replace(PODS, namespace=namespace)


def pod_path(namespace: str, name: str) -> str:
    return f"{pods_of(namespace).path}/{quote(name, safe='')}"
