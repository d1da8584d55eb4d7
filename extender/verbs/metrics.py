"""The metrics for Prometheus. No request can add a metric or a value of a label."""

import platform
from collections import Counter as Count
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from extender import __version__
from extender.model.using_objects import Wait
from extender.rules.class_nodes import Support
from extender.rules.node_checks import Policy
from extender.rules.pod_state import Placement, PodGroup, PodUse, State, Usage, wait_of
from extender.rules.snapshot import Snapshot
from extender.rules.suspects import suspect_nodes
from extender.verbs.outcomes import NONE, RefusedPods, Rejections, VerbCounts, class_label

_PREFIX: Final = "runtimeclass_extender"

# A _created series beside each counter would double the number of series and be of no use.
disable_created_metrics()  # type: ignore[no-untyped-call]

# 250 µs to 5 s, kube-scheduler's default timeout.
_SECONDS: Final = (
    *(0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06),
    *(0.125, 0.25, 0.5, 1.0, 2.0, 5.0),
)
_NODES: Final = (1, 10, 100, 500, 1000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000)

#: The labels of rejections: an existing RuntimeClass, <none> or <unknown>; and the reason's code.
_REJECTED: Final = ("runtimeclass", "reason")


class Metrics:
    """The metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"{_PREFIX}_{name}", about, labels, registry=registry)

        def gauge(name: str, about: str, *labels: str) -> Gauge:
            return Gauge(f"{_PREFIX}_{name}", about, labels, registry=registry)

        def histogram(name: str, about: str, bounds: Sequence[float]) -> Histogram:
            return Histogram(
                f"{_PREFIX}_{name}", about, ["verb"], registry=registry, buckets=bounds
            )

        self._requests = counter("requests_total", "Requests answered.", "verb", "code")
        self._seconds = histogram(
            "request_duration_seconds",
            "Time from the complete request to the answer handed to the server.",
            _SECONDS,
        )
        self._nodes = histogram("request_nodes", "Nodes in one request.", _NODES)
        nodes = counter(
            "nodes_rejected_total",
            "Nodes refused, by RuntimeClass and reason; counts attempts.",
            *_REJECTED,
        )
        pods = counter(
            "pods_rejected_total",
            "Filter calls that left no node, by RuntimeClass and the reason with most nodes.",
            *_REJECTED,
        )
        self.rejections = Rejections(lru_cache(nodes.labels), pods.labels)
        self._watch_events = counter("watch_events_total", "Watch events received.", "kind", "type")
        self._watch_restarts = counter(
            "watch_restarts_total", "Watches that ended and were started again.", "kind", "reason"
        )
        self.requeued_pods = counter(
            "requeued_pods_total", "Pending pods annotated so that kube-scheduler tries them again."
        )
        self.last_contact = gauge(
            "cache_last_contact_timestamp_seconds",
            "Time of the last contact with the source of the cache.",
            "kind",
        )
        self.admission_requests = counter(
            "admission_requests_total", "Admission reviews answered.", "operation", "outcome"
        )
        build = gauge("build_info", "Always 1; the labels name the versions.", "version", "python")
        build.labels(__version__, platform.python_version()).set(1)

    def event(self, kind: str, type: str) -> None:
        self._watch_events.labels(kind, type).inc()

    def restart(self, kind: str, reason: str) -> None:
        self._watch_restarts.labels(kind, reason).inc()

    def of_verb(self, verb: str) -> VerbCounts:
        return VerbCounts(*self._counts(verb), self._nodes.labels(verb))

    def of_review(self, operation: str) -> VerbCounts:
        """The counts of the webhook's reviews. Failed reviews also count in their own counter."""
        failed = self.admission_requests.labels(operation, "error")
        return VerbCounts(*self._counts(operation), on_failure=failed.inc)

    def _counts(self, verb: str) -> tuple[Callable[[str], Counter], Histogram]:
        codes = lru_cache(partial(self._requests.labels, verb))
        codes("200")
        return codes, self._seconds.labels(verb)

    def refused_early(self, status: int) -> None:
        self._requests.labels(NONE, str(int(status))).inc()


def gauge_family(name: str, about: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_PREFIX}_{name}", about, labels=labels)


@dataclass(eq=False)
class RefusedPodsCollector(Collector):
    refused: RefusedPods
    snapshot: Callable[[], Snapshot]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        about = "Distinct pods left without a node in the last 10 minutes."
        family = gauge_family("refused_pods", about, "runtimeclass")
        known = self.snapshot().runtime_classes
        labels = (class_label(pod.runtime_class, known) for pod in self.refused.pods())
        for label, count in Count(labels).items():
            family.add_metric([label], count)
        yield family


@dataclass(eq=False)
class CacheCollector(Collector):
    """Gauges about the cache, read from the snapshot. nodes: whether Nodes are watched."""

    snapshot: Callable[[], Snapshot]
    nodes: bool = True

    def collect(self) -> Iterable[GaugeMetricFamily]:
        snapshot = self.snapshot()
        synced = gauge_family("cache_synced", "1 once all objects of the kind are known.", "kind")
        objects = gauge_family("cache_objects", "Objects of the kind in the cache.", "kind")
        classes = len(snapshot.runtime_classes)
        kinds = [("RuntimeClass", snapshot.runtime_classes_synced, classes)]
        if self.nodes:
            kinds.append(("Node", snapshot.nodes_synced, len(snapshot.nodes)))
        for kind, is_synced, count in kinds:
            synced.add_metric([kind], float(is_synced))
            objects.add_metric([kind], count)
        yield synced
        yield objects
        about = "RuntimeClasses in the cluster."
        yield GaugeMetricFamily(f"{_PREFIX}_runtimeclasses", about, classes)
        about = "1 for each RuntimeClass; maps the handler in the kubelet's metrics to the class."
        handlers = gauge_family("runtimeclass_info", about, "runtimeclass", "runtime_handler")
        for each in snapshot.runtime_classes.values():
            handlers.add_metric([each.name, each.handler], 1)
        yield handlers


@dataclass(eq=False)
class SupportCollector(Collector):
    """Gauges of which nodes support which RuntimeClasses. Empty until the cache is synced."""

    support: Support
    snapshot: Callable[[], Snapshot]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        snapshot = self.snapshot()
        about = "Nodes that match the RuntimeClass."
        per_class = gauge_family("runtimeclass_nodes", about, "runtimeclass")
        about = "Nodes that support this number of RuntimeClasses."
        per_count = gauge_family("node_runtimeclasses", about, "count")
        about = "Nodes that match the RuntimeClass and whose handler failed to start pods."
        suspects = gauge_family("suspect_nodes", about, "runtimeclass")
        if snapshot.is_synced:
            counts = self.support.counts(snapshot)
            failing = suspect_nodes(snapshot.suspects, snapshot, self.support)
            for name, nodes in counts.nodes.items():
                per_class.add_metric([name], nodes)
                suspects.add_metric([name], failing.get(name, 0))
            for count, nodes in sorted(counts.by_count.items()):
                per_count.add_metric([str(count)], nodes)
        yield per_class
        yield per_count
        yield suspects


#: The resources whose sums are shown even if no RuntimeClass has them as overhead.
_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


@dataclass(eq=False)
class PodsCollector(Collector):
    """Gauges of the pods of each RuntimeClass and their overhead, computed at a scrape.

    Empty until the caches are synced. The state of a group of pods is cached for a snapshot.
    """

    groups: Callable[[], Mapping[PodGroup, int] | None]
    snapshot: Callable[[], Snapshot]
    policy: Policy
    _states: tuple[Snapshot | None, Mapping[PodGroup, State]] = (None, MappingProxyType({}))

    def collect(self) -> Iterable[GaugeMetricFamily]:
        about = "Pods of the RuntimeClass that have not ended, by state."
        pods = gauge_family("pods", about, "runtimeclass", "state")
        about = "Overhead of the pods that have a node: cores, bytes, or a count."
        overhead = gauge_family("overhead", about, "runtimeclass", "resource")
        about = "Pods without a node, by what kube-scheduler said that they wait for."
        waiting = gauge_family("pending_pods", about, "runtimeclass", "why")
        groups, snapshot = self.groups(), self.snapshot()
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
                for wait in (Wait.RUNTIME_CLASS, Wait.RESOURCES, Wait.OTHER):
                    waiting.add_metric([label, wait.value], use.waits[wait])
                for resource, amount in sorted(use.overhead.items()):
                    if resource in resources:
                        overhead.add_metric([label, resource], amount / 10**9)
        yield pods
        yield overhead
        yield waiting

    def _usage(self, groups: Mapping[PodGroup, int], snapshot: Snapshot) -> Usage:
        judged_by, known = self._states
        states = dict[PodGroup, State]()
        usage, placement = Usage(), Placement(snapshot, self.policy)
        for group, number in groups.items():
            example = group.example
            state = known.get(group) if judged_by is snapshot else None
            state = states[group] = state or placement.judge(example)[0]
            runtime_class = snapshot.runtime_classes.get(example.runtime_class_name)
            usage.count(example, state, number, wait_of(example, runtime_class))
        self._states = snapshot, states
        return usage
