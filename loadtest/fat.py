"""What a kubelet and controllers add to a Node until it has about 10 KB.

Images and managedFields are most of it, as on real nodes; nothing of it decides anything.
"""

import hashlib
from typing import Any, Final

Json = dict[str, Any]

#: Images listed; kubelet reports up to 50 (--node-status-max-images).
IMAGES: Final = 24

_BORN: Final = "2026-11-20T07:14:06Z"
_HEARTBEAT: Final = "2026-11-20T09:14:06Z"

_CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)

_RESOURCES: Final = {
    "cpu": "16",
    "ephemeral-storage": "104845292Ki",
    "hugepages-1Gi": "0",
    "hugepages-2Mi": "0",
    "memory": "64766040Ki",
    "pods": "110",
}


def _condition(kind: str, status: str, reason: str, message: str) -> Json:
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": _HEARTBEAT,
        "lastTransitionTime": _BORN,
        "reason": reason,
        "message": message,
    }


def _image(index: int, number: int) -> Json:
    repository = f"registry.eu-west-1.example.com/platform/team-{number % 7}/service-{number:02d}"
    digest = hashlib.sha256(f"{index % 13}/{number}".encode()).hexdigest()
    return {
        "names": [f"{repository}@sha256:{digest}", f"{repository}:v1.{number}.{index % 13}"],
        "sizeBytes": 30_000_000 + 1_234_567 * number,
    }


def _managed(manager: str, subresource: str, fields: Json) -> Json:
    entry = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": _HEARTBEAT,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return entry | {"subresource": subresource} if subresource else entry


def _managed_fields(node: Json) -> list[Json]:
    labels: Json = {f"f:{key}": {} for key in node["metadata"]["labels"]}
    annotations: Json = {
        "f:csi.volume.kubernetes.io/nodeid": {},
        "f:volumes.kubernetes.io/controller-managed-attach-detach": {},
    }
    conditions: Json = {
        f'k:{{"type":"{kind}"}}': {"f:lastHeartbeatTime": {}, "f:lastTransitionTime": {}}
        | {"f:message": {}, "f:reason": {}, "f:status": {}}
        for kind, *_ in _CONDITIONS
    }
    resources: Json = {f"f:{key}": {} for key in _RESOURCES}
    return [
        _managed(
            "kubelet",
            "",
            {
                "f:metadata": {
                    "f:annotations": {".": {}} | annotations,
                    "f:labels": {".": {}} | labels,
                }
            },
        ),
        _managed(
            "kube-controller-manager",
            "",
            {
                "f:metadata": {"f:annotations": {"f:node.alpha.kubernetes.io/ttl": {}}},
                "f:spec": {"f:podCIDR": {}, "f:podCIDRs": {".": {}}, "f:taints": {}},
            },
        ),
        _managed(
            "kubelet",
            "status",
            {
                "f:status": {
                    "f:allocatable": resources,
                    "f:capacity": resources,
                    "f:conditions": conditions,
                    "f:images": {},
                    "f:nodeInfo": {"f:bootID": {}, "f:kernelVersion": {}, "f:kubeletVersion": {}},
                    "f:runtimeHandlers": {},
                }
            },
        ),
    ]


def fatten(node: Json, index: int) -> Json:
    """The node as encoding/json has it in a running cluster, fields in the order of core/v1."""
    metadata, spec, status = node["metadata"], node["spec"], node["status"]
    address = f"10.{index >> 16 & 255}.{index >> 8 & 255}.{index & 255}"
    pods = f"10.{128 + (index >> 8 & 127)}.{index & 255}.0/24"
    machine = hashlib.sha256(f"machine/{index}".encode()).hexdigest()[:32]
    return {
        "metadata": {
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": str(100_000 + 17 * index),
            "creationTimestamp": _BORN,
            "labels": metadata["labels"],
            "annotations": {
                "csi.volume.kubernetes.io/nodeid": f'{{"ebs.csi.aws.com":"i-{machine[:17]}"}}',
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
            "managedFields": _managed_fields(node),
        },
        "spec": {
            "podCIDR": pods,
            "podCIDRs": [pods],
            "providerID": f"aws:///eu-west-1a/i-{machine[:17]}",
            **spec,
        },
        "status": {
            "capacity": _RESOURCES,
            "allocatable": _RESOURCES | {"cpu": "15890m", "memory": "61847832Ki"},
            "conditions": [_condition(*each) for each in _CONDITIONS],
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": metadata["name"]},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": machine,
                "systemUUID": machine,
                "bootID": machine,
                "kernelVersion": "6.12.41-cloud-amd64",
                "osImage": "Debian GNU/Linux 13 (trixie)",
                "containerRuntimeVersion": status["nodeInfo"]["containerRuntimeVersion"],
                "kubeletVersion": "v1.36.2",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
            "images": [_image(index, number) for number in range(IMAGES)],
            **{key: value for key, value in status.items() if key == "runtimeHandlers"},
        },
    }
