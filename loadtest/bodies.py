"""Request bodies in exactly the form in which kube-scheduler 1.36.2 sends them.

It encodes ExtenderArgs with encoding/json: no spaces, struct fields in their order, maps sorted
by key. Pods have no managedFields (the scheduler's informer drops them), nodes have them.
"""

from collections.abc import Sequence
from typing import Any, Final

from loadtest.generator import go_json, made_up_uuid

Json = dict[str, Any]

_CREATED: Final = "2026-11-20T07:34:42Z"

#: The tolerations that the admission plugin DefaultTolerationSeconds adds to every pod.
_DEFAULT_TOLERATIONS: Final = [
    {
        "key": f"node.kubernetes.io/{condition}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for condition in ("not-ready", "unreachable")
]


def _container(name: str, image: str) -> Json:
    return {
        "name": name,
        "image": image,
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [
            {"name": "GOMAXPROCS", "value": "2"},
            {"name": "LOG_LEVEL", "value": "info"},
            {
                "name": "POD_NAME",
                "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
            },
        ],
        "resources": {
            "limits": {"memory": "512Mi"},
            "requests": {"cpu": "100m", "memory": "256Mi"},
        },
        "volumeMounts": [
            {
                "name": "kube-api-access-7x2kq",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            }
        ],
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "http", "scheme": "HTTP"},
            "timeoutSeconds": 1,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 3,
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True},
    }


def _volume() -> Json:
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    authority = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return {
        "name": "kube-api-access-7x2kq",
        "projected": {"sources": [token, {"configMap": authority}], "defaultMode": 420},
    }


def pod(serial: int, runtime_class: str = "") -> Json:
    """A Deployment's pod of about 3 KB. Its name and UID derive from the serial number."""
    owner = f"web-{serial // 10:08x}"
    spec: Json = {
        "volumes": [_volume()],
        "containers": [
            _container("web", "registry.example.com/shop/web:v1.42.0"),
            _container("proxy", "registry.example.com/mesh/proxy:v2.7.1"),
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "web",
        "serviceAccount": "web",
        "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
        "schedulerName": "default-scheduler",
        "tolerations": _DEFAULT_TOLERATIONS,
        "priority": 0,
    }
    if runtime_class:
        spec["runtimeClassName"] = runtime_class
    spec |= {"enableServiceLinks": True, "preemptionPolicy": "PreemptLowerPriority"}
    return {
        "metadata": {
            "name": f"{owner}-{serial:05x}",
            "generateName": f"{owner}-",
            "namespace": f"shop-{serial % 40}",
            "uid": made_up_uuid("pod", serial),
            "resourceVersion": str(10_000 + serial),
            "generation": 1,
            "creationTimestamp": _CREATED,
            "labels": {"app.kubernetes.io/name": "web", "pod-template-hash": f"{serial // 10:08x}"},
            "annotations": {"prometheus.io/scrape": "true"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": owner,
                    "uid": made_up_uuid("replicaset", serial // 10),
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": spec,
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def names_body(pod: bytes, names: Sequence[str]) -> bytes:
    """ExtenderArgs with nodeCacheCapable: true. Names have no character that JSON escapes."""
    quoted = '","'.join(names)
    listed = f'["{quoted}"]' if names else "[]"
    return b'{"Pod":' + pod + b',"Nodes":null,"NodeNames":' + listed.encode() + b"}"


def nodes_body(pod: bytes, nodes: Sequence[bytes]) -> bytes:
    """ExtenderArgs with nodeCacheCapable: false."""
    head = b'{"Pod":' + pod + b',"Nodes":{"metadata":{},"items":['
    return head + b",".join(nodes) + b']},"NodeNames":null}'


def meta_victims(serial: int, count: int = 2) -> bytes:
    """The victims on one node, by UID."""
    pods = [{"UID": made_up_uuid("victim", serial, number)} for number in range(count)]
    return go_json({"Pods": pods, "NumPDBViolations": 0})


def preempt_body(pod: bytes, sorted_names: Sequence[str], victims: Sequence[bytes]) -> bytes:
    """ExtenderPreemptionArgs with nodeCacheCapable: true; Go writes a map sorted by key."""
    entries = [
        b'"%b":%b' % (name.encode(), each) for name, each in zip(sorted_names, victims, strict=True)
    ]
    head = b'{"Pod":' + pod + b',"NodeNameToVictims":null,"NodeNameToMetaVictims":{'
    return head + b",".join(entries) + b"}}"


def review_body(pod: Json) -> bytes:
    """An AdmissionReview of a new pod, as kube-apiserver 1.36.2 sends it."""
    request = {
        "uid": made_up_uuid("review", pod["metadata"]["name"]),
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "admin", "groups": ["system:masters"]},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    document = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return go_json(document)
