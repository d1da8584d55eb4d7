"""Workloads: the pod that a Deployment, a Job and the like make."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from msgspec import Raw, Struct

from extender.decoding.decoder import DecodeError, decode
from extender.decoding.explained_pods import explained_pod
from extender.decoding.pods import NO_METADATA, RawMetadata
from extender.objects import Pod, Toleration

#: The kinds that have a template, by the group of their apiVersion.
WORKLOAD_GROUPS: Final = {
    "CronJob": "batch",
    "DaemonSet": "apps",
    "Deployment": "apps",
    "Job": "batch",
    "PodTemplate": "",
    "ReplicaSet": "apps",
    "ReplicationController": "",
    "StatefulSet": "apps",
}

#: The path of the pod in an object of each kind.
TEMPLATE_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(WORKLOAD_GROUPS, ("spec", "template")),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "Pod": (),
    "PodTemplate": ("template",),
}

DAEMON_SET: Final = "DaemonSet"

#: The tolerations that the DaemonSet controller adds to every pod, and to those with hostNetwork
#: (pkg/controller/daemon/util/daemonset_util.go, AddOrUpdateDaemonPodTolerations, v1.36.2).
_DAEMON_TOLERATIONS: Final = tuple(
    Toleration(f"node.kubernetes.io/{key}", "Exists", "", effect)
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
_ON_HOST_NETWORK: Final = Toleration(
    "node.kubernetes.io/network-unavailable", "Exists", "", "NoSchedule"
)


class _HostNetworkSpec(Struct, rename="camel"):
    host_network: bool | None = None


class _HostNetworkTemplate(Struct):
    spec: _HostNetworkSpec | None = None


_NULL: Final = Raw(b"null")


class _TemplateSpec(Struct):
    template: Raw = _NULL


class _JobTemplate(Struct):
    spec: _TemplateSpec | None = None


class _WorkloadSpec(Struct, rename="camel"):
    template: Raw = _NULL
    job_template: _JobTemplate | None = None


class RawWorkload(Struct):
    metadata: RawMetadata | None = None
    spec: _WorkloadSpec | None = None
    #: A PodTemplate has its template here, and no spec.
    template: Raw = _NULL


def template_pod_of(raw: RawWorkload, kind: str) -> Pod:
    """The pod that the workload makes, by the workload's own name and namespace.

    Raises DecodeError when it has no template, or one of a wrong type.
    """
    template, place = template_of(raw, kind)
    if template == _NULL:
        raise DecodeError(f"{place}: missing")
    metadata = raw.metadata or NO_METADATA
    pod = explained_pod(template, place)
    if kind == DAEMON_SET:
        pod = with_daemon_tolerations(pod, template)
    return replace(pod, namespace=metadata.namespace or "", name=metadata.name or "", uid="")


def with_daemon_tolerations(pod: Pod, template: bytes | Raw) -> Pod:
    """The pod of a template with what the DaemonSet controller adds. Raises DecodeError."""
    spec = decode(template, _HostNetworkTemplate).spec
    on_host = bool(spec and spec.host_network)
    added = (*_DAEMON_TOLERATIONS, *((_ON_HOST_NETWORK,) if on_host else ()))
    missing = tuple(each for each in added if each not in pod.tolerations)
    return replace(pod, tolerations=(*pod.tolerations, *missing))


def template_of(raw: RawWorkload, kind: str) -> tuple[Raw, str]:
    """The template, null where there is none, and its place."""
    spec = raw.spec or _WorkloadSpec()
    template = spec.template
    if kind == "PodTemplate":
        template = raw.template
    elif kind == "CronJob":
        job = spec.job_template.spec if spec.job_template else None
        template = job.template if job else _NULL
    return template, ".".join(TEMPLATE_PATHS[kind])
