"""Decodes and validates RuntimeClasses, and decodes the Namespaces that name a default class."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from extender.kubernetes.class_annotations import rules_of
from extender.kubernetes.decoder import (
    ObjectMeta,
    Quantities,
    RawTimedToleration,
    StringMap,
    quantities_of,
    strings,
    timed_tolerations_of,
)
from extender.kubernetes.name_rules import (
    HUGE_PAGES_PREFIX,
    dns_label_fault,
    is_extended_resource,
    label_faults,
    label_key_fault,
    label_value_fault,
    node_name_fault,
    quoted,
    resource_name_fault,
)
from extender.kubernetes.quantity import billionths
from extender.model.objects import Namespace, RuntimeClass
from extender.model.pod_needs import Toleration
from extender.model.reasons import shown


class _Scheduling(Struct, rename="camel"):
    node_selector: StringMap = None
    tolerations: list[RawTimedToleration | None] | None = None


class _Overhead(Struct, rename="camel"):
    pod_fixed: Quantities | None = None


class RawNamespace(Struct):
    kind: str | None = None
    metadata: ObjectMeta | None = None


class RawRuntimeClass(Struct):
    kind: str | None = None
    metadata: ObjectMeta | None = None
    handler: str | None = None
    overhead: _Overhead | None = None
    scheduling: _Scheduling | None = None


def runtime_class_of(raw: RawRuntimeClass) -> RuntimeClass:
    metadata = raw.metadata or ObjectMeta()
    scheduling = raw.scheduling or _Scheduling()
    annotations = metadata.read_annotations()
    return RuntimeClass(
        metadata.name or "",
        raw.handler or "",
        tuple(sorted(strings(scheduling.node_selector).items())),
        tuple(timed_tolerations_of(scheduling.tolerations or ())),
        quantities_of(raw.overhead.pod_fixed if raw.overhead else None),
        annotations,
        metadata.created_at(),
        has_overhead=raw.overhead is not None,
        has_scheduling=raw.scheduling is not None,
        rules=rules_of(annotations),
    )


def namespace_of(raw: RawNamespace) -> tuple[str, Namespace]:
    """(name, namespace). Raises DecodeError."""
    metadata = raw.metadata or ObjectMeta()
    namespace = Namespace(metadata.read_annotations(), strings(metadata.labels))
    return metadata.name or "", namespace


def runtimeclass_fault(raw: RawRuntimeClass) -> str:
    """The first reason why kube-apiserver would reject a RuntimeClass; "" if it is valid.

    Upstream: pkg/apis/node/validation/validation.go, v1.36.2.
    """
    return next(_faults(raw, runtime_class_of(raw)), "")


def _faults(raw: RawRuntimeClass, read: RuntimeClass) -> Iterator[str]:
    if fault := node_name_fault(read.name):
        yield fault
    yield from label_faults(strings(raw.metadata.labels) if raw.metadata else {}, "metadata.labels")
    for key in read.annotations:
        if fault := label_key_fault(key.lower()):
            yield f"metadata.annotations: {fault}"
    if fault := dns_label_fault(read.handler) if read.handler else "is missing":
        yield f"handler: {fault}"
    yield from _overhead_faults(read.overhead)
    yield from label_faults(dict(read.node_selector), "scheduling.nodeSelector")
    yield from _toleration_faults(read.tolerations)


def _overhead_faults(pod_fixed: Mapping[str, str]) -> Iterator[str]:
    for name, amount in pod_fixed.items():
        if fault := resource_name_fault(name) or _amount_fault(name, amount):
            yield f"overhead.podFixed[{shown(name)}]: {fault}"
    has_huge_pages = any(name.startswith(HUGE_PAGES_PREFIX) for name in pod_fixed)
    if has_huge_pages and not {"cpu", "memory"} & pod_fixed.keys():
        yield "overhead.podFixed: huge pages need cpu or memory beside them"


def _amount_fault(name: str, amount: str) -> str:
    try:
        value = billionths(amount)
    except ValueError as error:
        return str(error)
    if value < 0:
        return f"{quoted(amount)} is negative"
    if is_extended_resource(name) and value % 10**9:
        return f"{quoted(amount)} is no whole number"
    if name.startswith(HUGE_PAGES_PREFIX) and not _is_divisible(value, name):
        return f"{quoted(amount)} is no multiple of the size of the page"
    return ""


def _is_divisible(value: int, name: str) -> bool:
    try:
        page = billionths(name.removeprefix(HUGE_PAGES_PREFIX))
    except ValueError:
        return False
    return page > 0 and value % page == 0


_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _toleration_faults(tolerations: Sequence[Toleration]) -> Iterator[str]:
    seen = set()
    for index, each in enumerate(tolerations):
        path = f"scheduling.tolerations[{index}]"
        if each.key and (fault := label_key_fault(each.key)):
            yield f"{path}.key: {fault}"
        if not each.key and each.operator != "Exists":
            yield f"{path}.operator: must be Exists where key is empty: any taint is tolerated"
        if each.operator == "Exists" and each.value:
            yield f"{path}.value: must be empty where operator is Exists"
        if each.operator not in ("", "Equal", "Exists"):  # Lt and Gt are for pods only
            yield f"{path}.operator: {quoted(each.operator)} is none of Equal, Exists"
        elif fault := label_value_fault(each.value):
            yield f"{path}.value: {fault}"
        if each.effect and each.effect not in _EFFECTS:
            yield f"{path}.effect: {quoted(each.effect)} is none of {', '.join(_EFFECTS)}"
        if each.seconds is not None and each.effect != "NoExecute":
            yield f"{path}.effect: must be NoExecute where tolerationSeconds is set"
        if each[:4] in seen:  # tolerationSeconds is no part of a toleration's identity
            yield f"{path}: is the same as an earlier one"
        seen.add(each[:4])
