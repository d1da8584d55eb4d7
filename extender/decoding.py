"""Raw JSON → objects: only the fields this service reads, with Go's reading of null as absent.

msgspec decodes straight into these structs, skips what they don't name and says which place is
of a wrong type. A null decodes to Go's zero value, as encoding/json does.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from extender.objects import (
    Features,
    Handler,
    Node,
    Pod,
    RuntimeClass,
    SelectorRequirement,
    SelectorTerm,
    Taint,
    Toleration,
)

StringMap = dict[str, str | None] | None
StringList = list[str | None] | None

T = TypeVar("T")


class DecodeError(ValueError):
    """The bytes are not JSON, or not of the type that is read; the message names the place."""


class RawToleration(Struct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class RawTimedToleration(RawToleration, rename="camel", gc=False):
    """With what plays no part in matching, for whoever merges tolerations."""

    toleration_seconds: int | None = None


class RawTaint(Struct):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class RawMetadata(Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: StringMap = None


class _VolumeMount(Struct, rename="camel"):
    recursive_read_only: str | None = None


class _Container(Struct, rename="camel"):
    volume_mounts: list[_VolumeMount | None] | None = None


class _PodSpec(Struct, rename="camel"):
    runtime_class_name: str | None = None
    node_selector: StringMap = None
    tolerations: list[RawToleration | None] | None = None
    host_users: bool | None = None
    containers: list[_Container | None] | None = None
    init_containers: list[_Container | None] | None = None
    # Read by explain only, so a filter request isn't refused for what stands in them.
    affinity: Raw = Raw(b"null")
    overhead: Raw = Raw(b"null")


class RawPod(Struct):
    metadata: RawMetadata | None = None
    spec: _PodSpec | None = None


class _HandlerFeatures(Struct, rename="camel"):
    recursive_read_only_mounts: bool | None = None
    user_namespaces: bool | None = None


class RawHandler(Struct):
    name: str | None = None
    features: _HandlerFeatures | None = None


class _NodeSpec(Struct):
    taints: list[RawTaint | None] | None = None
    unschedulable: bool | None = None


class _NodeInfo(Struct, rename="camel"):
    container_runtime_version: str | None = None


class _NodeStatus(Struct, rename="camel"):
    runtime_handlers: list[RawHandler | None] | None = None
    node_info: _NodeInfo | None = None


class RawNode(Struct):
    metadata: RawMetadata | None = None
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


class _Requirement(Struct):
    key: str | None = None
    operator: str | None = None
    values: StringList = None


class _Term(Struct, rename="camel"):
    match_expressions: list[_Requirement | None] | None = None
    match_fields: list[_Requirement | None] | None = None


class _NodeSelector(Struct, rename="camel"):
    node_selector_terms: list[_Term | None] | None = None


class _NodeAffinity(Struct, rename="camel"):
    required: _NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class _Affinity(Struct, rename="camel"):
    node_affinity: _NodeAffinity | None = None


class _Scheduling(Struct, rename="camel"):
    node_selector: StringMap = None
    tolerations: list[RawTimedToleration | None] | None = None


class _Overhead(Struct, rename="camel"):
    pod_fixed: dict[str, str | int | float | None] | None = None


class _NamespaceMetadata(Struct):
    name: str | None = None
    annotations: StringMap = None


class RawNamespace(Struct):
    metadata: _NamespaceMetadata | None = None


class _ClassMetadata(Struct, rename="camel"):
    name: str | None = None
    annotations: StringMap = None
    creation_timestamp: str | None = None


class RawRuntimeClass(Struct):
    metadata: _ClassMetadata | None = None
    handler: str | None = None
    overhead: _Overhead | None = None
    scheduling: _Scheduling | None = None


# decode() takes a type; a union is one to msgspec, though not to mypy.
_PodOverhead: Final[type[dict[str, str | int | float | None] | None]] = (
    dict[str, str | int | float | None] | None  # type: ignore[assignment]
)
_PodAffinity: Final[type[_Affinity | None]] = _Affinity | None  # type: ignore[assignment]

_NodeTaints: Final[type[list[RawTaint | None] | None]] = (
    list[RawTaint | None] | None  # type: ignore[assignment]
)
_NodeHandlers: Final[type[list[RawHandler | None] | None]] = (
    list[RawHandler | None] | None  # type: ignore[assignment]
)

_DECODERS: Final[dict[type, msgspec.json.Decoder[Any]]] = {}


def decode(raw: bytes | bytearray | memoryview | Raw, kind: type[T], place: str = "") -> T:
    """Decode JSON into one of the Raw structs.

    Raises DecodeError with a message such as "Pod.metadata.labels[...]: expected `str`, got `int`".
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    try:
        result: T = decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise DecodeError(_with_place(str(error), place)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError(f"{place or 'body'}: not JSON: {error}") from None
    except RecursionError:
        raise DecodeError(f"{place or 'body'}: nested too deeply") from None
    return result


def convert(obj: object, kind: type[T], place: str = "") -> T:
    """The same for a document that is decoded already (YAML)."""
    try:
        return msgspec.convert(obj, kind)
    except msgspec.ValidationError as error:
        raise DecodeError(_with_place(str(error), place)) from None


def _with_place(message: str, place: str) -> str:
    # "Expected `str | null`, got `int` - at `$.metadata.name`"
    what, _, where = message.partition(" - at ")
    path = where.strip("`").removeprefix("key in ").strip("`").removeprefix("$")
    full = f"{place}{path}".lstrip(".") or "body"
    return f"{full}: {what[:1].lower()}{what[1:].replace(' | null', '')}"


def strings(raw: StringMap) -> Mapping[str, str]:
    if not raw:
        return _NOTHING
    if None in raw.values():
        return {key: value or "" for key, value in raw.items()}
    return raw  # type: ignore[return-value]  # no value is None


_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_NO_TOLERATION: Final = RawToleration()
_NO_TAINT: Final = RawTaint()
_NO_HANDLER: Final = RawHandler()
_NO_METADATA: Final = RawMetadata()


def tolerations_of(raw: Sequence[RawToleration | None] | None) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(each.key or "", each.operator or "", each.value or "", each.effect or "")
        for each in (item or _NO_TOLERATION for item in raw or ())
    )


def taints_of(raw: list[RawTaint | None] | None) -> tuple[Taint, ...]:
    return tuple(
        Taint(each.key or "", each.value or "", each.effect or "")
        for each in (item or _NO_TAINT for item in raw or ())
    )


def handlers_of(raw: list[RawHandler | None] | None) -> frozenset[Handler]:
    handlers = []
    for item in raw or ():
        each = item or _NO_HANDLER
        features = each.features or _HandlerFeatures()
        handlers.append(
            Handler(
                each.name or "",
                bool(features.user_namespaces),
                bool(features.recursive_read_only_mounts),
            )
        )
    return frozenset(handlers)


def _needs_recursive_read_only(spec: _PodSpec) -> bool:
    return any(
        mount is not None and mount.recursive_read_only == "Enabled"
        for container in (*(spec.containers or ()), *(spec.init_containers or ()))
        if container is not None and container.volume_mounts
        for mount in container.volume_mounts
    )


def pod_of(raw: RawPod) -> Pod:
    """What the verbs read of a pod; affinity and overhead are left to `explained_pod_of`."""
    metadata, spec = raw.metadata or _NO_METADATA, raw.spec or _PodSpec()
    return Pod(
        metadata.namespace or "",
        metadata.name or "",
        metadata.uid or "",
        spec.runtime_class_name or "",
        strings(spec.node_selector),
        tolerations_of(spec.tolerations),
        Features(spec.host_users is False, _needs_recursive_read_only(spec)),
    )


def explained_pod_of(raw: RawPod, place: str = "") -> Pod:
    """The pod with its required node affinity and overhead too.

    Raises DecodeError when one of them is of a wrong type.
    """
    pod, spec = pod_of(raw), raw.spec or _PodSpec()
    overhead = decode(spec.overhead, _PodOverhead, f"{place}.spec.overhead")
    affinity = decode(spec.affinity, _PodAffinity, f"{place}.spec.affinity")
    return Pod(
        pod.namespace,
        pod.name,
        pod.uid,
        pod.runtime_class_name,
        pod.node_selector,
        pod.tolerations,
        pod.features,
        _terms_of(affinity),
        quantities_of(overhead),
    )


def quantities_of(raw: dict[str, str | int | float | None] | None) -> Mapping[str, str]:
    return {name: "0" if value is None else str(value) for name, value in (raw or {}).items()}


def _requirements_of(raw: list[_Requirement | None] | None) -> tuple[SelectorRequirement, ...]:
    return tuple(
        SelectorRequirement(
            each.key or "",
            each.operator or "",
            tuple(value or "" for value in each.values or ()),
        )
        for each in (item or _Requirement() for item in raw or ())
    )


def _terms_of(affinity: _Affinity | None) -> tuple[SelectorTerm, ...] | None:
    node_affinity = affinity.node_affinity if affinity else None
    required = node_affinity.required if node_affinity else None
    if required is None:
        return None
    return tuple(
        SelectorTerm(_requirements_of(each.match_expressions), _requirements_of(each.match_fields))
        for each in (item or _Term() for item in required.node_selector_terms or ())
    )


def is_docker(container_runtime_version: str | None) -> bool:
    return (container_runtime_version or "").startswith("docker://")


def node_of(raw: RawNode) -> Node:
    metadata = raw.metadata or _NO_METADATA
    spec, status = raw.spec or _NodeSpec(), raw.status or _NodeStatus()
    return Node(
        metadata.name or "",
        strings(metadata.labels),
        taints_of(spec.taints),
        handlers_of(status.runtime_handlers),
        bool(spec.unschedulable),
        is_docker(status.node_info.container_runtime_version if status.node_info else None),
    )


class _LeanNodeSpec(Struct):
    taints: Raw = Raw(b"null")
    unschedulable: bool | None = None


class _LeanNodeStatus(Struct, rename="camel"):
    runtime_handlers: Raw = Raw(b"null")
    node_info: _NodeInfo | None = None


class _LeanNode(Struct):
    metadata: RawMetadata | None = None
    spec: _LeanNodeSpec | None = None
    status: _LeanNodeStatus | None = None


class NodeReader:
    """Decodes many nodes of one request; taints and handlers of equal bytes only once."""

    __slots__ = ("_handlers", "_taints")

    def __init__(self) -> None:
        self._taints: dict[bytes, tuple[Taint, ...]] = {}
        self._handlers: dict[bytes, frozenset[Handler]] = {}

    def read(self, raw: bytes | memoryview | Raw, place: str = "") -> Node:
        """Raises DecodeError."""
        node = decode(raw, _LeanNode, place)
        metadata, spec = node.metadata or _NO_METADATA, node.spec or _LeanNodeSpec()
        status = node.status or _LeanNodeStatus()
        taints = self._taints.get(bytes(spec.taints))
        if taints is None:
            found = decode(spec.taints, _NodeTaints, f"{place}.spec.taints")
            taints = self._taints[bytes(spec.taints)] = taints_of(found)
        handlers = self._handlers.get(bytes(status.runtime_handlers))
        if handlers is None:
            reported = decode(
                status.runtime_handlers, _NodeHandlers, f"{place}.status.runtimeHandlers"
            )
            handlers = self._handlers[bytes(status.runtime_handlers)] = handlers_of(reported)
        info = status.node_info
        return Node(
            metadata.name or "",
            strings(metadata.labels),
            taints,
            handlers,
            bool(spec.unschedulable),
            is_docker(info.container_runtime_version if info else None),
        )


def runtime_class_of(raw: RawRuntimeClass) -> RuntimeClass:
    metadata = raw.metadata or _ClassMetadata()
    scheduling = raw.scheduling or _Scheduling()
    return RuntimeClass(
        metadata.name or "",
        raw.handler or "",
        tuple(sorted(strings(scheduling.node_selector).items())),
        tolerations_of(scheduling.tolerations),
        quantities_of(raw.overhead.pod_fixed if raw.overhead else None),
        strings(metadata.annotations),
        metadata.creation_timestamp or "",
        has_overhead=raw.overhead is not None,
        has_scheduling=raw.scheduling is not None,
        toleration_seconds=tuple(
            item.toleration_seconds if item else None for item in scheduling.tolerations or ()
        ),
    )
