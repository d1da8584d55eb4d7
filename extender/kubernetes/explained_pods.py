"""Decodes pods with all the fields that explain, check and the webhook need.

Also lists the features that a pod uses, in the words of class_annotations.FEATURES.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec
from msgspec import Raw, Struct

from extender.kubernetes.class_annotations import CAPABILITY, ISOLATION_ANNOTATION, RESOURCE, VOLUME
from extender.kubernetes.decoder import NULL, Quantities, decode, nullable, quantities_of
from extender.kubernetes.name_rules import is_pod_resource
from extender.kubernetes.pods import NO_METADATA, Named, RawPod, RawPodSpec, pod_of, pod_status
from extender.kubernetes.quantity import billionths
from extender.kubernetes.resources import (
    Containers,
    RawContainer,
    RawResources,
    RawSecurityContext,
    containers_of,
    resources_of,
)
from extender.kubernetes.versions import BIND_MOUNT_OPTIONS, HOST_NETWORK_USERS, RESTART_ALL
from extender.model.objects import MARK, Pod, PodState, SelectorRequirement, SelectorTerm


class RawRequirement(Struct):
    key: str | None = None
    operator: str | None = None
    values: list[str | None] | None = None


class _Term(Struct, rename="camel"):
    match_expressions: list[RawRequirement | None] | None = None
    match_fields: list[RawRequirement | None] | None = None


class _NodeSelector(Struct, rename="camel"):
    node_selector_terms: list[_Term | None] | None = None


class _NodeAffinity(Struct, rename="camel"):
    required: _NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class _Affinity(Struct, rename="camel"):
    node_affinity: _NodeAffinity | None = None


def explained_pod(raw: bytes | Raw, place: str = "Pod") -> Pod:
    """Decode a Pod or a pod template. Raises DecodeError."""
    read = decode(raw, RawPod, place)
    spec = read.spec or RawPodSpec()
    containers = containers_of(spec, place)
    uses = uses_of(read, containers, place)
    return replace(
        pod_of(read, place),
        node_affinity=required_terms_of(spec.affinity, place),
        overhead=quantities_of(nullable(spec.overhead, Quantities, f"{place}.spec.overhead")),
        state=_state_of(read, spec, place),
        sets_host_users=spec.host_users is not None,
        declared_needs=frozenset(_declared_needs(spec, containers, place)),
        is_marked=f"{RESOURCE}{MARK}" in uses,
        resources=resources_of(spec, containers, place),
        uses=uses,
    )


def _state_of(pod: RawPod, spec: RawPodSpec, place: str) -> PodState:
    metadata, status = pod.metadata or NO_METADATA, pod_status(pod, place)
    gates = nullable(spec.scheduling_gates, list[Named | None], f"{place}.spec.schedulingGates")
    in_metadata, node = f"{place}.metadata", spec.node_name or ""
    deleted = nullable(metadata.deletion_timestamp, str, f"{in_metadata}.deletionTimestamp")
    return PodState(
        tuple(each.name or "" for each in gates or () if each),
        nullable(spec.scheduler_name, str, f"{place}.spec.schedulerName") or "",
        node,
        deleted or "",
        metadata.read_annotations(in_metadata).get(ISOLATION_ANNOTATION, ""),
        status.starting_since if node else None,
        "" if node else status.unscheduled_message or "",
        status.nominated_node_name or "",
        nullable(spec.priority, int, f"{place}.spec.priority") or 0,
        nullable(spec.preemption_policy, str, f"{place}.spec.preemptionPolicy") != "Never",
        status.is_finished,
    )


def _declared_needs(spec: RawPodSpec, containers: Containers, place: str) -> Iterator[str]:
    """The features that the pod's node has to declare.

    Upstream: component-helpers/nodedeclaredfeatures/features, InferForScheduling, v0.37.1.
    """
    on_host = nullable(spec.host_network, bool, f"{place}.spec.hostNetwork")
    if on_host and spec.host_users is False:
        yield HOST_NETWORK_USERS
    for each in (*containers.regular, *containers.init):
        if any(
            rule and rule.action == "RestartAllContainers"
            for rule in each.restart_policy_rules or ()
        ):
            yield RESTART_ALL
    for each in containers.all():
        if any(mount and mount.bind_mount_options for mount in each.volume_mounts or ()):
            yield BIND_MOUNT_OPTIONS


def required_terms_of(affinity: Raw, place: str = "Pod") -> tuple[SelectorTerm, ...] | None:
    """The terms of the required node affinity in spec.affinity; None if there is none."""
    found = nullable(affinity, _Affinity, f"{place}.spec.affinity")
    required = found.node_affinity.required if found and found.node_affinity else None
    if required is None:
        return None
    return tuple(
        SelectorTerm(_requirements_of(each.match_expressions), _requirements_of(each.match_fields))
        for each in (item or _Term() for item in required.node_selector_terms or ())
    )


def _requirements_of(raw: list[RawRequirement | None] | None) -> tuple[SelectorRequirement, ...]:
    return tuple(
        SelectorRequirement(
            each.key or "", each.operator or "", tuple(value or "" for value in each.values or ())
        )
        for each in (item or RawRequirement() for item in raw or ())
    )


#: The prefix of annotations in older manifests, replaced by securityContext.appArmorProfile.
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_UNCONFINED: Final = ("unconfined", "Unconfined", "")

_HOST_FIELDS: Final = {"host_network": "hostNetwork", "host_pid": "hostPID", "host_ipc": "hostIPC"}

#: The features that stand for a type of volume, by the volume's field.
_VOLUMES: Final = {"hostPath": "hostPath", "image": "imageVolumes"}


def uses_in(raw: bytes | Raw) -> frozenset[str]:
    """The words for all features and resources that a pod uses. Raises DecodeError."""
    pod = decode(raw, RawPod, "Pod")
    return uses_of(pod, containers_of(pod.spec or RawPodSpec()))


def uses_of(pod: RawPod, containers: Containers, place: str = "Pod") -> frozenset[str]:
    """`uses_in` for a pod whose containers are decoded already. Raises DecodeError."""
    spec = pod.spec or RawPodSpec()
    annotations = (pod.metadata or NO_METADATA).read_annotations(f"{place}.metadata")
    return frozenset(
        (
            *_of_pod(spec, f"{place}.spec"),
            *(word for each in containers.all() for word in _of_container(each)),
            *(["ephemeralContainers"] if containers.ephemeral else ()),
            *(
                "appArmor"
                for key, value in annotations.items()
                if key.startswith(_APP_ARMOR) and value not in _UNCONFINED
            ),
        )
    )


def _of_pod(spec: RawPodSpec, place: str) -> Iterator[str]:
    for field, word in _HOST_FIELDS.items():
        if nullable(getattr(spec, field), bool, f"{place}.{word}"):
            yield word
    for volume in nullable(spec.volumes, list[dict[str, Raw] | None], f"{place}.volumes") or ():
        types = [field for field, value in (volume or {}).items() if value != NULL]
        yield from (_VOLUMES[each] for each in types if each in _VOLUMES)
        yield from (f"{VOLUME}{each}" for each in types if each != "name")
    if nullable(spec.resource_claims, list[Raw], f"{place}.resourceClaims"):
        yield "deviceClaims"
    context = nullable(spec.security_context, RawSecurityContext, f"{place}.securityContext")
    yield from _of_context(context)
    resources = nullable(spec.resources, RawResources, f"{place}.resources")
    if any(map(is_pod_resource, _asked(resources))):
        yield "podLevelResources"


def _of_container(container: RawContainer) -> Iterator[str]:
    if any(port and port.host_port for port in container.ports or ()):
        yield "hostPorts"
    if container.resize_policy:
        yield "inPlaceResize"
    if container.volume_devices:
        yield "blockDevices"
    mounts = container.volume_mounts or ()
    if any(each and (each.sub_path or each.sub_path_expr) for each in mounts):
        yield "subPath"
    yield from _of_context(container.security_context)
    yield from (f"{RESOURCE}{name}" for name in _asked(container.resources))


def _of_context(context: RawSecurityContext | None) -> Iterator[str]:
    """The words for the security context of a pod or of a container."""
    if context is None:
        return
    if context.privileged:
        yield "privileged"
    if context.proc_mount == "Unmasked":
        yield "procMountUnmasked"
    for each in (context.capabilities.add or ()) if context.capabilities else ():
        # CRI-O also takes names with the prefix (toCAPPrefixed, server/sandbox_run.go).
        yield from ("capabilities", CAPABILITY + (each or "").upper().removeprefix("CAP_"))
    if context.sysctls:
        yield "sysctls"
    if context.seccomp_profile is not None and context.seccomp_profile.type == "Localhost":
        yield "localhostSeccomp"
    profile = context.app_armor_profile
    if profile is not None and (profile.type or "") not in _UNCONFINED:
        yield "appArmor"
    if any((context.se_linux_options or {}).values()):
        yield "seLinux"


def _asked(resources: RawResources | None) -> Iterator[str]:
    """The resources with a request or limit that is not zero."""
    for amounts in (resources.requests, resources.limits) if resources else ():
        yield from (name for name, amount in (amounts or {}).items() if _is_something(amount))


def _is_something(amount: str | int | float | None) -> bool:
    if amount is None:
        return False
    try:
        return billionths(str(amount)) != 0
    except ValueError:
        return True
