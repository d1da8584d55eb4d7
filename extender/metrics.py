"""What Prometheus sees. Names and labels are those of the interface; none grows with requests."""

import platform
from collections import Counter as Count
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from extender import __version__
from extender.refused import RefusedPods
from extender.snapshot import Snapshot
from extender.verbs.nodes import Support
from extender.verdict import Code

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"

_PREFIX: Final = "runtimeclass_extender"

# 250 µs to 5 s, the time kube-scheduler waits by default.
_SECONDS: Final = (
    *(0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06),
    *(0.125, 0.25, 0.5, 1.0, 2.0, 5.0),
)
_NODES: Final = (1, 10, 100, 500, 1000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000)


def class_label(name: str, known: Mapping[str, object]) -> str:
    """The value of label runtimeclass: a class that exists, <none> or <unknown>."""
    if not name:
        return NONE
    return name if name in known else UNKNOWN


# A _created series beside each counter doubles the series and answers no question.
disable_created_metrics()  # type: ignore[no-untyped-call]


class VerbMetrics:
    """What is counted of each request of one verb, or of the webhook's operations.

    Of these there are no nodes, and a failure is an admission request too.
    """

    def __init__(self, metrics: "Metrics", verb: str, *, nodes: bool = True) -> None:
        self._metrics = metrics
        self._verb = verb
        self._duration = metrics.duration.labels(verb)
        self._nodes = metrics.nodes.labels(verb) if nodes else None
        self._succeeded = metrics.requests.labels(verb, "200")

    def succeeded(self, nodes: int, seconds: float) -> None:
        if self._nodes is not None:
            self._nodes.observe(nodes)
        self._succeeded.inc()
        self._duration.observe(seconds)

    def failed(self, status: int) -> None:
        self._metrics.requests.labels(self._verb, str(int(status))).inc()
        if self._nodes is None:
            self._metrics.admission_requests.labels(self._verb, "error").inc()


class Metrics:
    """The metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self._children: dict[tuple[Counter, str, Code], Counter] = {}
        self.requests = Counter(
            f"{_PREFIX}_requests_total", "Requests answered.", ["verb", "code"], registry=registry
        )
        self.duration = Histogram(
            f"{_PREFIX}_request_duration_seconds",
            "Time from the complete request to the answer handed to the server.",
            ["verb"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.nodes = Histogram(
            f"{_PREFIX}_request_nodes",
            "Nodes asked about in one request.",
            ["verb"],
            buckets=_NODES,
            registry=registry,
        )
        self.nodes_rejected = Counter(
            f"{_PREFIX}_nodes_rejected_total",
            "Nodes refused, by RuntimeClass and reason; counts attempts.",
            ["runtimeclass", "reason"],
            registry=registry,
        )
        self.pods_rejected = Counter(
            f"{_PREFIX}_pods_rejected_total",
            "Filter calls that left no node, by RuntimeClass and the reason with most nodes.",
            ["runtimeclass", "reason"],
            registry=registry,
        )
        self.watch_events = Counter(
            f"{_PREFIX}_watch_events_total",
            "Watch events received.",
            ["kind", "type"],
            registry=registry,
        )
        self.watch_restarts = Counter(
            f"{_PREFIX}_watch_restarts_total",
            "Watches that ended and were begun again.",
            ["kind", "reason"],
            registry=registry,
        )
        self.requeued_pods = Counter(
            f"{_PREFIX}_requeued_pods_total",
            "Pending pods annotated so that kube-scheduler tries them again.",
            registry=registry,
        )
        self.last_contact = Gauge(
            f"{_PREFIX}_cache_last_contact_timestamp_seconds",
            "When the source of the cache was last heard of.",
            ["kind"],
            registry=registry,
        )
        self.admission_requests = Counter(
            f"{_PREFIX}_admission_requests_total",
            "Admission reviews answered.",
            ["operation", "outcome"],
            registry=registry,
        )
        build = Gauge(
            f"{_PREFIX}_build_info",
            "Always 1; the labels say what runs.",
            ["version", "python"],
            registry=registry,
        )
        build.labels(__version__, platform.python_version()).set(1)

    def of_verb(self, verb: str) -> VerbMetrics:
        return VerbMetrics(self, verb)

    def of_review(self, operation: str) -> VerbMetrics:
        return VerbMetrics(self, operation, nodes=False)

    def refused_early(self, status: int) -> None:
        """Count a request turned away before it reached a verb."""
        self.requests.labels(NONE, str(int(status))).inc()

    def refused(self, runtime_class: str, counts: Mapping[Code, int], left_none: bool) -> None:
        """Count the refusals of one filter answer; runtime_class is a class_label."""
        for code, count in counts.items():
            self._rejected(self.nodes_rejected, runtime_class, code).inc(count)
        if left_none and counts:
            most = min(counts, key=lambda code: (-counts[code], code))
            self._rejected(self.pods_rejected, runtime_class, most).inc()

    def _rejected(self, counter: Counter, runtime_class: str, code: Code) -> Counter:
        """The child of a counter, which takes longer to find than to count with."""
        key = (counter, runtime_class, code)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = counter.labels(runtime_class, code.value)
        return child


class RefusedPodsCollector(Collector):
    """Gauge refused_pods, worked out at each scrape."""

    def __init__(self, refused: RefusedPods, snapshot: Callable[[], Snapshot]) -> None:
        self._refused = refused
        self._snapshot = snapshot

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            f"{_PREFIX}_refused_pods",
            "Distinct pods left without a node in the last 10 minutes.",
            labels=["runtimeclass"],
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
        synced = GaugeMetricFamily(
            f"{_PREFIX}_cache_synced", "1 once all objects of the kind are known.", labels=["kind"]
        )
        objects = GaugeMetricFamily(
            f"{_PREFIX}_cache_objects", "Objects of the kind in the cache.", labels=["kind"]
        )
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


class SupportCollector(Collector):
    """Gauges of which nodes support which RuntimeClasses; silent until all nodes are known."""

    def __init__(self, support: Support, snapshot: Callable[[], Snapshot]) -> None:
        self._support = support
        self._snapshot = snapshot

    def collect(self) -> Iterable[GaugeMetricFamily]:
        snapshot = self._snapshot()
        per_class = GaugeMetricFamily(
            f"{_PREFIX}_runtimeclass_nodes",
            "Nodes that match the RuntimeClass.",
            labels=["runtimeclass"],
        )
        per_count = GaugeMetricFamily(
            f"{_PREFIX}_node_runtimeclasses",
            "How many nodes support that many RuntimeClasses.",
            labels=["count"],
        )
        if snapshot.nodes_synced and snapshot.runtime_classes_synced:
            counts = self._support.counts(snapshot)
            for name, nodes in counts.nodes.items():
                per_class.add_metric([name], nodes)
            for count, nodes in sorted(counts.by_count.items()):
                per_count.add_metric([str(count)], nodes)
        yield per_class
        yield per_count
