"""RuntimeClasses, and the Namespaces that choose a default one."""

from typing import Final

from msgspec import Struct

from extender.decoding.class_annotations import rules_of
from extender.decoding.common_parts import (
    Quantities,
    RawTimedToleration,
    quantities_of,
    timed_tolerations_of,
)
from extender.decoding.decoder import StringMap, strings
from extender.objects import Namespace, RuntimeClass


class _Scheduling(Struct, rename="camel"):
    node_selector: StringMap = None
    tolerations: list[RawTimedToleration | None] | None = None


class _Overhead(Struct, rename="camel"):
    pod_fixed: Quantities | None = None


class _Metadata(Struct, rename="camel"):
    name: str | None = None
    resource_version: str | None = None
    annotations: StringMap = None
    creation_timestamp: str | None = None


class _NamespaceMetadata(_Metadata, rename="camel"):
    labels: StringMap = None


class RawNamespace(Struct):
    kind: str | None = None
    metadata: _NamespaceMetadata | None = None


class RawRuntimeClass(Struct):
    kind: str | None = None
    metadata: _Metadata | None = None
    handler: str | None = None
    overhead: _Overhead | None = None
    scheduling: _Scheduling | None = None


_NO_METADATA: Final = _Metadata()


def runtime_class_of(raw: RawRuntimeClass) -> RuntimeClass:
    metadata = raw.metadata or _NO_METADATA
    scheduling = raw.scheduling or _Scheduling()
    return RuntimeClass(
        metadata.name or "",
        raw.handler or "",
        tuple(sorted(strings(scheduling.node_selector).items())),
        tuple(timed_tolerations_of(scheduling.tolerations or ())),
        quantities_of(raw.overhead.pod_fixed if raw.overhead else None),
        strings(metadata.annotations),
        metadata.creation_timestamp or "",
        has_overhead=raw.overhead is not None,
        has_scheduling=raw.scheduling is not None,
        rules=rules_of(metadata.annotations),
    )


def namespace_of(raw: RawNamespace) -> tuple[str, Namespace]:
    """(name, namespace)."""
    metadata = raw.metadata or _NamespaceMetadata()
    namespace = Namespace(strings(metadata.annotations), strings(metadata.labels))
    return metadata.name or "", namespace
