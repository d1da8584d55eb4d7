"""The resources of pods and nodes as numbers, in billionths of their unit."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from extender.decoding.common_parts import Quantities
from extender.decoding.decoder import DecodeError, nullable
from extender.objects import Amounts, PodResources
from extender.validation.quantity import billionths, trimmed_quantity


class RawResources(Struct):
    """A ResourceRequirements."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class _Container(Struct, rename="camel"):
    resources: RawResources | None = None
    restart_policy: str | None = None


class _Spec(Struct, rename="camel"):
    containers: list[_Container | None] | None = None
    init_containers: list[_Container | None] | None = None
    resources: RawResources | None = None
    overhead: Quantities | None = None


class RawResourcesPod(Struct):
    """A Pod, or a template, as far as its resources go."""

    spec: _Spec | None = None


_NO_CONTAINER: Final = _Container()
_NO_RESOURCES: Final = RawResources()


def amounts_of(raw: Mapping[str, str | int | float | None] | None, place: str) -> Amounts:
    """Amounts by resource in billionths. Raises DecodeError for what is no quantity."""
    return {name: _billionths(value, f"{place}[{name}]") for name, value in (raw or {}).items()}


def allocatable_of(raw: bytes) -> Amounts:
    """A node's status.allocatable, of its JSON. Raises DecodeError."""
    place = "status.allocatable"
    return amounts_of(nullable(raw, Quantities, place), place)


def _billionths(value: str | int | float | None, place: str) -> int:
    if value is None:
        return 0
    try:
        return billionths(trimmed_quantity(str(value)))
    except ValueError as error:
        raise DecodeError(f"{place}: {error}") from None


def resources_of(raw: RawResourcesPod, place: str = "") -> PodResources:
    """What the pod asks for, with the requests that kube-apiserver would add.

    A missing request takes the value of the container's limit, or of the pod's where no container
    asks for the resource (pkg/apis/core/v1/defaults.go, SetDefaults_Pod, v1.36.2). Stored pods
    already have these. Raises DecodeError.
    """
    spec, place = raw.spec or _Spec(), f"{place}.spec"
    started = _containers(spec.containers, f"{place}.containers")
    containers = tuple(amounts for amounts, _ in started)
    init_containers = tuple(_containers(spec.init_containers, f"{place}.initContainers"))
    pod_level = None
    if spec.resources is not None:
        pod_level = amounts_of(spec.resources.requests, f"{place}.resources.requests")
        limits = amounts_of(spec.resources.limits, f"{place}.resources.limits")
        asked = {name for amounts, _ in init_containers for name in amounts}
        asked.update(*containers)
        added = {name: value for name, value in limits.items() if name not in asked}
        pod_level = {**added, **pod_level}
    overhead = amounts_of(spec.overhead, f"{place}.overhead")
    return PodResources(containers, init_containers, pod_level, overhead)


def _containers(
    raw: Iterable[_Container | None] | None, place: str
) -> Iterator[tuple[Amounts, bool]]:
    """(requests, whether it is a sidecar) of each."""
    for index, item in enumerate(raw or ()):
        each = item or _NO_CONTAINER
        resources = each.resources or _NO_RESOURCES
        where = f"{place}[{index}].resources"
        requests: Mapping[str, int] = {
            **amounts_of(resources.limits, f"{where}.limits"),
            **amounts_of(resources.requests, f"{where}.requests"),
        }
        yield requests, each.restart_policy == "Always"
