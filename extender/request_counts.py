"""The counts of every request: plain integers, which become metrics at a scrape.

prometheus_client's own counters and histograms take a lock for each number, 4 µs of a request that
takes 15 in all (`make bench`); these take a tenth of that.
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from extender.reasons import Code

# 250 µs to 5 s, the time kube-scheduler waits by default.
_SECONDS: Final = (
    *(0.00025, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06),
    *(0.125, 0.25, 0.5, 1.0, 2.0, 5.0),
)
_NODES: Final = (1, 10, 100, 500, 1000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000)


class _Histogram:
    """How many values were at most as large as each bound, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total: float = 0

    def add_to(self, family: HistogramMetricFamily, label: str) -> None:
        bounds = [*map(floatToGoString, self.bounds), "+Inf"]
        buckets = list(zip(bounds, accumulate(self.counts), strict=True))
        family.add_metric([label], buckets, self.total)


class VerbCounts:
    """The results of the requests of one verb. Owned by the event loop's thread.

    codes has the number of answers by HTTP status.
    """

    __slots__ = ("codes", "nodes", "seconds")

    def __init__(self) -> None:
        self.codes: dict[int, int] = {200: 0}
        self.seconds = _Histogram(_SECONDS)
        self.nodes = _Histogram(_NODES)

    def succeeded(self, nodes: int, seconds: float) -> None:
        self.codes[200] += 1
        for histogram, value in ((self.seconds, seconds), (self.nodes, nodes)):
            histogram.counts[bisect_left(histogram.bounds, value)] += 1
            histogram.total += value

    def failed(self, status: int) -> None:
        self.codes[status] = self.codes.get(status, 0) + 1


class RequestsCollector(Collector):
    """Requests by verb: how many, how long they took, how many nodes they were about.

    early counts those that were refused before they reached a verb; their label is `other`.
    """

    def __init__(self, prefix: str, other: str) -> None:
        self._prefix = prefix
        self._other = other
        self._verbs: dict[str, VerbCounts] = {}
        self._with_nodes: set[str] = set()
        self._early: Counter[int] = Counter()

    def of_verb(self, verb: str, *, nodes: bool) -> VerbCounts:
        """The counts of a verb; nodes: whether its requests are about nodes."""
        counts = self._verbs[verb] = VerbCounts()
        if nodes:
            self._with_nodes.add(verb)
        return counts

    def refused_early(self, status: int) -> None:
        self._early[int(status)] += 1

    def collect(self) -> Iterable[CounterMetricFamily | HistogramMetricFamily]:
        requests = CounterMetricFamily(
            f"{self._prefix}_requests", "Requests answered.", labels=["verb", "code"]
        )
        seconds = HistogramMetricFamily(
            f"{self._prefix}_request_duration_seconds",
            "Time from the complete request to the answer handed to the server.",
            labels=["verb"],
        )
        nodes = HistogramMetricFamily(
            f"{self._prefix}_request_nodes", "Nodes asked about in one request.", labels=["verb"]
        )
        for verb, counts in self._verbs.items():
            _add_codes(requests, verb, counts.codes)
            counts.seconds.add_to(seconds, verb)
            if verb in self._with_nodes:
                counts.nodes.add_to(nodes, verb)
        _add_codes(requests, self._other, self._early)
        yield from (requests, seconds, nodes)


def _add_codes(family: CounterMetricFamily, verb: str, codes: Mapping[int, int]) -> None:
    for code, count in list(codes.items()):
        family.add_metric([verb, str(int(code))], count)


class RejectionsCollector(Collector):
    """Refused nodes, and pods left without one, by RuntimeClass and reason; from any thread."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._lock = threading.Lock()
        self._nodes: dict[tuple[str, Code], int] = {}
        self._pods: dict[tuple[str, Code], int] = {}

    def refused(self, runtime_class: str, counts: Mapping[Code, int], left_none: bool) -> None:
        """Count the refusals of one filter answer; runtime_class is the label's value."""
        with self._lock:
            for code, count in counts.items():
                key = (runtime_class, code)
                self._nodes[key] = self._nodes.get(key, 0) + count
            if left_none and counts:
                key = (runtime_class, min(counts, key=lambda code: (-counts[code], code)))
                self._pods[key] = self._pods.get(key, 0) + 1

    def collect(self) -> Iterable[CounterMetricFamily]:
        with self._lock:
            nodes, pods = dict(self._nodes), dict(self._pods)
        for name, text, counted in (
            ("nodes", "Nodes refused, by RuntimeClass and reason; counts attempts.", nodes),
            (
                "pods",
                "Filter calls that left no node, by RuntimeClass and the reason with most nodes.",
                pods,
            ),
        ):
            family = CounterMetricFamily(
                f"{self._prefix}_{name}_rejected", text, labels=["runtimeclass", "reason"]
            )
            for (runtime_class, code), count in counted.items():
                family.add_metric([runtime_class, code.value], count)
            yield family
