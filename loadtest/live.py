"""What following a large cluster costs: the first list, heartbeats, and watches without end.

make bench-live        or        python -m loadtest.live --nodes 65000
"""

import http.client
import json
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import orjson

from extender.cluster.api_connection import ApiConnection
from extender.cluster.cluster_config import ClusterConfig
from extender.cluster.kinds import NODES
from extender.cluster.list_watch import Backoff, ListWatch, Reason
from extender.cluster.node_and_class_feeds import NodeFeed
from extender.cluster.reflector import Reflector
from extender.cluster.snapshot_store import SnapshotStore
from loadtest import arguments, tables
from loadtest.apiserver import ApiServer, apiserver
from loadtest.generator import HALF_CLASS, Cluster, ClusterSpec, add_cluster_flags, cluster_of
from loadtest.processes import Server, ServerError, Usage, running
from loadtest.progress import Progress

ASKED_NAMES: Final = 5_000
HEARTBEATS: Final = 500
SECONDS: Final = 15.0
RESTARTS: Final = 10_000

_TICKS: Final = os.sysconf("SC_CLK_TCK")

Rows = list[tuple[str, ...]]


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def kubeconfig(folder: str, api: ApiServer) -> str:
    file = Path(folder) / f"kubeconfig-{api.port}"
    named = {"name": "it"}
    file.write_text(
        json.dumps(
            {
                "clusters": [{**named, "cluster": {"server": api.url}}],
                "contexts": [{**named, "context": {"cluster": "it"}}],
                "current-context": "it",
            }
        )
    )
    return str(file)


def _command(folder: str, api: ApiServer, watch_list: bool) -> list[str]:
    program = str(Path(sys.executable).with_name("runtimeclass-extender"))
    flags = ["--kubeconfig", kubeconfig(folder, api), f"--watch-list={str(watch_list).lower()}"]
    return [program, "serve", "--bind", "127.0.0.1:0", *flags]


class _Start:
    """A started service and what its start has cost."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.seconds = server.started_in
        self.cpu = _cpu_seconds(server.worker)
        self.rss = Usage.of(server.worker).rss


def _first_lists(
    cluster: Cluster, folder: str, out: Path, progress: Progress
) -> tuple[Rows, list[str]]:
    """What the first list costs a node, in both forms, and how heartbeats disturb the filter."""
    rows: Rows = [
        ("first list", "ready, s", "CPU, s", "CPU a node, ms", "RSS, MiB", "RSS a node, B")
    ]
    lines: list[str] = []
    few = Cluster(
        ClusterSpec(10, cluster.spec.shapes, cluster.spec.runtime_classes, cluster.spec.seed)
    )
    progress.say("encoding 10 nodes")
    with apiserver(few) as api, running("live-few", _command(folder, api, True), out) as server:
        base = _Start(server)
        rows.append(_row("10 nodes", base, base, 10))
    count = cluster.spec.nodes
    progress.say(f"encoding {count:,} nodes of 10 KB")
    with apiserver(cluster) as api:
        for name, watch_list in (("pages", False), ("watch-list", True)):
            progress.say(f"starting the service, {name}")
            with running(f"live-{name}", _command(folder, api, watch_list), out) as server:
                rows.append(_row(f"{count:,} nodes, {name}", _Start(server), base, count))
                if watch_list:
                    lines = _disturbed(cluster, api, server, progress)
    return rows, lines


def _row(name: str, start: _Start, base: _Start, nodes: int) -> tuple[str, ...]:
    per_node = 1000 * (start.cpu - base.cpu) / nodes
    return (
        name,
        f"{start.seconds:.2f}",
        f"{start.cpu:.2f}",
        f"{per_node:.3f}",
        tables.mebibytes(start.rss),
        f"{(start.rss - base.rss) / nodes:,.0f}",
    )


def _disturbed(cluster: Cluster, api: ApiServer, server: Server, progress: Progress) -> list[str]:
    names = cluster.names[:ASKED_NAMES]
    metadata = {"name": "p", "namespace": "d"}
    pod = {"metadata": metadata, "spec": {"runtimeClassName": HALF_CLASS}}
    body = orjson.dumps({"Pod": pod, "NodeNames": names})
    _ask(server, body, 2.0)
    progress.say("filter without heartbeats")
    cpu, began = _cpu_seconds(server.worker), time.monotonic()
    quiet = _ask(server, body, SECONDS)
    quiet_cpu = (_cpu_seconds(server.worker) - cpu) / (time.monotonic() - began)
    progress.say(f"filter with {HEARTBEATS} heartbeats a second")
    api.behave(heartbeats=HEARTBEATS)
    busy = _ask(server, body, SECONDS)
    api.behave(heartbeats=0)
    time.sleep(1)
    api.behave(heartbeats=HEARTBEATS)
    cpu, began = _cpu_seconds(server.worker), time.monotonic()
    time.sleep(5)
    alone = (_cpu_seconds(server.worker) - cpu) / (time.monotonic() - began)
    api.behave(heartbeats=0)
    rows: Rows = [("filter of 5,000 names", "requests", "p50, ms", "p99, ms")]
    for name, took in (("quiet", quiet), (f"{HEARTBEATS} heartbeats/s of 10 KB", busy)):
        rows.append((name, str(len(took)), *(tables.milliseconds(each) for each in _points(took))))
    ratios = [b / q for b, q in zip(_points(busy), _points(quiet), strict=True)]
    rows.append(("ratio", "", *(tables.times(ratio) for ratio in ratios)))
    return [
        tables.terminal(rows),
        f"CPU of {HEARTBEATS} heartbeats a second alone: {100 * alone:.1f}% of a core "
        f"(the filter loop alone: {100 * quiet_cpu:.0f}%)",
    ]


def _ask(server: Server, body: bytes, seconds: float) -> list[float]:
    """Sorted times in ms of one request after the other."""
    connection = http.client.HTTPConnection(*server.address, timeout=30)
    took = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        connection.request("POST", "/filter", body)
        connection.getresponse().read()
        took.append(1000 * (time.perf_counter() - began))
    connection.close()
    return sorted(took)


def _points(took: list[float]) -> tuple[float, float]:
    return took[len(took) // 2], took[len(took) * 99 // 100]


class _Counter:
    """Counts restarts; memory is looked at every thousand."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.restarts = 0
        self.rss: list[int] = []
        self.enough = threading.Event()

    def event(self, kind: str, type: str) -> None:
        pass

    def restart(self, kind: str, reason: Reason) -> None:
        self.restarts += 1
        if self.restarts % (RESTARTS // 10) == 0:
            self.rss.append(Usage.of(os.getpid()).rss)
            self._progress.say(f"{self.restarts:,} watches restarted")
        if self.restarts >= RESTARTS:
            self.enough.set()


def _restarts(folder: str, progress: Progress) -> Rows:
    """Memory over watches that end after one event, without the waits in between."""
    with apiserver(Cluster(ClusterSpec(200, 6, 5, 1))) as api:
        api.behave(short_watches="true")
        counter = _Counter(progress)
        reflector = Reflector(
            NODES,
            NodeFeed(SnapshotStore()),
            ApiConnection(ClusterConfig(kubeconfig(folder, api))),
            ListWatch(Backoff(time.monotonic)),
            counter,
            pause=lambda event, seconds: False,
        )
        began = time.monotonic()
        thread = threading.Thread(target=reflector.run, daemon=True)
        thread.start()
        if not counter.enough.wait(600):
            raise ServerError(f"only {counter.restarts} restarts in 10 minutes")
        seconds = time.monotonic() - began
        reflector.stop()
        thread.join(5)
        usage = Usage.of(os.getpid())
    first, last = counter.rss[0], counter.rss[-1]
    return [
        ("watch restarts", "value"),
        ("restarts", f"{counter.restarts:,}"),
        ("seconds", f"{seconds:.1f}"),
        ("RSS after 1,000, MiB", tables.mebibytes(first)),
        (f"RSS after {RESTARTS:,}, MiB", tables.mebibytes(last)),
        ("growth a restart, B", f"{(last - first) / (RESTARTS * 0.9):.1f}"),
        ("descriptors at the end", str(usage.descriptors)),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments.parser(
        "live", "Measure following a large cluster: the first list, heartbeats, watches that end."
    )
    add_cluster_flags(parser, nodes=65_000)
    arguments.add_out(parser, "for logs")
    flags = parser.parse_args(argv)
    logging.disable(logging.CRITICAL)
    try:
        with tempfile.TemporaryDirectory() as folder, Progress() as progress:
            lists, lines = _first_lists(cluster_of(flags), folder, flags.out, progress)
            restarts = _restarts(folder, progress)
    except (ServerError, OSError, ValueError) as error:
        print(f"python -m loadtest.live: {error}", file=sys.stderr)
        return 1
    print("\n\n".join([tables.terminal(lists), *lines, tables.terminal(restarts)]))
    return 0


if __name__ == "__main__":
    arguments.end(main)
