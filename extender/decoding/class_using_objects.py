"""Pods, workloads and nodes, with the few fields that show which RuntimeClasses are used."""

from typing import Final

from msgspec import Raw, Struct

from extender.decoding.common_parts import Quantities, quantities_of
from extender.decoding.decoder import StringMap, nullable, strings
from extender.decoding.pods import RawContainer, needs_recursive_read_only
from extender.objects import Features
from extender.using_objects import PlacedPod, Workload

_NULL: Final = Raw(b"null")
_FINISHED: Final = ("Succeeded", "Failed")
_ENDED: Final = ("Complete", "Failed")


class _Owner(Struct):
    kind: str | None = None
    controller: bool | None = None


class _Metadata(Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    creation_timestamp: str | None = None


class _Condition(Struct, rename="camel"):
    type: str | None = None
    status: str | None = None
    last_transition_time: str | None = None


class _Spec(Struct, rename="camel"):
    runtime_class_name: str | None = None
    node_name: str | None = None
    node_selector: StringMap = None
    overhead: Quantities | None = None
    host_users: bool | None = None
    # Kept undecoded, since most pods' containers are not needed.
    containers: Raw = _NULL
    init_containers: Raw = _NULL


class _Status(Struct):
    phase: str | None = None
    conditions: list[_Condition | None] | None = None


class RawPlacedPod(Struct):
    metadata: _Metadata | None = None
    spec: _Spec | None = None
    status: _Status | None = None


#: The bytes that a container with recursive read-only mounts certainly has.
_ENABLED: Final = b"ecursiveReadOnly"


def placed_pod_of(raw: RawPlacedPod) -> PlacedPod:
    """Raises DecodeError where a container is of a wrong type."""
    metadata, spec = raw.metadata or _Metadata(), raw.spec or _Spec()
    status = raw.status or _Status()
    return PlacedPod(
        metadata.namespace or "default",
        metadata.name or "",
        spec.runtime_class_name or "",
        spec.node_name or "",
        status.phase in _FINISHED,
        metadata.creation_timestamp or "",
        _scheduled_at(status),
        strings(spec.node_selector),
        quantities_of(spec.overhead),
        Features(
            spec.host_users is False,
            _mounts_recursively(spec.containers) or _mounts_recursively(spec.init_containers),
        ),
    )


def _scheduled_at(status: _Status) -> str:
    """When the pod got its node; empty where it has none."""
    for each in status.conditions or ():
        if each is not None and each.type == "PodScheduled" and each.status == "True":
            return each.last_transition_time or ""
    return ""


def _mounts_recursively(raw: Raw) -> bool:
    if _ENABLED not in bytes(raw) and b"\\" not in bytes(raw):
        return False
    containers = nullable(raw, list[RawContainer | None], "Pod.spec.containers")
    return needs_recursive_read_only(containers)


class _TemplateSpec(Struct, rename="camel"):
    runtime_class_name: str | None = None


class _Template(Struct):
    spec: _TemplateSpec | None = None


class _JobSpec(Struct):
    template: _Template | None = None


class _JobTemplate(Struct):
    spec: _JobSpec | None = None


class _WorkloadSpec(Struct, rename="camel"):
    template: _Template | None = None
    job_template: _JobTemplate | None = None
    replicas: int | None = None


class _WorkloadMetadata(Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    owner_references: list[_Owner | None] | None = None


class _WorkloadStatus(Struct):
    conditions: list[_Condition | None] | None = None


class RawUse(Struct):
    """A workload."""

    metadata: _WorkloadMetadata | None = None
    spec: _WorkloadSpec | None = None
    status: _WorkloadStatus | None = None


def workload_of(raw: RawUse, kind: str) -> Workload:
    metadata, spec = raw.metadata or _WorkloadMetadata(), raw.spec or _WorkloadSpec()
    job = spec.job_template.spec if spec.job_template else None
    template = (job.template if job else None) if kind == "CronJob" else spec.template
    named = template.spec.runtime_class_name if template and template.spec else None
    return Workload(
        kind,
        metadata.namespace or "default",
        metadata.name or "",
        named or "",
        _is_past(kind, metadata, spec, raw.status or _WorkloadStatus()),
    )


def _is_past(
    kind: str, metadata: _WorkloadMetadata, spec: _WorkloadSpec, status: _WorkloadStatus
) -> bool:
    if kind == "Job":
        conditions = (each for each in status.conditions or () if each is not None)
        return any(each.type in _ENDED and each.status == "True" for each in conditions)
    owners = (each for each in metadata.owner_references or () if each is not None)
    kept = any(each.kind == "Deployment" and each.controller for each in owners)
    return kind == "ReplicaSet" and kept and spec.replicas == 0


class _NodeStatus(Struct):
    conditions: list[_Condition | None] | None = None


class RawNodeState(Struct):
    """A Node's conditions."""

    status: _NodeStatus | None = None


def is_ready(raw: RawNodeState) -> bool:
    """Whether the node is ready; one without the condition counts as ready.

    kube-apiserver gives every new node the taint not-ready, so only nodes in manifests lack the
    condition.
    """
    conditions = (raw.status.conditions if raw.status else None) or ()
    of_kubelet = [each.status for each in conditions if each is not None and each.type == "Ready"]
    return not of_kubelet or of_kubelet[0] == "True"
