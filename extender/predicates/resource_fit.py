"""Whether a pod would fit on an empty node: NodeResourcesFit without other pods.

Follows fitsRequest of pkg/scheduler/framework/plugins/noderesources/fit.go and PodRequests of
k8s.io/component-helpers/resource, v1.36.2. What other pods use is not looked at, nor what a
DeviceClass offers as an extended resource (gate DRAExtendedResource).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from extender.objects import MARK, Amounts, PodResources
from extender.validation.overhead import is_scalar_resource
from extender.validation.quantity import billionths, binary_text

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
_HUGE_PAGES: Final = "hugepages-"

#: kube-scheduler's own order; others follow by name.
_ORDER: Final = {name: rank for rank, name in enumerate((PODS, CPU, MEMORY, EPHEMERAL_STORAGE))}

#: The number of billionths, in which amounts are kept, in a unit that kube-scheduler counts in:
#: thousandths of a CPU, whole units of all else.
_MILLI: Final = 10**6
_WHOLE: Final = 10**9

#: Pod-level requests that count (IsSupportedPodLevelResource).
_POD_LEVEL: Final = frozenset({CPU, MEMORY})


@dataclass(frozen=True, slots=True)
class Request:
    """What a pod asks of a node, in thousandths of a CPU and whole units of all else.

    total includes overhead, which is the part of it that the RuntimeClass has added.
    """

    total: Amounts
    overhead: Amounts


@dataclass(frozen=True, slots=True)
class Insufficient:
    """A resource of which a node has less than is asked, in the units of Request.

    overhead is the part of asked that comes from the RuntimeClass.
    """

    resource: str
    asked: int
    overhead: int
    allocatable: int


def request_of(resources: PodResources, overhead: Amounts | None = None) -> Request:
    """What the pod asks for.

    overhead: in billionths, instead of the pod's own, which admission has yet to set.

    1. The containers' requests and those of restartable init containers (sidecars) are added up.
    2. An init container needs its own and those of the sidecars started before it; the largest of
       these is the least, for each resource by itself.
    3. Pod-level requests for cpu, memory and huge pages take the place of both.
    4. Overhead is added.
    """
    total = Counter[str]()
    for amounts in resources.containers:
        _add(total, amounts)
    sidecars, needed = Counter[str](), dict[str, int]()
    for amounts, restarts in resources.init_containers:
        if restarts:
            _add(total, amounts)
            _add(sidecars, amounts)
            running: Mapping[str, int] = sidecars
        else:
            running = sidecars.copy()
            _add(running, amounts)
        for name, value in running.items():
            needed[name] = max(needed.get(name, 0), value)
    for name, value in needed.items():
        total[name] = max(total[name], value)
    for name, value in (resources.pod_level or {}).items():
        if name in _POD_LEVEL or name.startswith(_HUGE_PAGES):
            total[name] = value
    overhead = resources.overhead if overhead is None else overhead
    _add(total, overhead)
    return Request(counted(total), counted(overhead))


def _add(total: Counter[str], amounts: Amounts) -> None:
    # Not Counter.update, which is slower, nor +, which drops amounts that are not positive.
    for name, value in amounts.items():
        total[name] += value


def counted(amounts: Amounts) -> Amounts:
    """Billionths in kube-scheduler's units, rounded up; only for resources that it counts."""
    return {
        name: -(-value // (_MILLI if name == CPU else _WHOLE))
        for name, value in amounts.items()
        if name in _ORDER or is_scalar_resource(name)
    }


#: The resources that kube-scheduler leaves to its extenders (ignoredByScheduler).
_IGNORED: Final = frozenset({MARK})


def insufficient(request: Request, allocatable: Amounts) -> list[Insufficient]:
    """Every resource that an empty node lacks, in kube-scheduler's order; empty where it fits.

    allocatable: the node's status.allocatable by `counted`. A node without a number of pods is not
    checked for it: every kubelet reports one, but a manifest may omit it.
    """
    return sorted(_lacking(request, allocatable), key=_rank)


def _rank(each: Insufficient) -> tuple[int, str]:
    return _ORDER.get(each.resource, len(_ORDER)), each.resource


def _lacking(request: Request, allocatable: Amounts) -> Iterator[Insufficient]:
    if allocatable.get(PODS, 1) < 1:
        yield Insufficient(PODS, 1, 0, allocatable[PODS])
    for name, asked in request.total.items():
        has = allocatable.get(name, 0)
        if asked > max(has, 0) and name != PODS and name not in _IGNORED:
            yield Insufficient(name, asked, request.overhead.get(name, 0), has)


def amount_text(resource: str, amount: int) -> str:
    """An amount as people write it: 250m, 2, 160Mi; in the units of Request."""
    if resource == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith(_HUGE_PAGES):
        return binary_text(amount)
    return str(amount)


def amounts_in_billionths(overhead: Mapping[str, str]) -> Amounts:
    """An overhead as numbers; amounts that are no quantities are left out."""
    amounts = {}
    for name, text in overhead.items():
        try:
            amounts[name] = billionths(text)
        except ValueError:
            continue
    return amounts
