"""Pods: the struct that all readers share, and the fields for the verbs and for lists of pods."""

from typing import Final

from msgspec import Raw, Struct, field

from extender.kubernetes.decoder import (
    NULL,
    ObjectMeta,
    Quantities,
    RawToleration,
    StringMap,
    may_have,
    nullable,
    quantities_of,
    strings,
    tolerations_of,
)
from extender.kubernetes.name_rules import is_pod_resource
from extender.model.objects import NEW, NOTHING, OS_LABEL, Pod, PodState
from extender.model.pod_needs import NO_FEATURES, Features, KubeletNeeds
from extender.model.using_objects import PlacedPod, Wait


class Named(Struct):
    name: str | None = None


class _SchedulingGroup(Struct, rename="camel"):
    pod_group_name: str | None = None


class RawPodSpec(Struct, rename="camel"):
    """Only the readers that need a Raw field decode it, so its faults do not affect the others."""

    runtime_class_name: str | None = None
    node_selector: StringMap = None
    tolerations: list[RawToleration | None] | None = None
    host_users: bool | None = None
    os: Named | None = None
    scheduling_group: _SchedulingGroup | None = None
    node_name: str | None = None
    containers: Raw = NULL
    init_containers: Raw = NULL
    ephemeral_containers: Raw = NULL
    security_context: Raw = NULL
    resources: Raw = NULL
    overhead: Raw = NULL
    affinity: Raw = NULL
    scheduling_gates: Raw = NULL
    scheduler_name: Raw = NULL
    host_network: Raw = NULL
    host_pid: Raw = field(default=NULL, name="hostPID")
    host_ipc: Raw = field(default=NULL, name="hostIPC")
    priority: Raw = NULL
    preemption_policy: Raw = NULL
    volumes: Raw = NULL
    resource_claims: Raw = NULL
    fqdn: Raw = field(default=NULL, name="setHostnameAsFQDN")


class RawPod(Struct):
    """A Pod, or the pod template of a workload."""

    kind: str | None = None
    metadata: ObjectMeta | None = None
    spec: RawPodSpec | None = None
    status: Raw = NULL


NO_METADATA: Final = ObjectMeta()


class _RecursiveMount(Struct, rename="camel"):
    recursive_read_only: str | None = None


class _MountingContainer(Struct, rename="camel"):
    volume_mounts: list[_RecursiveMount | None] | None = None


class _Groups(Struct, rename="camel"):
    supplemental_groups_policy: str | None = None


class _PodResources(Struct):
    requests: dict[str, Raw] | None = None
    limits: dict[str, Raw] | None = None


def _mounts_recursively(raw: Raw, place: str, field: str) -> bool:
    if raw is NULL or not may_have(raw, b"recursiveReadOnly"):
        return False
    found = nullable(raw, list[_MountingContainer | None], f"{place}.spec.{field}")
    return any(
        mount is not None and mount.recursive_read_only == "Enabled"
        for container in found or ()
        if container is not None
        for mount in container.volume_mounts or ()
    )


def _features_of(spec: RawPodSpec, place: str) -> Features:
    isolated = spec.host_users is False
    read_only = _mounts_recursively(spec.containers, place, "containers") or (
        _mounts_recursively(spec.init_containers, place, "initContainers")
    )
    return Features(isolated, read_only) if isolated or read_only else NO_FEATURES


def _kubelet_needs_of(metadata: ObjectMeta, spec: RawPodSpec, place: str) -> KubeletNeeds | None:
    # The kubelet compares both with its own operating system.
    system = spec.os.name or "" if spec.os else None
    labelled = strings(metadata.labels).get(OS_LABEL)
    strict = resources = False
    context = spec.security_context
    if context is not NULL and may_have(context, b"supplementalGroupsPolicy"):
        groups = nullable(context, _Groups, f"{place}.spec.securityContext")
        strict = groups is not None and groups.supplemental_groups_policy == "Strict"
    if spec.resources is not NULL:
        of_pod = nullable(spec.resources, _PodResources, f"{place}.spec.resources")
        resources = of_pod is not None and any(
            map(is_pod_resource, (*(of_pod.requests or ()), *(of_pod.limits or ())))
        )
    if system is None and labelled is None and not strict and not resources:
        return None
    return KubeletNeeds(system, labelled, strict, resources)


def pod_of(raw: RawPod, place: str = "Pod") -> Pod:
    """The pod with the fields that the verbs need. Raises DecodeError."""
    metadata, spec = raw.metadata or NO_METADATA, raw.spec or RawPodSpec()
    group = spec.scheduling_group.pod_group_name if spec.scheduling_group else None
    return Pod(
        metadata.namespace or "",
        metadata.name or "",
        metadata.uid or "",
        spec.runtime_class_name or "",
        strings(spec.node_selector) if spec.node_selector else NOTHING,
        tolerations_of(spec.tolerations) if spec.tolerations else (),
        _features_of(spec, place),
        _kubelet_needs_of(metadata, spec, place),
        f"{metadata.namespace or ''}/{group}" if group else "",
        None,
        NOTHING,  # saves the call of the default factory
        PodState(node_name=spec.node_name) if spec.node_name else NEW,
    )


class _Condition(Struct, rename="camel"):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class RawPodStatus(Struct, rename="camel"):
    phase: str | None = None
    conditions: list[_Condition | None] | None = None
    nominated_node_name: str | None = None

    @property
    def is_finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def scheduled_at(self) -> str:
        """The time when the pod was bound; "" if it has no node."""
        found = self.condition("PodScheduled", "True")
        return (found and found.last_transition_time) or ""

    @property
    def unscheduled_message(self) -> str | None:
        """kube-scheduler's last message. None before its first attempt, and for a gated pod."""
        found = self.condition("PodScheduled", "False")
        return (found.message or "") if found and found.reason != "SchedulingGated" else None

    @property
    def starting_since(self) -> str | None:
        """Since when a bound pod has had no sandbox; None if it has one, or if unknown.

        Also None for a running pod: its sandbox started before, and was lost in a node restart.
        """
        found = self.condition("PodReadyToStartContainers", "False")
        if found is None or self.is_finished or self.phase == "Running":
            return None
        return found.last_transition_time or ""

    def condition(self, kind: str, wanted: str) -> _Condition | None:
        for each in self.conditions or ():
            if each is not None and each.type == kind and each.status == wanted:
                return each
        return None


def pod_status(raw: RawPod, place: str = "Pod") -> RawPodStatus:
    """Raises DecodeError."""
    return nullable(raw.status, RawPodStatus, f"{place}.status") or RawPodStatus()


#: Texts in kube-scheduler's message, and what the pod then waits for. Resources come first: a node
#: that lacks resources has passed the earlier filters (default_plugins.go, v1.36.2).
_WAITS: Final = (
    ("Insufficient ", Wait.RESOURCES),
    ("Too many pods", Wait.RESOURCES),
    ("nodes don't match RuntimeClass", Wait.RUNTIME_CLASS),
    ("nodes' default runtime handler", Wait.RUNTIME_CLASS),
    ("didn't match Pod's node affinity/selector", Wait.SELECTOR),
)


def _wait_of(message: str | None, affinity: Raw) -> Wait:
    # The end of the message, about preemption, repeats texts of the filters.
    told = (message or "").partition("preemption: ")[0]
    found = next((wait for words, wait in _WAITS if words in told), Wait.OTHER)
    own = found is Wait.SELECTOR and may_have(affinity, b"nodeAffinity")
    return Wait.OTHER if own else found


def placed_pod_of(raw: RawPod) -> PlacedPod:
    """The pod with the fields that lists of pods need. Raises DecodeError."""
    metadata, spec = raw.metadata or NO_METADATA, raw.spec or RawPodSpec()
    status = pod_status(raw)
    return PlacedPod(
        metadata.namespace or "default",
        metadata.name or "",
        spec.runtime_class_name or "",
        spec.node_name or "",
        status.is_finished,
        metadata.created_at("Pod.metadata"),
        status.scheduled_at,
        strings(spec.node_selector),
        quantities_of(nullable(spec.overhead, Quantities, "Pod.spec.overhead")),
        _features_of(spec, "Pod"),
        status.starting_since if spec.node_name else None,
        Wait.OTHER if spec.node_name else _wait_of(status.unscheduled_message, spec.affinity),
        tolerations_of(spec.tolerations),
    )
