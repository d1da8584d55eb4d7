"""Whether a pod fits on a node, empty or beside other pods: NodeResourcesFit.

Follows fitsRequest of pkg/scheduler/framework/plugins/noderesources/fit.go and PodRequests of
k8s.io/component-helpers/resource, v1.36.2. Extended resources that a DeviceClass offers (gate
DRAExtendedResource) are not considered.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import median_low
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeVar

from extender.kubernetes.name_rules import HUGE_PAGES_PREFIX, is_pod_resource, is_scalar_resource
from extender.kubernetes.quantity import binary_text, stored_billionths
from extender.kubernetes.resources import PodLoad
from extender.model.objects import MARK, Amounts, Pod, PodResources

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Hashable)

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

#: kube-scheduler's order of these resources. All others follow, by name.
_ORDER: Final = {name: rank for rank, name in enumerate((PODS, CPU, MEMORY, EPHEMERAL_STORAGE))}

#: The billionths (the unit of stored amounts) in each of kube-scheduler's units: thousandths of a
#: CPU, whole units of all other resources.
_DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
_MILLI: Final = 10**6
_WHOLE: Final = 10**9


@dataclass(frozen=True, slots=True)
class Request:
    """What a pod requests of a node, in thousandths of a CPU and whole units of all else.

    overhead: the part of total that the RuntimeClass has added.
    """

    total: Amounts
    overhead: Amounts


@dataclass(frozen=True, slots=True)
class Insufficient:
    """A resource of which a node has less than the pod requests, in the units of Request.

    asked: the pod's request. overhead: the part of it that comes from the RuntimeClass.
    """

    resource: str
    asked: int
    overhead: int
    allocatable: int

    @property
    def is_hopeless(self) -> bool:
        """Whether the node has too little even if no pod runs there."""
        return self.asked > self.allocatable


def request_of(resources: PodResources, overhead: Amounts | None = None) -> Request:
    """The total request of a pod.

    overhead: in billionths, replaces the pod's own if admission has yet to set that.

    1. The requests of the containers and of restartable init containers (sidecars) are added up.
    2. An init container needs its own requests and those of the sidecars started before it. For
       each resource, the total is at least the largest such need.
    3. Pod-level requests for cpu, memory and huge pages replace the results of 1 and 2.
    4. Overhead is added.
    """
    total = Counter[str]()
    for amounts in resources.containers:
        total.update(amounts)
    sidecars, needed = Counter[str](), dict[str, int]()
    for amounts, restarts in resources.init_containers:
        if restarts:
            total.update(amounts)
            sidecars.update(amounts)
            running = sidecars
        else:
            running = sidecars.copy()
            running.update(amounts)
        for name, value in running.items():
            needed[name] = max(needed.get(name, 0), value)
    for name, value in needed.items():
        total[name] = max(total[name], value)
    for name, value in (resources.pod_level or {}).items():
        if is_pod_resource(name):
            total[name] = value
    overhead = resources.overhead if overhead is None else overhead
    total.update(overhead)
    return Request(counted(total), counted(overhead))


def counted(amounts: Amounts) -> Amounts:
    """Billionths in kube-scheduler's units, rounded up. Drops resources that it does not count.

    _DEVICE_CLASS: claimed from a DeviceClass, and in no node's allocatable (DRAExtendedResource).
    """
    return {
        name: -(-value // (_MILLI if name == CPU else _WHOLE))
        for name, value in amounts.items()
        if name in _ORDER or (is_scalar_resource(name) and not name.startswith(_DEVICE_CLASS))
    }


#: The resources that kube-scheduler leaves to its extenders (ignoredByScheduler).
IGNORED: Final = frozenset({MARK})


def insufficient(
    request: Request,
    allocatable: Amounts,
    used: Amounts = MappingProxyType({}),
    ignored: Collection[str] = IGNORED,
) -> list[Insufficient]:
    """The resources of which a node has too little, in kube-scheduler's order. Empty: the pod fits.

    allocatable: the node's status.allocatable as `counted`. used: the requests of the pods there,
    and the number of these pods as PODS. That number is checked only if allocatable has PODS: every
    kubelet reports it, but a manifest may omit it.
    """
    lacking = []
    if PODS in allocatable and allocatable[PODS] < used.get(PODS, 0) + 1:
        lacking.append(Insufficient(PODS, 1, 0, allocatable[PODS]))
    for name, asked in request.total.items():
        has = allocatable.get(name, 0)
        if asked > max(has - used.get(name, 0), 0) and name != PODS and name not in ignored:
            lacking.append(Insufficient(name, asked, request.overhead.get(name, 0), has))
    return sorted(lacking, key=lambda each: by_kube_scheduler(each.resource))


def by_kube_scheduler(resource: str) -> tuple[int, str]:
    """The sort key for kube-scheduler's order of resources."""
    return _ORDER.get(resource, len(_ORDER)), resource


def amount_text(resource: str, amount: int) -> str:
    """An amount in the units of Request, formatted for people: 250m, 2, 160Mi."""
    if resource == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith(HUGE_PAGES_PREFIX):
        return binary_text(amount)
    return str(amount)


def amounts_in_billionths(overhead: Mapping[str, str]) -> Amounts:
    """An overhead as numbers. Amounts that are not quantities are left out."""
    amounts = {}
    for name, text in overhead.items():
        try:
            amounts[name] = stored_billionths(text)
        except ValueError:
            continue
    return amounts


#: The load of one node: priority → the sums of its pods' requests, with their number as PODS.
NodeLoad = Mapping[int, Amounts]

IDLE: Final[NodeLoad] = {}

Pairs = tuple[tuple[str, int], ...]


class Share(NamedTuple):
    """The resources that a pod takes of its node, and its requests without overhead. Hashable.

    asked: the requests, None for a pod that is only nominated to the node.
    """

    taken: Pairs
    asked: Pairs | None


def share_of(load: PodLoad) -> Share | None:
    """What a bound or nominated pod takes of its node.

    kube-scheduler keeps a nominated pod's resources free, but not from pods of higher priority.
    None for a nominated pod of negative priority: every pod of the default priority is above it.
    """
    if load.priority < 0 and not load.is_bound:
        return None
    resources = load.resources
    taken = asked = request_of(resources).total
    if resources.overhead:
        asked = request_of(resources, {}).total
    of_pod = tuple((name, amount) for name, amount in asked.items() if amount)
    return Share((*taken.items(), (PODS, 1)), of_pod if load.is_bound else None)


@dataclass(slots=True)
class Loads:
    """The resources taken of each node, and the number of pods by class and requests.

    Only one thread may write. Any thread may read, and sees a change with a delay.
    """

    used: dict[bytes, Counter[str]] = field(default_factory=dict)
    asked: dict[str, Counter[Pairs]] = field(default_factory=dict)

    def add(self, load: PodLoad, runtime_class: str) -> None:
        if share := share_of(load):
            self.count(load.node.encode("utf-8", "replace"), share, runtime_class)

    def count(self, node: bytes, share: Share, runtime_class: str, times: int = 1) -> None:
        """times: the number of pods to add, -1 for a pod that is gone."""
        _count(self.used, node, dict(share.taken), times)
        if share.asked is not None and runtime_class:
            _count(self.asked, runtime_class, {share.asked: 1}, times)

    def median(self, runtime_class: str) -> Amounts:
        """The median request of the class's bound pods for each resource."""
        there = tuple(self.asked.get(runtime_class, Counter[Pairs]()).items())
        pods = [(dict(asked), number) for asked, number in there]
        found = {
            name: median_low(chain(*([each.get(name, 0)] * number for each, number in pods)))
            for name in sorted({name for each, _ in pods for name in each})
        }
        return {name: amount for name, amount in found.items() if amount}


def _count(sums: dict[K, Counter[T]], key: K, amounts: Mapping[T, int], times: int) -> None:
    """Add to the sums. A sum of 0 is removed, since pods' authors may name any resources."""
    here = sums.setdefault(key, Counter())
    for name, amount in amounts.items():
        here[name] += times * amount
        if not here[name]:
            del here[name]
    if not here:
        del sums[key]


class IncomingPod(Protocol):
    """A pod to be placed, and the nodes whose free resources decide about it."""

    pod: Pod

    @property
    def reached(self) -> Sequence[bytes]:
        """The nodes whose free resources count. Nodes that would fit if empty come first."""

    def fits(self, name: bytes, load: NodeLoad) -> bool:
        """Whether the pod could be bound to one of these nodes with this load."""


class UncountedError(Exception):
    """The pods on the nodes are unknown; the text says why."""


#: Returns the pods that take resources of the nodes that a pod reaches. Raises UncountedError.
PodsBeside = Callable[[IncomingPod], Iterable[PodLoad]]


def node_loads(pods: Iterable[PodLoad], pod: Pod) -> Mapping[bytes, NodeLoad]:
    """Node name → its load without the pod, which is to be placed.

    Pods nominated to a node count as if they ran there, unless their priority is lower than the
    pod's (framework/runtime/framework.go, addGENominatedPods, v1.36.2).
    """
    loads: dict[bytes, dict[int, Counter[str]]] = {}
    for each in pods:
        if (each.namespace, each.name) == (pod.namespace, pod.name):
            continue
        if each.is_bound or each.priority >= pod.state.priority:
            by_priority = loads.setdefault(each.node.encode("utf-8", "replace"), {})
            sums = by_priority.setdefault(each.priority, Counter())
            sums[PODS] += 1
            for name, amount in request_of(each.resources).total.items():
                if name != PODS:
                    sums[name] += amount
    return loads


def used(load: NodeLoad, *, least_priority: int | None = None) -> Amounts:
    """The sums over all pods, or over the pods of at least this priority."""
    sums = Counter[str]()
    for priority, amounts in load.items():
        if least_priority is None or priority >= least_priority:
            sums.update(amounts)
    return sums
