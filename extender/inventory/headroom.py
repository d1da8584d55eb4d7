"""How many more pods of each RuntimeClass there is room for, as kube-scheduler counts room.

On the nodes that exist, and on one more of a pool where an autoscaler's object says what its nodes
would be. What DaemonSets take of a new node is not counted.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import median_low
from typing import Final

from extender.admission.fit import as_admitted
from extender.explain.document import Document
from extender.explain.explanation import explain
from extender.inventory.new_nodes import NewNode
from extender.kubernetes.resources import PodLoad, allocatable_of
from extender.model.objects import Amounts, Pod, RuntimeClass
from extender.rules.node_checks import Policy, Requirements
from extender.rules.node_shape import Wanted
from extender.rules.pools import Pools, nodes_of
from extender.rules.resource_fit import (
    IGNORED,
    PODS,
    amount_text,
    amounts_in_billionths,
    by_kube_scheduler,
    counted,
    request_of,
)
from extender.rules.snapshot import Snapshot


@dataclass(slots=True)
class Loads:
    """What pods take of each node, and what the pods of each class ask for, without overhead."""

    used: dict[bytes, Counter[str]] = field(default_factory=dict)
    asked: dict[str, list[Amounts]] = field(default_factory=dict)

    def add(self, load: PodLoad, runtime_class: str) -> None:
        """Also a pod that is nominated to a node only, for which kube-scheduler keeps the room."""
        if load.priority < 0 and not load.is_bound:
            return
        sums = self.used.setdefault(load.node.encode("utf-8", "replace"), Counter())
        sums.update({**request_of(load.resources).total, PODS: 1})
        if load.is_bound and runtime_class:
            alone = request_of(load.resources, {}).total
            self.asked.setdefault(runtime_class, []).append(alone)

    def median(self, runtime_class: str) -> Amounts:
        """Of each resource the median of what the class's running pods ask for."""
        pods = self.asked.get(runtime_class, [])
        names = sorted({name for each in pods for name in each})
        found = {name: median_low(each.get(name, 0) for each in pods) for name in names}
        return {name: amount for name, amount in found.items() if amount}


@dataclass(slots=True)
class Fits:
    """The number of pods that fit, and on how many nodes each resource ends it."""

    pods: int = 0
    ends: Counter[str] = field(default_factory=Counter)

    def add(self, pods: int, ends: Sequence[str]) -> None:
        self.pods += pods
        self.ends.update(ends)

    def document(self) -> Document:
        ends = sorted(self.ends.items(), key=lambda item: (-item[1], by_kube_scheduler(item[0])))
        return {"fits": self.pods, "limitedBy": ends[0][0] if ends else ""}


def fitting(request: Amounts, allocatable: Amounts, used: Amounts) -> tuple[int, list[str]]:
    """How many pods a node takes, and the resources of which it then lacks some for one more.

    A node that does not say how many pods it may have is not asked for that.
    """
    asked = {name: amount for name, amount in request.items() if amount and name not in IGNORED}
    if PODS in allocatable:
        asked[PODS] = 1
    room = {
        name: max(allocatable.get(name, 0) - used.get(name, 0), 0) // amount
        for name, amount in asked.items()
    }
    least = min(room.values(), default=0)
    return least, [name for name, pods in room.items() if pods == least]


_NO_LOAD: Final[Amounts] = {}


class Headroom:
    """requests: of every pod, in billionths; None for the median of each class. For one thread."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        pools: Pools,
        loads: Loads,
        requests: Amounts | None,
        new_nodes: Sequence[NewNode],
    ) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._pools = pools
        self._loads = loads
        self._requests = None if requests is None else counted(requests)
        self._new_nodes = new_nodes
        self._candidates = nodes_of(snapshot)
        self._amounts = cache(lambda raw: counted(allocatable_of(raw)) if raw else {})

    def of(self, runtime_class: RuntimeClass) -> Document:
        requests = self._requests
        if requests is None:
            requests = self._loads.median(runtime_class.name)
        overhead = counted(amounts_in_billionths(runtime_class.overhead))
        total = Counter(requests) + Counter(overhead)
        # The shapes tell what the class selects.
        pod = as_admitted(Pod(runtime_class_name=runtime_class.name), runtime_class)
        asking = replace(pod, node_selector={}, node_affinity=None)
        fits, by_pool = Fits(), dict[str, Fits]()
        allocatable = self._snapshot.allocatable
        for name in explain(asking, runtime_class, self._candidates, self._policy).passing:
            used = self._loads.used.get(name, _NO_LOAD)
            found = fitting(total, self._amounts(allocatable.get(name, b"")), used)
            pool = self._pools.pools[self._pools.of_node[name]].name
            for each in (fits, by_pool.setdefault(pool, Fits())):
                each.add(*found)
        new = dict(self._new(pod, runtime_class, total))
        return {
            "requests": {name: amount_text(name, requests[name]) for name in sorted(requests)},
            **fits.document(),
            "pools": [
                {
                    "pool": name,
                    **by_pool.get(name, Fits()).document(),
                    "newNode": new.get(name),
                }
                for name in sorted({*by_pool, *new})
            ],
        }

    def _new(
        self, pod: Pod, runtime_class: RuntimeClass, request: Amounts
    ) -> Iterator[tuple[str, int | None]]:
        """By pool how many pods a new node takes; None where its size is not told."""
        for each in self._new_nodes:
            node = each.for_class(runtime_class)
            if node is None:
                continue
            shape = Wanted.of([runtime_class]).shape_of(node)
            if Requirements.of(pod.needs, runtime_class, self._policy).mismatch(shape) is not None:
                continue
            size = self._amounts(node.allocatable or self._example(each.offer.name))
            is_told = size.keys() >= request.keys() > set() if each.has_more else bool(size)
            yield each.offer.name, fitting(request, size, _NO_LOAD)[0] if is_told else None

    def _example(self, pool: str) -> bytes:
        """status.allocatable of a node that the pool has; empty where it has none."""
        found = next((each for each in self._pools.pools if each.name == pool), None)
        return self._snapshot.allocatable.get(found.nodes[0], b"") if found else b""
