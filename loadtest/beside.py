"""The filter's latency alone, beside a dozen hostile clients, and beside 200 slow ones.

    make bench-hostile        or        python -m loadtest.beside --rounds 2

One client asks like kube-scheduler, at a steady pace. It comes before all others on its processor,
the attackers share that one with it at the lowest priority, and the server has another processor.
What remains of a request's time is told apart: what the server did, and how long server or client
were ready to run and had no processor (loadtest.undisturbed). Exit code 1 when a limit is broken.
"""

import argparse
import contextlib
import itertools
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from extender.wire.filter_bodies import QUICK_NAMES_BYTES
from loadtest import arguments, tables
from loadtest.attacking import Attackers, Report, attacked
from loadtest.bench import environment_line
from loadtest.cases import HALF, NAMES, Asker, Case
from loadtest.comparing import quiet_collector
from loadtest.generator import add_cluster_flags, cluster_of
from loadtest.hostile import Target
from loadtest.processes import Effort, Server, ServerError, running, serve_command, set_apart
from loadtest.progress import Progress
from loadtest.timing import Client, percentile
from loadtest.undisturbed import Moment, Observed, first_in_line
from loadtest.watching import server_errors

ALONE: Final = "alone"
STATES: Final[Mapping[str, Attackers]] = {
    ALONE: Attackers(),
    "12 hostile, a crowd": Attackers(quick=6, slow=6, crowds=1),
    "200 slow": Attackers(slow=200),
}

#: p99 beside others, against p99 alone; and alone against p50.
LIMIT: Final = 2.0
TAIL_LIMIT: Final = 3.0

#: kube-scheduler's own work for a pod takes longer.
_PAUSE_SECONDS: Final = 0.002
_ASKED: Final = 500
_BODIES: Final = 200
_WARM_UP: Final = 200
#: Until slow clients hold what they will hold.
_SETTLE_SECONDS: Final = 3.0

MAX_BODY_BYTES: Final = 64 * 2**20

_HEAD: Final = (
    *("beside", "requests", "p50 ms", "p99", "to alone", "max"),
    *("server: p99", "to alone", "limit", "max", "busy"),
)


@dataclass(slots=True)
class Series:
    """Requests in one state: milliseconds as the client saw them, and without the machine's.

    busy and seconds: the processor time of the server, and how long that took.
    """

    seen: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    busy: float = 0.0
    seconds: float = 0.0

    def row(self, name: str, alone: "Series") -> tuple[str, ...]:
        def tail(times: Sequence[float], base: Sequence[float]) -> tuple[str, str]:
            p99 = percentile(times, 99)
            return tables.milliseconds(p99), tables.times(p99 / percentile(base, 99))

        limit = "" if self is alone else tables.times(LIMIT)
        return (
            *(name, f"{len(self.seen):,}", tables.milliseconds(percentile(self.seen, 50))),
            *(*tail(self.seen, alone.seen), tables.milliseconds(max(self.seen))),
            *(*tail(self.own, alone.own), limit, tables.milliseconds(max(self.own))),
            f"{100 * self.busy / self.seconds:.0f}%",
        )


def _measure(server: Server, bodies: Sequence[bytes], requests: int, series: Series) -> None:
    """Raises ServerError for an answer that is not a 200."""
    endless = itertools.cycle(bodies)
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(Client(server.address))
        theirs = stack.enter_context(Observed(server.answering))
        ours = stack.enter_context(Observed(os.getpid()))
        for body in itertools.islice(endless, _WARM_UP):
            client.time("filter", body)
        stack.enter_context(quiet_collector())
        effort, began = Effort.of(server.answering), time.monotonic()
        for body in itertools.islice(endless, requests):
            before = theirs.now(), ours.now()
            timing = client.time("filter", body)
            after = theirs.now(), ours.now()
            if timing.status != 200:
                raise ServerError(f"the filter answered {timing.status}")
            waited = sum(map(_kept_waiting, before, after))
            series.seen.append(1000 * timing.seconds)
            series.own.append(1000 * max(0.0, timing.seconds - waited))
            time.sleep(_PAUSE_SECONDS)
        series.seconds += time.monotonic() - began
        series.busy += Effort.of(server.answering).seconds - effort.seconds


def _kept_waiting(before: Moment, after: Moment) -> float:
    """Seconds."""
    return before.kept_waiting(after) / 1e9


def _run(
    flags: argparse.Namespace, progress: Progress, reports: list[Report]
) -> tuple[dict[str, Series], bool]:
    """The series of each state, and whether nobody else came first. Raises ServerError."""
    found = {name: Series() for name in STATES}
    cluster = cluster_of(flags)
    bodies = list(itertools.islice(Asker(cluster).bodies(_case(flags)), _BODIES))
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        manifest = Path(folder) / "cluster.json"
        progress.say(f"starting the service on {flags.nodes:,} nodes")
        cluster.write_manifest(manifest)
        options = ("--max-body-bytes", str(MAX_BODY_BYTES), "--ops-bind", "127.0.0.1:0")
        command = serve_command(manifest, *options)
        server = stack.enter_context(running("beside", command, flags.out))
        set_apart([server], stack)
        _start_threads(server, bodies)
        is_first = stack.enter_context(first_in_line(server.answering))
        target = Target(server.address, MAX_BODY_BYTES, server.ops_address)
        for number, (name, attackers) in itertools.product(range(flags.rounds), STATES.items()):
            progress.say(f"round {number + 1} of {flags.rounds}: {name}")
            with contextlib.ExitStack() as beside:
                if name != ALONE:
                    beside.enter_context(attacked(target, attackers, reports))
                    time.sleep(_SETTLE_SECONDS)
                _measure(server, bodies, flags.requests // flags.rounds, found[name])
    return found, is_first


def _start_threads(server: Server, bodies: Sequence[bytes]) -> None:
    """Have the server start the threads that it answers large bodies and metrics in."""
    with Client(server.address) as client:
        client.ask("filter", bodies[0] + b" " * QUICK_NAMES_BYTES)
    assert server.ops_address is not None
    server_errors(server.ops_address)


def _case(flags: argparse.Namespace) -> Case:
    return Case("filter", NAMES, HALF, min(_ASKED, flags.nodes))


def broken_limits(found: Mapping[str, Series], reports: Sequence[Report]) -> Iterator[str]:
    """A line for each limit that was not kept."""
    alone = found[ALONE]
    p50, p99 = percentile(alone.own, 50), percentile(alone.own, 99)
    if p99 > TAIL_LIMIT * p50:
        yield f"alone: p99 is {p99 / p50:.2f}x p50, limit {TAIL_LIMIT:g}x"
    for name, series in found.items():
        ratio = percentile(series.own, 99) / p99
        if ratio > LIMIT:
            yield f"beside {name}: p99 is {ratio:.2f}x that alone, limit {LIMIT:g}x"
    for report in reports:
        yield from (f"{name}: {what}" for name, what in report.unexpected.items())


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments.parser("beside", "Measure the filter beside hostile and slow clients.")
    add_cluster_flags(parser, 5_000)
    add = parser.add_argument
    add("--requests", type=arguments.at_least_one, default=5_000, metavar="N", help="per state")
    add("--rounds", type=arguments.at_least_one, default=2, metavar="N", help="of all states")
    arguments.add_out(parser)
    flags = parser.parse_args(argv)
    reports: list[Report] = []
    with Progress() as progress:
        try:
            found, is_first = _run(flags, progress, reports)
        except (ServerError, OSError, ValueError) as error:
            progress.note(f"beside: {error}")
            return 1
    rows = [_HEAD, *(series.row(name, found[ALONE]) for name, series in found.items())]
    made = sum(sum(report.made.values()) for report in reports)
    priority = "before all other processes" if is_first else "without a right to come first"
    notes = (
        f"{_case(flags)}; {made:,} attacks; server and client ran {priority}.\n"
        "server: without the time that it or the client was ready to run and had no processor.",
        environment_line(),
    )
    (flags.out / "beside.md").write_text("\n\n".join((tables.markdown(rows), *notes)) + "\n")
    print("\n\n".join((tables.terminal(rows), *notes)))
    broken = list(broken_limits(found, reports))
    for line in broken:
        print(f"BROKEN  {line}")
    return 1 if broken else 0


if __name__ == "__main__":
    arguments.end(main)
