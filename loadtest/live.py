"""The cost of following a cluster of up to 65,000 nodes: start, memory, updates of nodes.

    make bench-live        or        python -m loadtest.live --sizes 1000,5000 --quick

For each size the real service, with FLAGS, follows an API server that sends node updates at the
rate of real kubelets and has no pods, and a scheduler sends it requests. Prints tables; writes
live.md into loadtest/out/.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from loadtest import arguments
from loadtest.apiserver import ApiServer, Counts, apiserver
from loadtest.arguments import say
from loadtest.cases import HALF, NAMES, NO_CLASS, Asker, Case
from loadtest.generator import Cluster, ClusterSpec
from loadtest.judging import told
from loadtest.live_model import Load, Run, report
from loadtest.processes import (
    Server,
    ServerError,
    memory_of,
    peak_of,
    program,
    running,
    seconds_of,
)
from loadtest.timing import Client, Times
from tests.fakes.apiserver import kubeconfig

SIZES: Final = (100, 1_000, 5_000, 65_000)
QUICK_SIZES: Final = (100, 1_000, 5_000)

#: The flags in the shipped manifests that change what is measured. --distrust is on by default.
FLAGS: Final = ("--requeue-pods", "--reasons=unplaced")

#: How long each state is measured.
SECONDS: Final = 6.0
QUICK_SECONDS: Final = 2.0

#: Node updates a second while their cost is measured: enough to stand out.
UPDATES: Final = 500

_LISTED_SECONDS: Final = 300.0
_SETTLE_SECONDS: Final = 0.5

#: The log line of the service once it has listed the waiting pods.
_LISTED: Final = "waiting pods listed"


class _Spending:
    """Processor time of the service's two processes, as a share of a core."""

    def __init__(self, server: Server) -> None:
        self._pids = (server.process.pid, server.worker)
        self._before, self._began = seconds_of(*self._pids), time.monotonic()

    def share(self) -> float:
        return (seconds_of(*self._pids) - self._before) / (time.monotonic() - self._began)


def _wait_listed(log: Path) -> None:
    """Wait until --requeue-pods has listed the cluster's waiting pods. Raises ServerError."""
    deadline = time.monotonic() + _LISTED_SECONDS
    while _LISTED not in log.read_text():
        if time.monotonic() > deadline:
            raise ServerError(f"{log}: {_LISTED!r} does not come")
        time.sleep(0.05)


def _schedule(server: Server, cluster: Cluster, load: Load, seconds: float) -> Times:
    """Send requests like a scheduler that places load.pods_a_second pods a second."""
    asker = Asker(cluster)
    cases = [Case("filter", NAMES, kind, load.offered) for kind in (HALF, NO_CLASS)]
    kinds = [asker.bodies(case) for case in cases]
    took: list[float] = []
    with Client(server.address) as client:
        for bodies in kinds:  # the first request of a kind computes its verdicts
            client.time("filter", next(bodies))
        began = time.monotonic()
        for number in range(max(1, round(load.pods_a_second * seconds))):
            body = next(kinds[number % len(kinds)])
            time.sleep(max(0.0, began + number / load.pods_a_second - time.monotonic()))
            answer = client.time("filter", body)
            if answer.status != 200:
                raise ServerError(f"filter answered {answer.status}")
            took.append(answer.seconds)
    return Times.of(took)


def _following(
    api: ApiServer, server: Server, updates: float, seconds: float
) -> tuple[float, float]:
    """(share of a core, bytes a second) at this number of node updates a second."""
    api.change_nodes(updates)
    time.sleep(_SETTLE_SECONDS)
    before, spending, began = api.counts(), _Spending(server), time.monotonic()
    time.sleep(seconds)
    sent = api.counts().sent - before.sent
    return spending.share(), sent / (time.monotonic() - began)


def measure(api: ApiServer, cluster: Cluster, folder: str, seconds: float, out: Path) -> Run:
    """Measure one size. Raises ServerError, OSError."""
    load, name = Load.of(cluster), f"live-{cluster.spec.nodes}"
    config = Path(folder) / "kubeconfig"
    config.write_text(kubeconfig(api.url))
    bind = ("--bind", "127.0.0.1:0", "--kubeconfig", str(config))
    with running(name, [program(), "serve", *bind, *FLAGS], out) as server:
        pids = (server.process.pid, server.worker)
        _wait_listed(out / "logs" / f"{name}.log")
        started: Counts = api.counts()
        at_start = seconds_of(*pids)
        following, sent = _following(api, server, load.node_updates, seconds)
        spending = _Spending(server)
        times = _schedule(server, cluster, load, seconds)
        asked = spending.share()
        share, many = _following(api, server, UPDATES, seconds / 3)
        return Run(
            load=load,
            ready=server.started_in,
            start_processor=at_start,
            following=following,
            asked=asked,
            filter_p50=times.p50,
            filter_p99=times.p99,
            memory=memory_of(*pids),
            peak=peak_of(*pids),
            watches=started.watches,
            start_bytes=started.sent,
            bytes_a_second=sent,
            update_milliseconds=1000 * share / (many / load.node_bytes),
        )


def _sizes(flags: argparse.Namespace) -> list[Run]:
    runs = []
    for nodes in flags.sizes:
        say(f"{nodes:,} nodes")
        with tempfile.TemporaryDirectory() as folder, apiserver(nodes) as api:
            cluster = Cluster(ClusterSpec(nodes))
            runs.append(measure(api, cluster, folder, flags.seconds, flags.out))
    return runs


def _flags(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser("live", "Measure what following a cluster of some size takes.")
    arguments.add_sizes(parser, SIZES, "nodes")
    parser.add_argument("--seconds", type=float, metavar="N", help="of each state")
    parser.add_argument("--quick", action="store_true", help="the smaller clusters, and shorter")
    flags = parser.parse_args(argv)
    if flags.quick and flags.sizes == list(SIZES):
        flags.sizes = list(QUICK_SIZES)
    flags.seconds = flags.seconds or (QUICK_SECONDS if flags.quick else SECONDS)
    return flags


def main(argv: Sequence[str] | None = None) -> int:
    flags = _flags(argv)
    try:
        runs = _sizes(flags)
    except (ServerError, OSError, ValueError) as error:
        say(f"live: {error}")
        return 1
    return told(flags.out, "live", report(runs))


if __name__ == "__main__":
    arguments.end(main)
