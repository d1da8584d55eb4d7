"""What the pages cost: how long the first takes, and what browsers do to the filter's p99.

    python -m loadtest.pages

The browsers are in a process of their own, lest they slow the scheduler's clock down. Each asks for
the overview every five seconds, as the page's script does.
"""

import argparse
import http.client
import itertools
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from loadtest import arguments, tables
from loadtest.cases import HALF, NAMES, Asker, Case
from loadtest.generator import Cluster, ClusterSpec
from loadtest.processes import OUT, Server, running, serve_command
from loadtest.progress import Progress
from loadtest.timing import Client, Times

#: p99 beside the browsers, against p99 without them.
LIMIT = 1.3

#: A page's bytes, and seconds until the first one is there on a cluster of 65,000 nodes.
MOST_BYTES = 300_000
MOST_SECONDS = 1.0

_REFRESH_SECONDS = 5.0
_ASKED = 500


def _flags(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser("pages", "Measure what browsers cost the filter.")
    most = arguments.at_least_one
    parser.add_argument("--nodes", type=most, default=5_000, metavar="N", help="of the cluster")
    parser.add_argument("--classes", type=most, default=20, metavar="N", help="of the cluster")
    parser.add_argument("--browsers", type=most, default=10, metavar="N", help="at a time")
    parser.add_argument("--rounds", type=most, default=3, metavar="N", help="with and without")
    parser.add_argument("--seconds", type=most, default=15, metavar="N", help="a round")
    parser.add_argument("--browse", metavar="HOST:PORT", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _page(host: str, port: int) -> tuple[int, int, float]:
    """(status, bytes, seconds) of the overview."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection(host, port, timeout=60)
    try:
        connection.request("GET", "/", headers={"Accept": "text/html"})
        answer = connection.getresponse()
        return answer.status, len(answer.read()), time.perf_counter() - began
    finally:
        connection.close()


def _browse(address: str, browsers: int) -> int:
    """Until standard input ends, browsers that refresh."""
    host, _, port = address.rpartition(":")
    ending = threading.Event()

    def browser(number: int) -> None:
        ending.wait(_REFRESH_SECONDS * number / browsers)
        while not ending.is_set():
            _page(host, int(port))
            ending.wait(_REFRESH_SECONDS)

    threads = [threading.Thread(target=browser, args=(each,)) for each in range(browsers)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    ending.set()
    for thread in threads:
        thread.join()
    return 0


def _series(server: Server, bodies: Sequence[bytes], seconds: float) -> list[float]:
    with Client(server.address) as client:
        for body in bodies[:50]:
            client.time("filter", body)
        end, found = time.monotonic() + seconds, []
        for body in itertools.cycle(bodies):
            found.append(client.time("filter", body).seconds)
            if time.monotonic() > end:
                return found
    return []


def main(argv: Sequence[str] | None = None) -> int:
    flags = _flags(argv)
    if flags.browse:
        return _browse(flags.browse, flags.browsers)
    cluster = Cluster(ClusterSpec(flags.nodes, 20, flags.classes))
    case = Case("filter", NAMES, HALF, _ASKED)
    bodies = list(itertools.islice(Asker(cluster).bodies(case), 200))
    found: dict[str, list[float]] = {"alone": [], "beside browsers": []}
    with Progress() as progress, tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder) / "cluster.json"
        progress.say(f"starting the service on {flags.nodes:,} nodes")
        cluster.write_manifest(manifest)
        with running("pages", serve_command(manifest), OUT) as server:
            host, port = server.address
            status, size, first = _page(host, port)
            for number in range(flags.rounds):
                progress.say(f"round {number + 1} of {flags.rounds}: the scheduler alone")
                found["alone"] += _series(server, bodies, flags.seconds)
                progress.say(f"round {number + 1} of {flags.rounds}: {flags.browsers} browsers")
                command = [sys.executable, "-m", "loadtest.pages", "--browse", f"{host}:{port}"]
                browsers = subprocess.Popen(
                    [*command, "--browsers", str(flags.browsers)], stdin=subprocess.PIPE
                )
                try:
                    found["beside browsers"] += _series(server, bodies, flags.seconds)
                finally:
                    browsers.communicate()
    times = {name: Times.of(series) for name, series in found.items()}
    ratio = times["beside browsers"].p99 / times["alone"].p99
    rows = [("filter, 500 names", "requests", "p50 ms", "p99 ms")]
    for name, each in times.items():
        p50, p99 = tables.milliseconds(each.p50), tables.milliseconds(each.p99)
        rows.append((name, f"{each.requests:,}", p50, p99))
    print(tables.terminal(rows))
    print(f"p99 beside {flags.browsers} browsers: {ratio:.2f}x, limit {LIMIT}x")
    print(f"the first page: {first * 1000:.0f} ms, {size / 1000:.0f} kB, status {status}")
    is_small = status == 200 and size <= MOST_BYTES and first <= MOST_SECONDS
    return 0 if ratio <= LIMIT and is_small else 1


if __name__ == "__main__":
    sys.exit(main())
