"""The load that a cluster of some size causes, the results of a run, and the tables of them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Final

from extender.cluster.api.list_watch import MAX_WATCH_SECONDS, MIN_WATCH_SECONDS
from loadtest.generator import Cluster, go_json
from loadtest.shipped import shipped
from loadtest.tables import mebibytes, milliseconds, table

#: How often a kubelet writes an unchanged Node status, and how often it looks for changes
#: (nodeStatusReportFrequency and nodeStatusUpdateFrequency at their defaults,
#: pkg/kubelet/apis/config/v1beta1/defaults.go). The service does not watch the Lease, each 10 s.
REPORT_SECONDS: Final = 300
UPDATE_SECONDS: Final = 10

#: One pod a second for so many nodes, within the two bounds below.
_NODES_A_POD: Final = 100
_LEAST_PODS_A_SECOND: Final = 5
_MOST_PODS_A_SECOND: Final = 100

#: numFeasibleNodesToFind of pkg/scheduler/schedule_one.go, v1.36.2, with its default percentage.
_LEAST_OFFERED: Final = 100
_LEAST_PERCENT: Final = 5

#: A request is rounded up to a multiple of the step, and is at least what the start needs.
_CPU_STEP: Final = 50
_MEMORY_STEP: Final = 32
_LEAST_CPU: Final = 100
_LEAST_MEMORY: Final = 128
SPARE: Final = 1.25

_WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a cluster. Rates are per second; node_bytes is the size of one update.

    Each pod that starts may pull an image, which changes the Node's status. offered: the most nodes
    that kube-scheduler sends to the extender, of those that fit.
    """

    nodes: int
    pods_a_second: int
    offered: int
    node_bytes: int

    @classmethod
    def of(cls, cluster: Cluster) -> "Load":
        nodes = cluster.spec.nodes
        rate = max(_LEAST_PODS_A_SECOND, min(_MOST_PODS_A_SECOND, nodes // _NODES_A_POD))
        percent = max(_LEAST_PERCENT, 50 - nodes // 125)
        offered = min(nodes, max(_LEAST_OFFERED, nodes * percent // 100))
        return cls(nodes, rate, offered, len(go_json(cluster.node(0, fat=True))))

    @property
    def node_updates(self) -> float:
        unchanged = self.nodes / REPORT_SECONDS
        return min(unchanged + self.pods_a_second, self.nodes / UPDATE_SECONDS)


@dataclass(frozen=True, slots=True)
class Run:
    """The results for one size: shares of a core, seconds, bytes; the filter's times are in ms.

    memory: of both processes after the requests. peak: the sum of their peaks, so shared memory
    counts twice. update_milliseconds: processor time for an update of a node.
    """

    load: Load
    ready: float
    start_processor: float
    following: float
    asked: float
    filter_p50: float
    filter_p99: float
    memory: int
    peak: int
    watches: int
    start_bytes: int
    bytes_a_second: float
    update_milliseconds: float

    @property
    def requests_an_hour(self) -> float:
        """A watch is renewed after a random time from MIN_WATCH_SECONDS to MAX_WATCH_SECONDS."""
        return self.watches * 3600 / ((MIN_WATCH_SECONDS + MAX_WATCH_SECONDS) / 2)

    @property
    def cpu_request(self) -> int:
        """The usage while requests arrive, in thousandths of a core, rounded up."""
        return max(_LEAST_CPU, _up(1000 * self.asked, _CPU_STEP))

    @property
    def memory_request(self) -> int:
        """The memory in use and a quarter more, in MiB, rounded up."""
        return max(_LEAST_MEMORY, _up(SPARE * self.memory / 2**20, _MEMORY_STEP))


def _up(value: float, step: int) -> int:
    return step * math.ceil(value / step)


_Columns = Mapping[str, Callable[[Run], str]]

_NODES: Final[_Columns] = {"nodes": lambda run: f"{run.load.nodes:,}"}
_LOAD: Final[_Columns] = {
    "updates/s": lambda run: f"{run.load.node_updates:.1f}",
    "pods/s": lambda run: f"{run.load.pods_a_second}",
    "nodes asked about": lambda run: f"{run.load.offered:,}",
}
_SERVICE: Final[_Columns] = {
    "start, s": lambda run: f"{run.ready:.1f}",
    "CPU, s": lambda run: f"{run.start_processor:.1f}",
    "following, %": lambda run: f"{100 * run.following:.1f}",
    "asked, %": lambda run: f"{100 * run.asked:.1f}",
    "MiB": lambda run: mebibytes(run.memory),
    "peak": lambda run: mebibytes(run.peak),
    "p50": lambda run: milliseconds(run.filter_p50),
    "p99": lambda run: milliseconds(run.filter_p99),
}
#: The load of the API server, and the requests to write into a manifest.
_OTHERS: Final[_Columns] = {
    "watches": lambda run: f"{run.watches}",
    "requests/h": lambda run: f"{run.requests_an_hour:.0f}",
    "KiB/s": lambda run: f"{run.bytes_a_second / 1024:,.0f}",
    "start, MiB": lambda run: mebibytes(run.start_bytes),
    "requests.cpu": lambda run: f"{run.cpu_request}m",
    "requests.memory": lambda run: f"{run.memory_request}Mi",
}


def _table(runs: Sequence[Run], columns: _Columns) -> str:
    columns = {**_NODES, **columns}
    return table([tuple(columns), *[tuple(cell(run) for cell in columns.values()) for run in runs]])


def report(runs: Sequence[Run]) -> list[str]:
    """The paragraphs and tables, in the order of docs/sizing.md."""
    cpu = shipped("requests", "cpu")
    memory, most = (shipped(kind, "memory") // 2**20 for kind in ("requests", "limits"))
    over = [
        f"{run.load.nodes:,} nodes"
        for run in runs
        if run.cpu_request > cpu or run.memory_request > memory
    ]
    parts = [
        "What the cluster does in the run:",
        _table(runs, _LOAD),
        "One replica: seconds until it was ready, and of processor time for that; per cent of a"
        " core while it follows, and while it is asked too; memory; the filter's times in"
        " milliseconds:",
        _table(runs, _SERVICE),
        f"An update of a node takes {runs[-1].update_milliseconds:.3f} ms of processor time"
        f" ({runs[-1].load.nodes:,} nodes).",
        "At the API server, for each replica: watches, requests an hour, KiB/s, and MiB read at the"
        f" start. What to write into `resources:` (shipped: requests of {cpu}m and {memory}Mi, a"
        f" limit of {most}Mi):",
        _table(runs, _OTHERS),
        f"The shipped requests are less than that for: {'; '.join(over) or 'none of them'}.",
    ]
    return [part if "\n" in part else fill(part, _WIDTH, break_on_hyphens=False) for part in parts]
