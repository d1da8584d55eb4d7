"""Pods made up for a cluster: of some 7 KB, as kube-apiserver has them, none of them kept."""

from collections.abc import Sequence
from typing import Final, overload

from loadtest.generator import HALF_CLASS, Cluster, Json, go_json, made_up_uuid

#: One pod in so many names no RuntimeClass, waits for a node, or is on one that lacks the class.
PLAIN: Final = 2
PENDING: Final = 97
STRANDED: Final = 101

_NAME: Final = b"@pod-name@"
_SPACE: Final = b"@pod-namespace@"
_NODE: Final = b"@node-name@"


def _template(*, of_class: bool, bound: bool) -> bytes:
    """The JSON of a pod of three containers; its version is put in as it is sent."""
    containers = [
        {
            "name": f"container-{number}",
            "image": f"registry.example.com/team/service-{number}:1.2.3",
            "env": [{"name": f"VARIABLE_{n}", "value": f"value-{n}" * 3} for n in range(12)],
            "resources": {
                "limits": {"cpu": "500m", "memory": "512Mi"},
                "requests": {"cpu": "100m", "memory": "256Mi"},
            },
            "volumeMounts": [
                {"name": "config", "mountPath": "/etc/config", "readOnly": True},
                {
                    "name": "kube-api-access",
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                    "readOnly": True,
                },
            ],
        }
        for number in range(3)
    ]
    managed: list[Json] = [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-03-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:spec": {
                    f'k:{{"name":"container-{n}"}}': {".": {}, "f:env": {}, "f:image": {}}
                    for n in range(8)
                }
            },
        }
        for manager in ("kube-controller-manager", "kubelet")
    ]
    spec: Json = {"containers": containers, "serviceAccountName": "default"}
    if of_class:
        spec |= {"runtimeClassName": HALF_CLASS, "overhead": {"cpu": "100m", "memory": "64Mi"}}
    if bound:
        spec["nodeName"] = _NODE.decode()
    scheduled = {
        "type": "PodScheduled",
        "status": "True" if bound else "False",
        "lastTransitionTime": "2026-03-02T00:00:00Z",
    }
    return go_json(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": _NAME.decode(),
                "namespace": _SPACE.decode(),
                "uid": made_up_uuid("pod"),
                "resourceVersion": "@version@",
                "creationTimestamp": "2026-03-02T00:00:00Z",
                "labels": {"app.kubernetes.io/name": "service", "pod-template-hash": "5d4f8c9b7"},
                "managedFields": managed,
            },
            "spec": spec,
            "status": {
                "phase": "Running" if bound else "Pending",
                "conditions": [scheduled],
                "containerStatuses": [
                    {"name": each["name"], "ready": True, "restartCount": 0, "state": {}}
                    for each in containers
                ],
            },
        }
    )


class Pods(Sequence[bytes]):
    """So many pods of a cluster, by namespace and name; none is kept."""

    def __init__(self, cluster: Cluster, count: int) -> None:
        self._count = count
        half = range(cluster.spec.nodes)
        self._fit = [cluster.names[n] for n in half if cluster.fits_half_class(n)]
        self._others = [cluster.names[n] for n in half if not cluster.fits_half_class(n)]
        self._templates = {
            (of_class, bound): _template(of_class=of_class, bound=bound)
            for of_class in (False, True)
            for bound in (False, True)
        }

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self._pod(number) for number in range(*index.indices(self._count))]
        if not 0 <= index < self._count:
            raise IndexError(index)
        return self._pod(index)

    def _pod(self, number: int) -> bytes:
        of_class, bound = number % PLAIN == 0, number % PENDING != 0
        nodes = self._others if self._others and number % STRANDED == 0 else self._fit
        raw = self._templates[of_class, bound]
        for place, text in (
            (_NAME, f"service-{number:06}-5d4f8c9b7-x7x2m"),
            (_SPACE, f"team-{number // 1000:03}"),
            (_NODE, nodes[number % len(nodes)]),
        ):
            raw = raw.replace(place, text.encode(), 1)
        return raw
