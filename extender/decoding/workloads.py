"""Workloads: the pod that a Deployment, a Job and the like make."""

from dataclasses import replace
from typing import Final

from msgspec import Raw, Struct

from extender.decoding.decoder import DecodeError
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


class _HostNetworkWorkloadSpec(Struct):
    template: _HostNetworkTemplate | None = None


class RawDaemonSet(Struct):
    """The fields that are read only of a DaemonSet."""

    spec: _HostNetworkWorkloadSpec | None = None


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
    return replace(pod, namespace=metadata.namespace or "", name=metadata.name or "", uid="")


def with_daemon_tolerations(pod: Pod, raw: RawDaemonSet) -> Pod:
    """The pod with what the DaemonSet controller adds."""
    template = raw.spec.template if raw.spec else None
    on_host = bool(template and template.spec and template.spec.host_network)
    added = (*_DAEMON_TOLERATIONS, *((_ON_HOST_NETWORK,) if on_host else ()))
    missing = tuple(each for each in added if each not in pod.tolerations)
    return replace(pod, tolerations=(*pod.tolerations, *missing))


def template_of(raw: RawWorkload, kind: str) -> tuple[Raw, str]:
    """The template, null where there is none, and its place."""
    if kind == "PodTemplate":
        return raw.template, "template"
    spec = raw.spec or _WorkloadSpec()
    if kind == "CronJob":
        job = spec.job_template.spec if spec.job_template else None
        return (job.template if job else _NULL), "spec.jobTemplate.spec.template"
    return spec.template, "spec.template"


def template_path(kind: str) -> tuple[str, ...] | None:
    """The path of the pod in an object of a kind; () for a Pod, None where a kind makes no pods."""
    if kind == "Pod":
        return ()
    if kind not in WORKLOAD_GROUPS:
        return None
    if kind == "PodTemplate":
        return ("template",)
    if kind == "CronJob":
        return ("spec", "jobTemplate", "spec", "template")
    return ("spec", "template")
