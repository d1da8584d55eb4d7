"""Objects as the JSON documents that they would be decoded from."""

from typing import Any

from extender.objects import Node, Pod, RuntimeClass, Taint, Toleration

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
        "spec": {
            "taints": list(map(taint_json, node.taints)),
            "unschedulable": node.unschedulable,
        },
        "status": {
            "runtimeHandlers": handlers,
            "nodeInfo": {
                "containerRuntimeVersion": runtime,
                "operatingSystem": "windows" if node.is_windows else "linux",
            },
        },
    }


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
    return {"metadata": {"namespace": pod.namespace, "name": pod.name}, "spec": spec}
