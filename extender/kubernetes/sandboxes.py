"""Whether the kubelet reports a pod's sandbox, and if not, whether the pod itself may be the cause.

The condition PodReadyToStartContainers is False until the volumes are mounted and the sandbox has
its network (pkg/kubelet/kubelet_pods.go, v1.36.2). Kubelets set it since 1.29.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from msgspec import Raw, Struct, field

from extender.kubernetes.class_annotations import RESOURCE
from extender.kubernetes.decoder import ObjectMeta, decode, may_have, nullable
from extender.kubernetes.explained_pods import uses_of
from extender.kubernetes.pods import NO_METADATA, RawPod, RawPodSpec, RawPodStatus
from extender.kubernetes.resources import Containers, amounts_of, containers_of
from extender.model.using_objects import Sandbox

_SANDBOX: Final = "PodReadyToStartContainers"


class _Spec(Struct, rename="camel"):
    node_name: str | None = None
    runtime_class_name: str | None = None


class StartingPod(Struct):
    """The fields decoded of every Pod. More fields are decoded for Pods without a sandbox."""

    kind: str | None = None
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: _Spec = field(default_factory=_Spec)
    status: RawPodStatus = field(default_factory=RawPodStatus)

    @property
    def name(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"


def sandbox_of(pod: StartingPod, raw: Raw) -> Sandbox | None:
    """The state of a pod's sandbox. raw: the pod's JSON. Raises DecodeError.

    None if the pod has no node, and if it failed or is being deleted before it had a sandbox.
    """
    metadata, status = pod.metadata, pod.status
    if not pod.spec.node_name:
        return None
    owners = (each.uid for each in metadata.owners("Pod.metadata") if each.controller and each.uid)
    found = Sandbox(
        pod.spec.node_name.encode("utf-8", "replace"),
        pod.spec.runtime_class_name or "",
        next(owners, pod.name),
    )
    ready = status.condition(_SANDBOX, "True")
    if ready is not None:
        return found._replace(started=seconds_of(ready.last_transition_time) or 0.0)
    bound = seconds_of(status.scheduled_at or metadata.created_at("Pod.metadata")) or 0.0
    if status.phase in ("Running", "Succeeded"):
        return found._replace(started=bound)
    if status.is_finished or bytes(metadata.deletion_timestamp) != b"null":
        return None
    failing = status.condition(_SANDBOX, "False")
    since = seconds_of(failing.last_transition_time) if failing else None
    counts = failing is not None and not _own_fault(raw)
    return found._replace(bound=bound, failing_since=since, counts=counts)


def seconds_of(text: str | None) -> float | None:
    """An RFC 3339 time in seconds since 1970; None if the text is not a time."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except (ValueError, OverflowError):
        return None


# If the pod itself may be why it has no sandbox, it says nothing about its node. Resources,
# annotations and volumes count as a cause unless they are known to be harmless.

#: Features (class_annotations.FEATURES) that may be the cause: the kubelet or the runtime handles
#: them before or while it creates the sandbox.
_FEATURES: Final = frozenset(
    {
        *("hostNetwork", "hostPID", "hostIPC", "hostPorts", "sysctls", "seLinux", "privileged"),
        *("blockDevices", "hostPath", "imageVolumes", "podLevelResources", "deviceClaims"),
    }
)

#: Harmless resources: only the scheduler and cgroups use them. Others are devices or huge pages.
_RESOURCES: Final = {f"{RESOURCE}{each}" for each in ("cpu", "memory", "ephemeral-storage")}

#: The prefixes of harmless annotations: no container runtime or network plugin uses them.
_ANNOTATIONS: Final = (
    *("kubectl.kubernetes.io/", "kubernetes.io/config.", "kubernetes.io/change-cause"),
    *("kubernetes.io/description", "kubernetes.io/limit-ranger", "scheduler.alpha.kubernetes.io/"),
    *("cluster-autoscaler.kubernetes.io/", "controller.kubernetes.io/", "batch.kubernetes.io/"),
    *("apps.kubernetes.io/", "runtimeclass-extender/", "prometheus.io/", "checksum/", "helm.sh/"),
    *("meta.helm.sh/", "argocd.argoproj.io/", "openshift.io/scc", "security.openshift.io/"),
)

#: In billionths. With lower limits the pod's cgroup is too small to start a sandbox in.
_LEAST: Final = {"memory": 64 * 2**20 * 10**9, "cpu": 10**9 // 10}

#: The ConfigMaps that the cluster creates in each namespace, for the service account token.
_KEPT: Final = ("kube-root-ca.crt", "openshift-service-ca.crt")


def _own_fault(raw: Raw) -> bool:
    pod = decode(raw, RawPod, "Pod")
    spec = pod.spec or RawPodSpec()
    annotations = (pod.metadata or NO_METADATA).read_annotations("Pod.metadata")
    containers = containers_of(spec)
    uses = uses_of(pod, containers)
    volumes = nullable(spec.volumes, list[dict[str, Any] | None], "Pod.spec.volumes") or ()
    return (
        spec.host_users is not None
        or bool(nullable(spec.fqdn, bool, "Pod.spec.setHostnameAsFQDN"))
        or not all(key.startswith(_ANNOTATIONS) for key in annotations)
        or may_have(spec.security_context, b"windowsOptions")
        or bool(uses & _FEATURES)
        or not {each for each in uses if each.startswith(RESOURCE)} <= _RESOURCES
        or not all(_is_there(*each) for volume in volumes for each in (volume or {}).items())
        or any(total < _LEAST[name] for name, total in _limits(containers))
    )


def _limits(containers: Containers) -> Iterator[tuple[str, int]]:
    """The limits of the pod's cgroup. The kubelet sets one if every container has one."""
    limits = (each.resources.limits if each.resources else None for each in containers.regular)
    amounts = [amounts_of(each, "Pod.spec.containers") for each in limits]
    for name in _LEAST:
        if amounts and all(name in each for each in amounts):
            yield name, sum(each[name] for each in amounts)


def _is_there(kind: str, source: Any) -> bool:
    """Whether a volume's source depends on nothing that may be missing."""
    found = source if isinstance(source, dict) else {}
    if kind == "emptyDir":
        return found.get("medium") in (None, "", "Memory")
    if kind in ("configMap", "secret"):
        is_kept = kind == "configMap" and found.get("name") in _KEPT
        return found.get("optional") is True or is_kept
    if kind == "projected":
        parts = (each or {} for each in found.get("sources") or ())
        return all(_is_there(*each) for part in parts for each in part.items())
    return kind in ("name", "downwardAPI", "serviceAccountToken") or source is None
