"""What the service needs by the size of the cluster, and what the admission webhook stands.

    make bench-sizing        or        python -m loadtest.sizing --sizes 1000,5000 --quick

For each size the real service follows an API server that sends the nodes' updates at the rate that
kubelets cause, and is asked by a scheduler; then once more with --watch-pods. Prints tables; writes
sizing.json, sizing.md and sizing.png into loadtest/out/.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Final

from loadtest import arguments, sizing_tables, tables, webhook, webhook_limit
from loadtest.apiserver import ApiServer, Counts, apiserver
from loadtest.bench import environment, environment_line
from loadtest.cases import HALF, NAMES, NO_CLASS, Asker, Case
from loadtest.generator import Cluster, ClusterSpec
from loadtest.live import kubeconfig
from loadtest.memory import peak
from loadtest.processes import Effort, Server, ServerError, memory_of, program, running
from loadtest.progress import Progress
from loadtest.sizing_model import Load, Run
from loadtest.timing import Client, Times
from loadtest.usage import scrape
from loadtest.webhook_limit import Limit, Step

SIZES: Final = (100, 1_000, 5_000, 65_000)
QUICK_SIZES: Final = (100, 1_000, 5_000)

#: As the shipped manifests start it, and with every pod followed too.
MODES: Final = (
    ("shipped", ("--requeue-pods",)),
    ("watch-pods", ("--requeue-pods", "--watch-pods")),
)

#: For how long each state is looked at.
SECONDS: Final = 6.0
QUICK_SECONDS: Final = 2.0
WEBHOOK_SECONDS: Final = 3.0
QUICK_WEBHOOK_SECONDS: Final = 1.0

#: Nodes' updates a second when their cost is taken: enough to stand out.
UPDATES: Final = 500

_COUNTED_SECONDS: Final = 300.0
_SETTLE_SECONDS: Final = 0.5

#: What the service logs then.
_LISTED: Final = "waiting pods listed"


class _Spending:
    """Processor time of the service's two processes, as shares of a core."""

    def __init__(self, server: Server) -> None:
        self._pids = (server.process.pid, server.worker)
        self._before, self._began = self._seconds(), time.monotonic()

    def _seconds(self) -> float:
        return sum(Effort.of(pid).seconds for pid in self._pids)

    def share(self) -> float:
        return (self._seconds() - self._before) / (time.monotonic() - self._began)


def _wait_complete(server: Server) -> None:
    """Until every pod is counted. Raises ServerError."""
    deadline = time.monotonic() + _COUNTED_SECONDS
    while not scrape(server)[1]:
        if time.monotonic() > deadline:
            raise ServerError("pods are not counted in time")
        time.sleep(0.05)


def _wait_listed(log: Path) -> None:
    """Until --requeue-pods has listed the waiting pods of the cluster. Raises ServerError."""
    deadline = time.monotonic() + _COUNTED_SECONDS
    while _LISTED not in log.read_text():
        if time.monotonic() > deadline:
            raise ServerError(f"{log}: {_LISTED!r} does not come")
        time.sleep(0.05)


def _schedule(server: Server, cluster: Cluster, load: Load, seconds: float) -> tuple[Times, float]:
    """Ask as a scheduler that places so many pods a second: (times, pods a second)."""
    asker = Asker(cluster)
    cases = [Case("filter", NAMES, kind, load.offered) for kind in (HALF, NO_CLASS)]
    kinds = [asker.bodies(case) for case in cases]
    took: list[float] = []
    with Client(server.address) as client:
        for bodies in kinds:  # the first request of a kind works out its verdicts
            client.time("filter", next(bodies))
        began = time.monotonic()
        for number in range(max(1, round(load.pods_a_second * seconds))):
            body = next(kinds[number % len(kinds)])
            time.sleep(max(0.0, began + number / load.pods_a_second - time.monotonic()))
            answer = client.time("filter", body)
            if answer.status != 200:
                raise ServerError(f"filter answered {answer.status}")
            took.append(answer.seconds)
        elapsed = time.monotonic() - began
    return Times.of(took), len(took) / max(elapsed, len(took) / load.pods_a_second)


def _sent_a_second(api: ApiServer, before: Counts, began: float) -> float:
    return (api.counts().sent - before.sent) / (time.monotonic() - began)


def _cost_of_updates(api: ApiServer, server: Server, quiet: Load, seconds: float) -> float:
    """Milliseconds of processor time for each update of a node."""
    api.behave(heartbeats=UPDATES, churn=0)
    time.sleep(_SETTLE_SECONDS)
    before, spending, began = api.counts(), _Spending(server), time.monotonic()
    time.sleep(seconds)
    share, sent = spending.share(), _sent_a_second(api, before, began)
    api.behave(heartbeats=quiet.node_updates, churn=0)
    return 1000 * share / (sent / quiet.node_bytes)


def measure(
    api: ApiServer,
    cluster: Cluster,
    load: Load,
    mode: str,
    flags: Sequence[str],
    folder: str,
    seconds: float,
    out: Path,
) -> Run:
    """One size and one mode. Raises ServerError, OSError."""
    is_watching_pods = "--watch-pods" in flags
    api.behave(heartbeats=0, churn=0)
    before = api.counts()
    bind = ("--bind", "127.0.0.1:0", "--kubeconfig", kubeconfig(folder, api))
    name = f"sizing-{load.nodes}-{mode}"
    with running(name, [program(), "serve", *bind, *flags], out) as server:
        pids = (server.process.pid, server.worker)
        began = time.monotonic() - server.started_in
        if is_watching_pods:
            _wait_complete(server)
        complete = time.monotonic() - began
        _wait_listed(out / "logs" / f"{name}.log")
        started = api.counts()
        at_start = sum(Effort.of(pid).seconds for pid in pids)
        api.behave(heartbeats=load.node_updates, churn=load.pod_events if is_watching_pods else 0)
        time.sleep(_SETTLE_SECONDS)
        steady, spending, since = api.counts(), _Spending(server), time.monotonic()
        time.sleep(seconds)
        following, sent = spending.share(), _sent_a_second(api, steady, since)
        spending = _Spending(server)
        times, placed = _schedule(server, cluster, load, seconds)
        asked = spending.share()
        an_update = 0.0 if is_watching_pods else _cost_of_updates(api, server, load, seconds / 3)
        return Run(
            load=load,
            mode=mode,
            ready=server.started_in,
            complete=complete,
            start_processor=at_start,
            following=following,
            asked=asked,
            placed=placed,
            filter_p50=times.p50,
            filter_p99=times.p99,
            memory=memory_of(*pids),
            peak=sum(map(peak, pids)),
            watches=started.watches - before.watches,
            start_requests=started.requests - before.requests,
            start_bytes=started.sent - before.sent,
            bytes_a_second=sent,
            update_milliseconds=an_update,
        )


def _sizes(flags: argparse.Namespace, progress: Progress) -> list[Run]:
    runs = []
    for nodes in flags.sizes:
        cluster = Cluster(ClusterSpec(nodes))
        load = Load.of(cluster)
        progress.say(f"{nodes:,} nodes: encoding them and {load.pods:,} pods")
        with tempfile.TemporaryDirectory() as folder, apiserver(cluster, load.pods) as api:
            for mode, words in MODES:
                progress.say(f"{nodes:,} nodes: {' '.join(words)}")
                runs.append(
                    measure(api, cluster, load, mode, words, folder, flags.seconds, flags.out)
                )
    return runs


def _webhook(flags: argparse.Namespace, progress: Progress) -> Limit:
    with webhook.started(flags.out) as server:
        webhook_limit.at_rate(server, 50, 1.0)  # for warming up

        def at_rate(rate: int) -> Step:
            progress.say(f"webhook: {rate:,} pods a second")
            return webhook_limit.at_rate(server, rate, flags.webhook_seconds)

        rates = list(islice(webhook_limit.RATES, flags.webhook_rates))
        refinements = 1 if flags.quick else webhook_limit.REFINEMENTS
        steps = webhook_limit.search(at_rate, rates, refinements)
        pids = (server.process.pid, server.worker)
        return Limit(steps, memory_of(*pids), sum(map(peak, pids)))


def _flags(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser("sizing", "Measure what a cluster of some size takes.")
    add = parser.add_argument
    add("--sizes", type=arguments.sizes, metavar="N,N", help=f"nodes (default: {SIZES})")
    add("--seconds", type=arguments.number(0.1), metavar="N", help="of each state")
    add("--webhook-seconds", type=arguments.number(0.1), metavar="N", help="of each rate")
    add(
        "--webhook-rates",
        type=arguments.at_least_one,
        default=len(webhook_limit.RATES),
        metavar="N",
        help="how many rates of the webhook, from 50 pods a second on",
    )
    add("--quick", action="store_true", help="without the largest cluster, and shorter")
    add("--no-plot", action="store_true", help="do without matplotlib")
    arguments.add_out(parser)
    flags = parser.parse_args(argv)
    quick = flags.quick
    flags.sizes = flags.sizes or list(QUICK_SIZES if quick else SIZES)
    flags.seconds = flags.seconds or (QUICK_SECONDS if quick else SECONDS)
    flags.webhook_seconds = flags.webhook_seconds or (
        QUICK_WEBHOOK_SECONDS if quick else WEBHOOK_SECONDS
    )
    return flags


def main(argv: Sequence[str] | None = None) -> int:
    flags = _flags(argv)
    began = time.monotonic()
    with Progress() as progress:
        try:
            runs = _sizes(flags, progress)
            limit = _webhook(flags, progress)
        except (ServerError, OSError, ValueError) as error:
            progress.note(f"sizing: {error}")
            return 1
    document = {
        "environment": environment(),
        "sizes": [asdict(each) for each in runs],
        "webhook": asdict(limit),
    }
    (flags.out / "sizing.json").write_text(json.dumps(document, indent=1) + "\n")
    written = [*sizing_tables.report(tables.markdown, runs, limit), environment_line()]
    (flags.out / "sizing.md").write_text("\n\n".join(written) + "\n")
    print("\n\n".join(sizing_tables.report(tables.terminal, runs, limit)))
    print(f"\n{environment_line()}, {time.monotonic() - began:.0f} s; details in {flags.out}")
    if not flags.no_plot:
        from loadtest.plots import plot_panels

        plot_panels(sizing_tables.panels(runs, limit), flags.out / "sizing.png")
    return 0


if __name__ == "__main__":
    arguments.end(main)
