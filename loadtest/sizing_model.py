"""What a cluster of some size asks of the service, and what was measured of it."""

from dataclasses import dataclass
from typing import Final

from extender.cluster.list_watch import MAX_WATCH_SECONDS, MIN_WATCH_SECONDS
from loadtest.generator import Cluster, go_json

#: A kubelet writes its Node's status this often when nothing about it has changed, and looks for
#: changes that often (nodeStatusReportFrequency and nodeStatusUpdateFrequency at their defaults,
#: pkg/kubelet/apis/config/v1beta1/defaults.go). Its Lease, each 10 s, is not watched by us.
REPORT_SECONDS: Final = 300
UPDATE_SECONDS: Final = 10

#: Changes of a pod's object in its life: created, bound, started, ready, being deleted, gone.
EVENTS_A_POD: Final = 6

PODS_A_NODE: Final = 10
MOST_PODS: Final = 100_000

#: One pod a second for so many nodes, but not fewer and not more than these.
_NODES_A_POD: Final = 100
_LEAST_PODS_A_SECOND: Final = 5
_MOST_PODS_A_SECOND: Final = 100

#: numFeasibleNodesToFind of pkg/scheduler/schedule_one.go, v1.36.2, with its default percentage.
_LEAST_OFFERED: Final = 100
_LEAST_PERCENT: Final = 5


def offered(nodes: int) -> int:
    """How many of the nodes that fit kube-scheduler asks about, at the most."""
    percent = max(_LEAST_PERCENT, 50 - nodes // 125)
    return min(nodes, max(_LEAST_OFFERED, nodes * percent // 100))


@dataclass(frozen=True, slots=True)
class Load:
    """What happens in a cluster. Rates are a second; node_bytes is the size of one update.

    Each pod that starts may bring an image to its node, which is a change of the Node's status.
    """

    nodes: int
    pods: int
    pods_a_second: int
    node_bytes: int

    @classmethod
    def of(cls, cluster: Cluster) -> "Load":
        nodes = cluster.spec.nodes
        rate = max(_LEAST_PODS_A_SECOND, min(_MOST_PODS_A_SECOND, nodes // _NODES_A_POD))
        size = len(go_json(cluster.node(0, fat=True)))
        return cls(nodes, min(MOST_PODS, PODS_A_NODE * nodes), rate, size)

    @property
    def node_updates(self) -> float:
        unchanged = self.nodes / REPORT_SECONDS
        return min(unchanged + self.pods_a_second, self.nodes / UPDATE_SECONDS)

    @property
    def pod_events(self) -> float:
        return float(EVENTS_A_POD * self.pods_a_second)

    @property
    def offered(self) -> int:
        return offered(self.nodes)


@dataclass(frozen=True, slots=True)
class Run:
    """One size in one mode. Shares of a core, seconds, milliseconds of the filter, bytes.

    complete: seconds until everything was known, pods included; ready comes before pods.
    memory: of both processes once they had been asked; peak: the most they had, what they share
    counted twice. update_milliseconds: processor time for an update of a node; 0 where not taken.
    """

    load: Load
    mode: str
    ready: float
    complete: float
    start_processor: float
    following: float
    asked: float
    placed: float
    filter_p50: float
    filter_p99: float
    memory: int
    peak: int
    watches: int
    start_requests: int
    start_bytes: int
    bytes_a_second: float
    update_milliseconds: float

    @property
    def requests_an_hour(self) -> float:
        """Each watch is asked for anew after a random time between the two."""
        return self.watches * 3600 / ((MIN_WATCH_SECONDS + MAX_WATCH_SECONDS) / 2)
