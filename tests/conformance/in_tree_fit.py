"""kube-scheduler's NodeResourcesFit on an empty node, written down from its source.

fitsRequest and computePodResourceRequest: pkg/scheduler/framework/plugins/noderesources/fit.go;
SetMaxResource and NewResource: pkg/scheduler/framework/types.go; PodRequests and what it calls:
k8s.io/component-helpers/resource/helpers.go; v1.36.2, with its default gates (PodLevelResources on)
and without a DeviceClass that offers an extended resource. Quantities are exact fractions here.
"""

import math
from fractions import Fraction
from typing import Any, Final

Json = dict[str, Any]
ResourceList = dict[str, Fraction]

_SUFFIXES: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
}


def _quantity(text: str) -> Fraction:
    digits = text.rstrip("numkMGTKi")
    return Fraction(digits) * _SUFFIXES.get(text[len(digits) :], Fraction(1))


def _list(raw: dict[str, str] | None) -> ResourceList:
    return {name: _quantity(text) for name, text in (raw or {}).items()}


def _add(into: ResourceList, other: ResourceList) -> None:
    for name, quantity in other.items():
        into[name] = into.get(name, Fraction(0)) + quantity


def _max(into: ResourceList, other: ResourceList) -> None:
    for name, quantity in other.items():
        if name not in into or quantity > into[name]:
            into[name] = quantity


def _supported_at_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _requests(container: Json) -> ResourceList:
    return _list((container.get("resources") or {}).get("requests"))


def _aggregate_container_requests(spec: Json) -> ResourceList:
    result: ResourceList = {}
    for container in spec.get("containers") or ():
        _add(result, _requests(container))
    restartable: ResourceList = {}
    init: ResourceList = {}
    for container in spec.get("initContainers") or ():
        of_container = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(result, of_container)
            _add(restartable, of_container)
            of_container = restartable
        else:
            combined: ResourceList = {}
            _add(combined, of_container)
            _add(combined, restartable)
            of_container = combined
        _max(init, of_container)
    _max(result, init)
    return result


def pod_requests(spec: Json) -> ResourceList:
    requests = _aggregate_container_requests(spec)
    of_pod = _list((spec.get("resources") or {}).get("requests"))
    if any(map(_supported_at_pod_level, of_pod)):
        for name, quantity in of_pod.items():
            if _supported_at_pod_level(name):
                requests[name] = quantity
    if spec.get("overhead") is not None:
        _add(requests, _list(spec["overhead"]))
    return requests


def _is_scalar(name: str) -> bool:
    """IsScalarResourceName, of names that are valid."""
    native = "/" not in name or "kubernetes.io/" in name
    extended = not native and not name.startswith("requests.")
    return (
        extended
        or name.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in name
    )


def _resource(resources: ResourceList) -> dict[str, int]:
    """framework.Resource: thousandths of a CPU, whole units of all else, both rounded up."""
    return {
        name: math.ceil(quantity * 1000) if name == "cpu" else math.ceil(quantity)
        for name, quantity in resources.items()
        if name in ("cpu", "memory", "ephemeral-storage", "pods") or _is_scalar(name)
    }


def lacking(spec: Json, allocatable: dict[str, str]) -> set[str]:
    """The resources of which an empty node has too little; "pods" for too many pods."""
    has = _resource(_list(allocatable))
    found = set()
    if has.get("pods", 0) < 1:
        found.add("pods")
    for name, asked in _resource(pod_requests(spec)).items():
        if name != "pods" and asked > 0 and asked > has.get(name, 0):
            found.add(name)
    return found
