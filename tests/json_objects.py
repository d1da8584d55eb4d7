"""Objects as the JSON documents that they would be decoded from."""

from typing import Any

from extender.model.objects import Node, Pod, RuntimeClass, Taint
from extender.model.pod_needs import KubeletNeeds, Toleration

Json = dict[str, Any]


def toleration_json(toleration: Toleration) -> Json:
    return {name: getattr(toleration, name) for name in Toleration._fields[:4]}


def taint_json(taint: Taint) -> Json:
    return {name: getattr(taint, name) for name in Taint.__slots__}


def node_json(node: Node) -> Json:
    runtime = "docker://28.3.0" if node.is_docker else "containerd://2.1.4"
    handlers = [
        {
            "name": each.name,
            "features": {
                "userNamespaces": each.user_namespaces,
                "recursiveReadOnlyMounts": each.recursive_read_only_mounts,
            },
        }
        for each in node.handlers
    ]
    return {
        "kind": "Node",
        "metadata": {"name": node.name, "labels": dict(node.labels)},
        "spec": {"taints": list(map(taint_json, node.taints)), "unschedulable": node.unschedulable},
        "status": {
            "runtimeHandlers": handlers,
            "nodeInfo": {
                "containerRuntimeVersion": runtime,
                "operatingSystem": node.kubelet.system,
                "kubeletVersion": _version(node),
            },
            "features": {"supplementalGroupsPolicy": not node.kubelet.rejects_strict_groups},
        },
    }


def _version(node: Node) -> str:
    """A version that makes the node's kubelet what it is, its features given."""
    if node.kubelet.may_lack_user_namespaces:
        return f"{node.kubelet.may_lack_user_namespaces}.3"
    return "v1.36.2" if node.kubelet.rejects_strict_groups else "v1.30.14"


def class_json(runtime_class: RuntimeClass) -> Json:
    return {
        "kind": "RuntimeClass",
        "metadata": {"name": runtime_class.name},
        "handler": runtime_class.handler,
        "scheduling": {
            "nodeSelector": dict(runtime_class.node_selector),
            "tolerations": list(map(toleration_json, runtime_class.tolerations)),
        },
    }


def pod_json(pod: Pod) -> Json:
    recursive = "Enabled" if pod.features.recursive_read_only_mounts else "IfPossible"
    spec: Json = {
        "nodeSelector": dict(pod.node_selector),
        "tolerations": list(map(toleration_json, pod.tolerations)),
        "containers": [{"volumeMounts": [{"recursiveReadOnly": recursive}]}],
    }
    if pod.runtime_class_name:
        spec["runtimeClassName"] = pod.runtime_class_name
    if pod.features.user_namespaces:
        spec["hostUsers"] = False
    metadata: Json = {"namespace": pod.namespace, "name": pod.name}
    needs = pod.kubelet_needs or KubeletNeeds()
    if needs.system is not None:
        spec["os"] = {"name": needs.system}
    if needs.system_label is not None:
        metadata["labels"] = {"kubernetes.io/os": needs.system_label}
    if needs.strict_groups:
        spec["securityContext"] = {"supplementalGroupsPolicy": "Strict"}
    if needs.pod_resources:
        spec["resources"] = {"limits": {"memory": "1Gi"}}
    return {"metadata": metadata, "spec": spec}
