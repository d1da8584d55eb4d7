"""The kinds of objects that are followed or listed, and their paths at the API server."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects and its path at the API server."""

    name: str
    resource: str
    path: str


NAMESPACES: Final = Kind("Namespace", "namespaces", "/api/v1/namespaces")
NODES: Final = Kind("Node", "nodes", "/api/v1/nodes")
PODS: Final = Kind("Pod", "pods", "/api/v1/pods")
RUNTIME_CLASSES: Final = Kind(
    "RuntimeClass", "runtimeclasses.node.k8s.io", "/apis/node.k8s.io/v1/runtimeclasses"
)

#: The kinds that make pods from a template.
WORKLOADS: Final = (
    Kind("CronJob", "cronjobs.batch", "/apis/batch/v1/cronjobs"),
    Kind("DaemonSet", "daemonsets.apps", "/apis/apps/v1/daemonsets"),
    Kind("Deployment", "deployments.apps", "/apis/apps/v1/deployments"),
    Kind("Job", "jobs.batch", "/apis/batch/v1/jobs"),
    Kind("ReplicaSet", "replicasets.apps", "/apis/apps/v1/replicasets"),
    Kind("ReplicationController", "replicationcontrollers", "/api/v1/replicationcontrollers"),
    Kind("StatefulSet", "statefulsets.apps", "/apis/apps/v1/statefulsets"),
)


def pods_of(namespace: str) -> Kind:
    """The pods of one namespace."""
    return Kind(PODS.name, PODS.resource, f"/api/v1/namespaces/{quote(namespace, safe='')}/pods")


def pod_path(namespace: str, name: str) -> str:
    """The path of one pod at the API server."""
    return f"{pods_of(namespace).path}/{quote(name, safe='')}"
