"""The containers of a pod, and the resources of pods and nodes in billionths of their unit."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Raw, Struct

from extender.kubernetes.decoder import NULL, DecodeError, Quantities, StringMap, nullable
from extender.kubernetes.name_rules import HUGE_PAGES_PREFIX
from extender.kubernetes.pods import NO_METADATA, RawPod, RawPodSpec, pod_status
from extender.kubernetes.quantity import stored_billionths
from extender.model.objects import Amounts, Pod, PodResources


class RawResources(Struct):
    """A ResourceRequirements."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class _Rule(Struct):
    action: str | None = None


class _Mount(Struct, rename="camel"):
    sub_path: str | None = None
    sub_path_expr: str | None = None
    bind_mount_options: list[str | None] | None = None


class _Port(Struct, rename="camel"):
    host_port: int | None = None


class _Profile(Struct):
    type: str | None = None


class _Capabilities(Struct):
    add: list[str | None] | None = None


class RawSecurityContext(Struct, rename="camel"):
    """The securityContext of a pod or of a container; a field means the same in both."""

    privileged: bool | None = None
    proc_mount: str | None = None
    seccomp_profile: _Profile | None = None
    app_armor_profile: _Profile | None = None
    se_linux_options: StringMap = None
    sysctls: list[Raw] | None = None
    capabilities: _Capabilities | None = None
    windows_options: Raw = NULL


class RawContainer(Struct, rename="camel"):
    resources: RawResources | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[_Rule | None] | None = None
    ports: list[_Port | None] | None = None
    security_context: RawSecurityContext | None = None
    volume_devices: list[Raw] | None = None
    resize_policy: list[Raw] | None = None
    volume_mounts: list[_Mount | None] | None = None


class Containers(NamedTuple):
    """The containers of a pod by kind. A container that is null becomes an empty one."""

    regular: list[RawContainer]
    init: list[RawContainer]
    ephemeral: list[RawContainer]

    def all(self) -> Iterator[RawContainer]:
        yield from (*self.regular, *self.init, *self.ephemeral)


def containers_of(spec: RawPodSpec, place: str = "Pod") -> Containers:
    """Raises DecodeError."""

    def read(raw: Raw, name: str) -> list[RawContainer]:
        found = nullable(raw, list[RawContainer | None], f"{place}.spec.{name}")
        return [each or RawContainer() for each in found or ()]

    return Containers(
        read(spec.containers, "containers"),
        read(spec.init_containers, "initContainers"),
        read(spec.ephemeral_containers, "ephemeralContainers"),
    )


def amounts_of(raw: Mapping[str, str | int | float | None] | None, place: str) -> Amounts:
    """Amounts by resource in billionths. Raises DecodeError for an invalid quantity."""
    return {name: _billionths(value, f"{place}[{name}]") for name, value in (raw or {}).items()}


def allocatable_of(raw: bytes) -> Amounts:
    """The amounts in the JSON of a node's status.allocatable. Raises DecodeError."""
    place = "status.allocatable"
    return amounts_of(nullable(raw, Quantities, place), place)


def _billionths(value: str | int | float | None, place: str) -> int:
    if value is None:
        return 0
    try:
        return stored_billionths(str(value).strip())
    except ValueError as error:
        raise DecodeError(f"{place}: {error}") from None


def resources_of(spec: RawPodSpec, containers: Containers, place: str = "Pod") -> PodResources:
    """The pod's amounts, with the requests that kube-apiserver would add. Raises DecodeError.

    A container's missing request defaults to its limit. The pod's own missing request defaults to
    the pod's limit if no container asks for the resource; for huge pages in any case
    (pkg/apis/core/v1/defaults.go, SetDefaults_Pod, v1.36.2).
    """
    place = f"{place}.spec"
    regular = tuple(_requests(containers.regular, f"{place}.containers"))
    init = tuple(_requests(containers.init, f"{place}.initContainers"))
    restarted = (each.restart_policy == "Always" for each in containers.init)
    pod_level = None
    resources = nullable(spec.resources, RawResources, f"{place}.resources")
    if resources is not None:
        requests = amounts_of(resources.requests, f"{place}.resources.requests")
        limits = amounts_of(resources.limits, f"{place}.resources.limits")
        asked = {name for amounts in (*regular, *init) for name in amounts}
        added = {
            name: value
            for name, value in limits.items()
            if name not in asked or name.startswith(HUGE_PAGES_PREFIX)
        }
        pod_level = {**added, **requests}
    overhead = nullable(spec.overhead, Quantities, f"{place}.overhead")
    return PodResources(
        regular,
        tuple(zip(init, restarted, strict=True)),
        pod_level,
        amounts_of(overhead, f"{place}.overhead"),
    )


def _requests(containers: list[RawContainer], place: str) -> Iterator[Amounts]:
    for index, each in enumerate(containers):
        resources = each.resources or RawResources()
        where = f"{place}[{index}].resources"
        yield {
            **amounts_of(resources.limits, f"{where}.limits"),
            **amounts_of(resources.requests, f"{where}.requests"),
        }


class PodLoad(NamedTuple):
    """The resources that a pod takes on a node. is_bound: it is bound, not just nominated."""

    namespace: str
    name: str
    node: str
    is_bound: bool
    priority: int
    resources: PodResources


def load_of(pod: RawPod) -> PodLoad | None:
    """The load of a pod; None if it takes no resources on any node. Raises DecodeError."""
    metadata, spec, status = pod.metadata or NO_METADATA, pod.spec or RawPodSpec(), pod_status(pod)
    node = spec.node_name or status.nominated_node_name
    if not node or status.is_finished:
        return None
    return PodLoad(
        metadata.namespace or "",
        metadata.name or "",
        node,
        bool(spec.node_name),
        nullable(spec.priority, int, "Pod.spec.priority") or 0,
        resources_of(spec, containers_of(spec)),
    )


def load_of_pod(pod: Pod) -> PodLoad | None:
    """`load_of` for a decoded pod; None also if its resources were not decoded."""
    state = pod.state
    node = state.node_name or state.nominated_node
    if not node or state.is_finished or pod.resources is None:
        return None
    bound = bool(state.node_name)
    return PodLoad(pod.namespace, pod.name, node, bound, state.priority, pod.resources)
