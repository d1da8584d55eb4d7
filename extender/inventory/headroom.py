"""How many more pods of each RuntimeClass fit, by kube-scheduler's resource accounting.

Counted on the existing nodes, and on one new node of each pool whose autoscaler object describes
its nodes. The requests of DaemonSets on a new node are not counted.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from extender.admission.fit import as_admitted
from extender.explain.document import Document
from extender.explain.explanation import explain
from extender.explain.own_checks import Question
from extender.kubernetes.resources import allocatable_of
from extender.lint.new_nodes import NewNode
from extender.model.objects import Amounts, Pod, RuntimeClass
from extender.rules import resource_fit
from extender.rules.node_checks import Policy, Requirements
from extender.rules.node_shape import Wanted
from extender.rules.pools import Pools, nodes_of
from extender.rules.resource_fit import IGNORED, PODS, Loads, amount_text, counted
from extender.rules.snapshot import Snapshot
from extender.verbs.metrics import gauge_family


def _room(found: Sequence[tuple[int, Sequence[str]]]) -> Document:
    """found: the result of `fitting` for each node."""
    ends = Counter(chain.from_iterable(names for _, names in found))
    most = min(
        ends, key=lambda name: (-ends[name], resource_fit.by_kube_scheduler(name)), default=""
    )
    return {"fits": sum(pods for pods, _ in found), "limitedBy": most}


def fitting(request: Amounts, allocatable: Amounts, used: Amounts) -> tuple[int, list[str]]:
    """How many more pods fit on a node, and the resources that limit this number.

    The number of pods is no limit on a node whose allocatable has no entry for pods.
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
    """requests: of each pod, in billionths; None for each class's median. For one thread."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, loads: Loads, requests: Amounts | None = None
    ) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._loads = loads
        self._requests = None if requests is None else counted(requests)
        self._candidates = nodes_of(snapshot)
        self._amounts = cache(lambda raw: counted(allocatable_of(raw)) if raw else {})

    def of_nodes(
        self, runtime_class: RuntimeClass
    ) -> Iterator[tuple[bytes, tuple[int, Sequence[str]]]]:
        """Each node that a pod of the class may run on, with the result of `fitting`."""
        total, allocatable = self._total(runtime_class), self._snapshot.table.allocatable
        # The verdicts on shapes already cover the class's nodeSelector and terms.
        asking = replace(_pod_of(runtime_class), node_selector={}, node_affinity=None)
        asked = Question(asking, runtime_class, self._candidates, self._policy)
        for name in explain(asked).passing:
            used = self._loads.used.get(name, _NO_LOAD)
            yield name, fitting(total, self._amounts(allocatable.get(name, b"")), used)

    def _asked(self, runtime_class: RuntimeClass) -> Amounts:
        if self._requests is not None:
            return self._requests
        return self._loads.median(runtime_class.name)

    def _total(self, runtime_class: RuntimeClass) -> Amounts:
        overhead = counted(resource_fit.amounts_in_billionths(runtime_class.overhead))
        return Counter(self._asked(runtime_class)) + Counter(overhead)

    def document(
        self, runtime_class: RuntimeClass, pools: Pools, new_nodes: Sequence[NewNode]
    ) -> Document:
        requests = self._asked(runtime_class)
        fits, by_pool = [], dict[str, list[tuple[int, Sequence[str]]]]()
        for name, found in self.of_nodes(runtime_class):
            fits.append(found)
            by_pool.setdefault(pools.pools[pools.of_node[name]].name, []).append(found)
        new = dict(self._new(runtime_class, pools, new_nodes))
        return {
            "requests": {name: amount_text(name, requests[name]) for name in sorted(requests)},
            **_room(fits),
            "pools": [
                {"pool": name, **_room(by_pool.get(name, ())), "newNode": new.get(name)}
                for name in sorted({*by_pool, *new})
            ],
        }

    def _new(
        self, runtime_class: RuntimeClass, pools: Pools, new_nodes: Sequence[NewNode]
    ) -> Iterator[tuple[str, int | None]]:
        """For each pool how many pods fit on a new node; None if the node's size is unknown."""
        pod, request = _pod_of(runtime_class), self._total(runtime_class)
        for each in new_nodes:
            node = each.for_class(runtime_class)
            if node is None:
                continue
            shape = Wanted.of([runtime_class]).shape_of(node)
            if Requirements.of(pod.needs, runtime_class, self._policy).mismatch(shape) is not None:
                continue
            size = self._amounts(node.allocatable or self._example(pools, each.pool))
            is_told = (
                size.keys() >= request.keys() - IGNORED > set() if each.has_more else bool(size)
            )
            yield each.pool, fitting(request, size, _NO_LOAD)[0] if is_told else None

    def _example(self, pools: Pools, pool: str) -> bytes:
        """status.allocatable of the pool's first node, as JSON; empty if there is no such pool."""
        found = next((each for each in pools.pools if each.name == pool), None)
        return self._snapshot.table.allocatable.get(found.nodes[0], b"") if found else b""


def _pod_of(runtime_class: RuntimeClass) -> Pod:
    return as_admitted(Pod(runtime_class_name=runtime_class.name), runtime_class)


#: The pause after a computation, as a multiple of its duration: 30 s if it takes half a second.
_REST: Final = 60.0


@dataclass(eq=False)
class HeadroomCollector(Collector):
    """The gauge of how many more pods of each class fit, computed in the thread of a scrape.

    It has no samples until the pods, nodes and classes are known.
    """

    loads: Callable[[], Loads | None]
    snapshot: Callable[[], Snapshot]
    policy: Policy
    _due: float = 0.0
    _fits: Mapping[str, int] = field(default_factory=dict)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        about = "How many more pods of the RuntimeClass fit, each as its median running pod."
        family = gauge_family("headroom_pods", about, "runtimeclass")
        loads, snapshot, now = self.loads(), self.snapshot(), time.monotonic()
        if loads is not None and snapshot.is_synced:
            if now >= self._due:
                room = Headroom(snapshot, self.policy, loads)
                self._fits = {
                    each.name: sum(pods for _, (pods, _) in room.of_nodes(each))
                    for each in snapshot.classes_by_name
                }
                self._due = now + (time.monotonic() - now) * _REST
            for name, fits in self._fits.items():
                if name in snapshot.runtime_classes:
                    family.add_metric([name], fits)
        yield family
