"""Pods: what the verbs read, and what explain reads beyond it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec
from msgspec import Raw, Struct

from extender.decoding.common_parts import Quantities, RawToleration, quantities_of, tolerations_of
from extender.decoding.decoder import StringList, StringMap, nullable, strings
from extender.objects import (
    HOST_NETWORK_USERS,
    MARK,
    NO_FEATURES,
    NOTHING,
    RESTART_ALL,
    Features,
    KubeletNeeds,
    Pod,
    PodState,
    SelectorRequirement,
    SelectorTerm,
)


class RawMetadata(Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: StringMap = None
    # Read by explain only.
    deletion_timestamp: Raw = Raw(b"null")


class _VolumeMount(Struct, rename="camel"):
    recursive_read_only: str | None = None


class RawContainer(Struct, rename="camel"):
    volume_mounts: list[_VolumeMount | None] | None = None
    # Read by explain only, as below.
    restart_policy_rules: Raw = Raw(b"null")
    resources: Raw = Raw(b"null")


class _System(Struct):
    name: str | None = None


class _SecurityContext(Struct, rename="camel"):
    supplemental_groups_policy: str | None = None


class _Resources(Struct):
    requests: dict[str, Raw] | None = None
    limits: dict[str, Raw] | None = None


class _SchedulingGroup(Struct, rename="camel"):
    pod_group_name: str | None = None


class _PodSpec(Struct, rename="camel"):
    runtime_class_name: str | None = None
    node_selector: StringMap = None
    tolerations: list[RawToleration | None] | None = None
    host_users: bool | None = None
    containers: list[RawContainer | None] | None = None
    init_containers: list[RawContainer | None] | None = None
    os: _System | None = None
    security_context: _SecurityContext | None = None
    resources: _Resources | None = None
    scheduling_group: _SchedulingGroup | None = None
    # Read by explain only, so a filter request isn't refused for what stands in them.
    affinity: Raw = Raw(b"null")
    overhead: Raw = Raw(b"null")
    scheduling_gates: Raw = Raw(b"null")
    scheduler_name: Raw = Raw(b"null")
    node_name: Raw = Raw(b"null")
    host_network: Raw = Raw(b"null")


class RawPod(Struct):
    metadata: RawMetadata | None = None
    spec: _PodSpec | None = None


class RawRequirement(Struct):
    key: str | None = None
    operator: str | None = None
    values: StringList = None


class _Term(Struct, rename="camel"):
    match_expressions: list[RawRequirement | None] | None = None
    match_fields: list[RawRequirement | None] | None = None


class _Gate(Struct):
    name: str | None = None


class _Rule(Struct):
    action: str | None = None


class _NodeSelector(Struct, rename="camel"):
    node_selector_terms: list[_Term | None] | None = None


class _NodeAffinity(Struct, rename="camel"):
    required: _NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class _Affinity(Struct, rename="camel"):
    node_affinity: _NodeAffinity | None = None


NO_METADATA: Final = RawMetadata()


def needs_recursive_read_only(containers: list[RawContainer | None] | None) -> bool:
    """Whether one of the containers has a recursive read-only mount."""
    for container in containers or ():
        if container is not None and container.volume_mounts:
            for mount in container.volume_mounts:
                if mount is not None and mount.recursive_read_only == "Enabled":
                    return True
    return False


#: The label of a pod that its kubelet compares with its own operating system.
_SYSTEM_LABEL: Final = "kubernetes.io/os"

#: The longest name of an operating system that is kept: no node has a longer one.
_MAX_SYSTEM: Final = 254


#: The limit of an object's name; no PodGroup has a longer one.
_MAX_GROUP: Final = 253


def is_pod_resource(name: str) -> bool:
    """Whether a pod as a whole may have a resource; any other in spec.resources means nothing.

    component-helpers/resource/helpers.go IsPodLevelResourcesSet, v1.36.2.
    """
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _has_pod_resources(resources: _Resources) -> bool:
    return any(map(is_pod_resource, (*(resources.requests or ()), *(resources.limits or ()))))


def _kubelet_needs_of(metadata: RawMetadata, spec: _PodSpec) -> KubeletNeeds | None:
    system = (spec.os.name or "")[:_MAX_SYSTEM] if spec.os else None
    labelled = None
    if metadata.labels and _SYSTEM_LABEL in metadata.labels:
        labelled = (metadata.labels[_SYSTEM_LABEL] or "")[:_MAX_SYSTEM]
    context = spec.security_context
    strict = context is not None and context.supplemental_groups_policy == "Strict"
    resources = spec.resources is not None and _has_pod_resources(spec.resources)
    if system is None and labelled is None and not strict and not resources:
        return None
    return KubeletNeeds(system, labelled, strict, resources)


def pod_of(raw: RawPod) -> Pod:
    """What the verbs read of a pod; affinity and overhead are left to `explained_pod_of`."""
    metadata, spec = raw.metadata or NO_METADATA, raw.spec or _PodSpec()
    isolated = spec.host_users is False
    read_only = needs_recursive_read_only(spec.containers) or (
        spec.init_containers is not None and needs_recursive_read_only(spec.init_containers)
    )
    return Pod(
        metadata.namespace or "",
        metadata.name or "",
        metadata.uid or "",
        spec.runtime_class_name or "",
        strings(spec.node_selector) if spec.node_selector else NOTHING,
        tolerations_of(spec.tolerations) if spec.tolerations else (),
        Features(isolated, read_only) if isolated or read_only else NO_FEATURES,
        _kubelet_needs_of(metadata, spec),
        _group_of(metadata, spec.scheduling_group) if spec.scheduling_group else "",
        None,
        NOTHING,  # what a call of its own would give
    )


def _group_of(metadata: RawMetadata, group: _SchedulingGroup) -> str:
    name = group.pod_group_name or ""
    return f"{metadata.namespace or ''}/{name}" if 0 < len(name) <= _MAX_GROUP else ""


def explained_pod_of(raw: RawPod, place: str = "") -> Pod:
    """The pod with all that explain shows of it.

    Raises DecodeError when one of them is of a wrong type.
    """
    pod, spec = pod_of(raw), raw.spec or _PodSpec()
    overhead = nullable(spec.overhead, Quantities, f"{place}.spec.overhead")
    affinity = nullable(spec.affinity, _Affinity, f"{place}.spec.affinity")
    return replace(
        pod,
        node_affinity=_terms_of(affinity),
        overhead=quantities_of(overhead),
        state=_state_of(raw.metadata or NO_METADATA, spec, place),
        sets_host_users=spec.host_users is not None,
        declared_needs=_declared_needs_of(spec, place),
        is_marked=_is_marked(spec, place),
    )


def _state_of(metadata: RawMetadata, spec: _PodSpec, place: str) -> PodState:
    gates = nullable(spec.scheduling_gates, list[_Gate | None], f"{place}.spec.schedulingGates")
    deleted = f"{place}.metadata.deletionTimestamp"
    return PodState(
        tuple(each.name or "" for each in gates or () if each),
        nullable(spec.scheduler_name, str, f"{place}.spec.schedulerName") or "",
        nullable(spec.node_name, str, f"{place}.spec.nodeName") or "",
        nullable(metadata.deletion_timestamp, str, deleted) or "",
    )


def _declared_needs_of(spec: _PodSpec, place: str) -> frozenset[str]:
    """As InferForScheduling of component-helpers/nodedeclaredfeatures/features, v1.36.2."""
    needs = set()
    on_host = nullable(spec.host_network, bool, f"{place}.spec.hostNetwork")
    if on_host and spec.host_users is False:
        needs.add(HOST_NETWORK_USERS)
    for each, where in _containers_of(spec, place):
        rules = nullable(
            each.restart_policy_rules, list[_Rule | None], f"{where}.restartPolicyRules"
        )
        if any(rule and rule.action == "RestartAllContainers" for rule in rules or ()):
            needs.add(RESTART_ALL)
    return frozenset(needs)


def _is_marked(spec: _PodSpec, place: str) -> bool:
    """Whether a container asks for the mark, as hasManagedResources of extender.go, v1.36.2."""
    for each, where in _containers_of(spec, place):
        found = nullable(each.resources, _Resources, f"{where}.resources")
        if found and (MARK in (found.requests or ()) or MARK in (found.limits or ())):
            return True
    return False


def _containers_of(spec: _PodSpec, place: str) -> Iterator[tuple[RawContainer, str]]:
    """Each container with its place."""
    for kind, containers in (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
    ):
        for index, each in enumerate(containers or ()):
            if each is not None:
                yield each, f"{place}.spec.{kind}[{index}]"


def _requirements_of(raw: list[RawRequirement | None] | None) -> tuple[SelectorRequirement, ...]:
    return tuple(
        SelectorRequirement(
            each.key or "",
            each.operator or "",
            tuple(value or "" for value in each.values or ()),
        )
        for each in (item or RawRequirement() for item in raw or ())
    )


def required_terms_of(affinity: Raw) -> tuple[SelectorTerm, ...] | None:
    """The terms of the required node affinity in spec.affinity; None where there is none."""
    return _terms_of(nullable(affinity, _Affinity, "Pod.spec.affinity"))


def _terms_of(affinity: _Affinity | None) -> tuple[SelectorTerm, ...] | None:
    node_affinity = affinity.node_affinity if affinity else None
    required = node_affinity.required if node_affinity else None
    if required is None:
        return None
    return tuple(
        SelectorTerm(_requirements_of(each.match_expressions), _requirements_of(each.match_fields))
        for each in (item or _Term() for item in required.node_selector_terms or ())
    )
