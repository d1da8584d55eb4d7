"""What Prometheus sees. Names and labels are those of the interface; none grows with requests."""

import platform
from collections import Counter as Count
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from extender import __version__
from extender.predicates.node_checks import Policy
from extender.refused_pods import RefusedPods
from extender.request_counts import RejectionsCollector, RequestsCollector, VerbCounts
from extender.snapshot import Snapshot
from extender.verbs.class_nodes import Support
from extender.verbs.class_usage import PodUse, Usage
from extender.verbs.placement import Placement, PodGroup, State

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"

_PREFIX: Final = "runtimeclass_extender"


def class_label(name: str, known: Mapping[str, object]) -> str:
    """The value of label runtimeclass: a class that exists, <none> or <unknown>."""
    if not name:
        return NONE
    return name if name in known else UNKNOWN


# A _created series beside each counter would double the series and answer no question.
disable_created_metrics()  # type: ignore[no-untyped-call]


class ReviewMetrics:
    """The counters of the webhook's reviews of one operation; `requests` has failed ones too."""

    def __init__(self, counts: VerbCounts, failed: Counter) -> None:
        self._counts = counts
        self._failed = failed
        self.succeeded = counts.succeeded

    def failed(self, status: int) -> None:
        self._counts.failed(status)
        self._failed.inc()


class Metrics:
    """The metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self._requests = RequestsCollector(_PREFIX, NONE)
        self._rejections = RejectionsCollector(_PREFIX)
        registry.register(self._requests)
        registry.register(self._rejections)
        self.refused_early = self._requests.refused_early
        self.refused = self._rejections.refused

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"{_PREFIX}_{name}", about, labels, registry=registry)

        def gauge(name: str, about: str, *labels: str) -> Gauge:
            return Gauge(f"{_PREFIX}_{name}", about, labels, registry=registry)

        self.watch_events = counter("watch_events_total", "Watch events received.", "kind", "type")
        self.watch_restarts = counter(
            "watch_restarts_total", "Watches that ended and were begun again.", "kind", "reason"
        )
        self.requeued_pods = counter(
            "requeued_pods_total", "Pending pods annotated so that kube-scheduler tries them again."
        )
        self.last_contact = gauge(
            "cache_last_contact_timestamp_seconds",
            "When the source of the cache was last heard of.",
            "kind",
        )
        self.admission_requests = counter(
            "admission_requests_total", "Admission reviews answered.", "operation", "outcome"
        )
        self.marked_pods = counter(
            "marked_pods_total",
            "Pods that the webhook has marked for kube-scheduler (--mark-pods).",
        )
        build = gauge("build_info", "Always 1; the labels say what runs.", "version", "python")
        build.labels(__version__, platform.python_version()).set(1)

    def of_verb(self, verb: str) -> VerbCounts:
        return self._requests.of_verb(verb, nodes=True)

    def of_review(self, operation: str) -> ReviewMetrics:
        counts = self._requests.of_verb(operation, nodes=False)
        return ReviewMetrics(counts, self.admission_requests.labels(operation, "error"))


def _family(name: str, about: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_PREFIX}_{name}", about, labels=labels)


class RefusedPodsCollector(Collector):
    """Gauge refused_pods, worked out at each scrape."""

    def __init__(self, refused: RefusedPods, snapshot: Callable[[], Snapshot]) -> None:
        self._refused = refused
        self._snapshot = snapshot

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = _family(
            "refused_pods",
            "Distinct pods left without a node in the last 10 minutes.",
            "runtimeclass",
        )
        known = self._snapshot().runtime_classes
        labels = (class_label(pod.runtime_class, known) for pod in self._refused.pods())
        for label, count in Count(labels).items():
            family.add_metric([label], count)
        yield family


class CacheCollector(Collector):
    """Gauges about the cache, read off the snapshot at each scrape.

    nodes: whether Nodes are followed at all.
    """

    def __init__(self, snapshot: Callable[[], Snapshot], *, nodes: bool = True) -> None:
        self._snapshot = snapshot
        self._nodes = nodes

    def collect(self) -> Iterable[GaugeMetricFamily]:
        snapshot = self._snapshot()
        synced = _family("cache_synced", "1 once all objects of the kind are known.", "kind")
        objects = _family("cache_objects", "Objects of the kind in the cache.", "kind")
        classes = len(snapshot.runtime_classes)
        kinds = [("RuntimeClass", snapshot.runtime_classes_synced, classes)]
        if self._nodes:
            kinds.append(("Node", snapshot.nodes_synced, len(snapshot.nodes)))
        for kind, is_synced, count in kinds:
            synced.add_metric([kind], float(is_synced))
            objects.add_metric([kind], count)
        yield synced
        yield objects
        yield GaugeMetricFamily(
            f"{_PREFIX}_runtimeclasses",
            "RuntimeClasses the cluster has.",
            value=len(snapshot.runtime_classes),
        )
        handlers = _family(
            "runtimeclass_info",
            "1 of each RuntimeClass with its handler, by which the kubelet's metrics go.",
            "runtimeclass",
            "runtime_handler",
        )
        for each in snapshot.runtime_classes.values():
            handlers.add_metric([each.name, each.handler], 1)
        yield handlers


class SupportCollector(Collector):
    """Gauges of which nodes support which RuntimeClasses; silent until all nodes are known."""

    def __init__(self, support: Support, snapshot: Callable[[], Snapshot]) -> None:
        self._support = support
        self._snapshot = snapshot

    def collect(self) -> Iterable[GaugeMetricFamily]:
        snapshot = self._snapshot()
        per_class = _family(
            "runtimeclass_nodes", "Nodes that match the RuntimeClass.", "runtimeclass"
        )
        per_count = _family(
            "node_runtimeclasses", "How many nodes support that many RuntimeClasses.", "count"
        )
        if snapshot.is_synced:
            counts = self._support.counts(snapshot)
            for name, nodes in counts.nodes.items():
                per_class.add_metric([name], nodes)
            for count, nodes in sorted(counts.by_count.items()):
                per_count.add_metric([str(count)], nodes)
        yield per_class
        yield per_count


#: Resources whose sums are shown though no RuntimeClass names them.
_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


class PodsCollector(Collector):
    """Gauges of the pods of each RuntimeClass and their overhead, worked out at a scrape.

    Silent until pods, nodes and RuntimeClasses are known. Pods are judged by groups that stand
    alike, and a group anew only when the snapshot is another one.
    """

    def __init__(
        self,
        groups: Callable[[], Mapping[PodGroup, int] | None],
        snapshot: Callable[[], Snapshot],
        policy: Policy,
    ) -> None:
        self._groups = groups
        self._snapshot = snapshot
        self._policy = policy
        self._judged_by: Snapshot | None = None
        self._states: dict[PodGroup, State] = {}

    def collect(self) -> Iterable[GaugeMetricFamily]:
        pods = _family(
            "pods",
            "Pods of the RuntimeClass that have not ended, by state.",
            "runtimeclass",
            "state",
        )
        overhead = _family(
            "overhead",
            "What pods with a node carry as overhead: cores, bytes, or a number of others.",
            "runtimeclass",
            "resource",
        )
        groups, snapshot = self._groups(), self._snapshot()
        if groups is not None and snapshot.is_synced:
            usage = self._usage(groups, snapshot)
            known = snapshot.runtime_classes
            # A pod's author may name any resource, and any class.
            resources = _RESOURCES.union(*(each.overhead for each in known.values()))
            by_label = {name: PodUse() for name in known}
            for name, use in usage.by_class.items():
                by_label.setdefault(class_label(name, known), PodUse()).add(use)
            for label, use in sorted(by_label.items()):
                for state in State:
                    pods.add_metric([label, state.value], use.states[state])
                for resource, amount in sorted(use.overhead.items()):
                    if resource in resources:
                        overhead.add_metric([label, resource], amount / 10**9)
        yield pods
        yield overhead

    def _usage(self, groups: Mapping[PodGroup, int], snapshot: Snapshot) -> Usage:
        if self._judged_by is not snapshot or len(self._states) > 2 * len(groups) + _FEW_GROUPS:
            self._judged_by, self._states = snapshot, {}
        usage, placement = Usage(), Placement(snapshot, self._policy)
        for group, number in groups.items():
            example = group.example
            state = self._states.get(group)
            if state is None:
                state = self._states[group] = placement.judge(example)[0]
            usage.count(example, state, number)
        return usage


#: How many more verdicts are kept than there are groups.
_FEW_GROUPS: Final = 1024
