"""The load test: will the service hold under a scheduler, probes and hostile clients?

    make loadtest        or        python -m loadtest.run --run-time 600 --hostile-users 12

Starts the service on a generated cluster; locust plays its clients. Hostile clients run for a
while, so that memory reaches its level, stop, and run again for --run-time. Another client asks the
filter before, beside and after them, and the times are compared. Prints tables and a verdict for
each limit; writes loadtest.md and locust's reports into loadtest/out/. Exit code 1 when a limit is
broken.
"""

import argparse
import contextlib
import importlib.util
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from extender.http.limits import DEFAULT_MAX_BODY_BYTES
from loadtest import arguments, tables
from loadtest.arguments import say
from loadtest.cases import HALF, NAMES, Asker, Case
from loadtest.comparing import quiet_collector
from loadtest.generator import Cluster, ClusterSpec
from loadtest.hostile import Target, UnexpectedError, send_largest
from loadtest.judging import Limit, environment_line, exit_code, lines
from loadtest.processes import (
    ROOT,
    Server,
    ServerError,
    Usage,
    command,
    is_ready,
    peak_of,
    running,
    url,
)
from loadtest.shipped import shipped
from loadtest.timing import Client, percentile
from loadtest.watching import at_rest, faults_and_refused_pods

#: The number of names that kube-scheduler sends in a cluster of 5,000 nodes.
_ASKED: Final = 500

_SCHEDULER: Final = ("SchedulerUser", "ProbeUser")
_HOSTILE: Final = ("HostileUser", "SlowUser")

#: The time without hostile clients: a share of the run, and its bounds in seconds.
_BASELINE_SHARE: Final = 0.25
_BASELINE_LEAST: Final = 5.0
_BASELINE_MOST: Final = 30.0
_WARM_SECONDS: Final = 15
#: The time until locust has ended, and until its users have started.
_LOCUST_SECONDS: Final = 60
_START_SECONDS: Final = 3.0

#: Threads that are started on demand: for pages, --ops-bind, large bodies and metrics.
_POOL_THREADS: Final = 8 + 2 + 1 + 1
_SPARE_DESCRIPTORS: Final = 2

#: kube-scheduler's own work for a pod takes some milliseconds.
_PAUSE_SECONDS: Final = 0.005

#: The most that hostile clients may add to the p99 of a filter, and to the memory at rest.
_MOST_ADDED_MS: Final = 50.0
_MOST_GROWTH_MIB: Final = 16.0
#: The service remembers up to 100,000 refused pods for ten minutes (extender.verbs.outcomes).
_REFUSED_POD_BYTES: Final = 400

_HEAD: Final = ("request", "count", "failed", "per s", "p50 ms", "p99 ms", "max ms")


@dataclass(frozen=True, slots=True)
class Load:
    """The requests of locust's users: milliseconds of each, and number of failures, by name."""

    times: Mapping[str, Sequence[float]]
    failures: Mapping[str, int]
    seconds: float

    def rows(self) -> Iterator[tuple[str, ...]]:
        for name, times in sorted(self.times.items()):
            points = (percentile(times, 50), percentile(times, 99), max(times))
            yield (
                name,
                f"{len(times):,}",
                str(self.failures[name]),
                f"{len(times) / self.seconds:.1f}",
                *map(tables.milliseconds, points),
            )


class Locust:
    """Users of some kinds, in a process of their own so that they don't slow other measurements."""

    def __init__(self, name: str, flags: argparse.Namespace, server: Server) -> None:
        assert server.ops_address is not None
        self._name, self._flags = name, flags
        self._times: Path = flags.out / "logs" / f"{name}.times.json"
        self._options = {
            "--host": url(server.address),
            "--ops-host": url(server.ops_address),
            "--stop-timeout": 15,
            "--exit-code-on-error": 0,
            "--csv": flags.out / name,
            "--html": flags.out / f"{name}.html",
            "--times": self._times,
            "--nodes": flags.nodes,
            "--max-body-bytes": DEFAULT_MAX_BODY_BYTES,
        }

    @contextlib.contextmanager
    def running(self, users: int, kinds: Sequence[str]) -> Iterator[None]:
        """Run users until the block ends. Raises ServerError if locust does not end in time."""
        self._times.unlink(missing_ok=True)
        options = self._options | {"--users": users, "--spawn-rate": users}
        words = [sys.executable, "-m", "locust", "-f", "loadtest/locustfile.py"]
        words += ["--headless", "--only-summary"]
        words += [str(word) for pair in options.items() for word in pair] + list(kinds)
        with (self._flags.out / "logs" / f"{self._name}.log").open("wb") as log:
            process = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log)
        self._began = time.monotonic()
        try:
            yield
            self._seconds = time.monotonic() - self._began
            process.send_signal(signal.SIGTERM)
            process.wait(_LOCUST_SECONDS)
        except subprocess.TimeoutExpired:
            raise ServerError("locust did not end in time") from None
        finally:
            process.kill()
            process.wait()

    def load(self) -> Load:
        """The load of the last run. Raises ServerError if locust wrote no times."""
        if not self._times.exists():
            raise ServerError(f"locust wrote no times; see {self._flags.out}/logs")
        found = json.loads(self._times.read_bytes())
        return Load(
            {name: each["milliseconds"] for name, each in found.items()},
            {name: each["failures"] for name, each in found.items()},
            self._seconds,
        )


@dataclass(slots=True)
class Series:
    """The milliseconds of each request, and the number of failures."""

    took: list[float] = field(default_factory=list)
    failed: int = 0

    @property
    def p99(self) -> float:
        return percentile(self.took, 99)


def ask(server: Server, bodies: Iterator[bytes], seconds: float) -> Series:
    """Send requests to the filter for so long. Raises OSError when no answer comes."""
    series, end = Series(), time.monotonic() + seconds
    with Client(server.address) as client, quiet_collector():
        while time.monotonic() < end:
            answer = client.time("filter", next(bodies))
            series.took.append(1000 * answer.seconds)
            series.failed += answer.status != 200
            time.sleep(_PAUSE_SECONDS)
    return series


@dataclass(frozen=True, slots=True)
class Measured:
    """The loads of locust's users; our client's requests before, beside and after hostile users.

    idle: before the first request. warm: after the first hostile clients. rest: at the end. peak:
    includes the largest bodies of all kinds, sent by two clients at once.
    """

    loads: Sequence[Load]
    before: Series
    beside: Series
    after: Series
    idle: Usage
    warm: Usage
    rest: Usage
    peak: int
    errors: int
    refused: int = 0

    def limits(self) -> Iterator[Limit]:
        failed = sum(sum(load.failures.values()) for load in self.loads)
        failed += sum(each.failed for each in (self.before, self.beside, self.after))
        yield Limit(f"failures: {failed}, limit 0", failed == 0)
        yield Limit(f"answers that tell of a fault (500): {self.errors}", self.errors == 0)
        added = max(0.0, self.beside.p99 - max(self.before.p99, self.after.p99))
        yield Limit(
            f"hostile clients add {added:.1f} ms to the p99 of a filter of {_ASKED} names,"
            f" limit {_MOST_ADDED_MS:g} ms",
            added <= _MOST_ADDED_MS,
        )
        growth = (self.rest.rss - self.warm.rss) / 2**20
        most_growth = _MOST_GROWTH_MIB + self.refused * _REFUSED_POD_BYTES / 2**20
        yield Limit(
            f"memory at rest: {self.rest.rss / 2**20:.0f} MiB, {growth:+.1f} MiB since hostile"
            f" clients came first, limit {most_growth:.0f} MiB with {self.refused:,} pods to retry",
            growth <= most_growth,
        )
        most = shipped("limits", "memory")
        text = f"memory at the most: {self.peak / 2**20:.0f} MiB, shipped limit {most / 2**20:.0f}"
        yield Limit(f"{text} MiB", self.peak <= most)
        for name, spare, idle, rest in (
            ("threads", _POOL_THREADS, self.idle.threads, self.rest.threads),
            ("descriptors", _SPARE_DESCRIPTORS, self.idle.descriptors, self.rest.descriptors),
        ):
            text = f"{name} at rest: {rest} ({idle} at first), limit {idle + spare}"
            yield Limit(text, rest <= idle + spare)

    def rows(self) -> Iterator[tuple[str, ...]]:
        yield ("filter of 500 names", "count", "p50 ms", "p99 ms", "max ms")
        for name, series in (
            ("before hostile clients", self.before),
            ("beside them", self.beside),
            ("after", self.after),
        ):
            points = (percentile(series.took, 50), series.p99, max(series.took))
            yield (name, f"{len(series.took):,}", *map(tables.milliseconds, points))


def measure(flags: argparse.Namespace) -> Measured:
    """Raises ServerError, OSError, UnexpectedError."""
    cluster = Cluster(ClusterSpec(flags.nodes))
    bodies = Asker(cluster).bodies(Case("filter", NAMES, HALF, min(_ASKED, flags.nodes)))
    quiet = min(_BASELINE_MOST, max(_BASELINE_LEAST, _BASELINE_SHARE * flags.run_time))
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        manifest = Path(folder) / "cluster.json"
        cluster.write_manifest(manifest)
        say("starting the service")
        words = command("serve", manifest, "--ops-bind", "127.0.0.1:0")
        server = stack.enter_context(running("loadtest", words, flags.out))
        assert server.ops_address is not None
        # A first request, so that the listener of --ops-bind is there too before `idle` is taken.
        is_ready(server.ops_address)
        idle = Usage.of(server.worker)
        scheduler = Locust("loadtest-scheduler", flags, server)
        hostile = Locust("loadtest-hostile", flags, server)
        users, attackers = flags.users + 1, flags.hostile_users
        say(f"warming up: {_WARM_SECONDS} s with hostile clients")
        with scheduler.running(users, _SCHEDULER), hostile.running(attackers, _HOSTILE):
            time.sleep(_WARM_SECONDS)
        say("waiting until memory is returned")
        warm = at_rest(server.worker)
        with scheduler.running(users, _SCHEDULER):
            say(f"{quiet:.0f} s without hostile clients")
            time.sleep(_START_SECONDS)
            before = ask(server, bodies, quiet)
            say(f"{flags.run_time} s with {flags.hostile_users} hostile clients")
            with hostile.running(attackers, _HOSTILE):
                time.sleep(_START_SECONDS)
                beside = ask(server, bodies, flags.run_time)
            say(f"{quiet:.0f} s without hostile clients")
            time.sleep(_START_SECONDS)
            after = ask(server, bodies, quiet)
        say("waiting until memory is returned")
        rest = at_rest(server.worker)
        say("sending the largest bodies of all kinds, two at once")
        send_largest(Target(server.address, DEFAULT_MAX_BODY_BYTES))
        peak = peak_of(server.process.pid, server.worker)
        loads = scheduler.load(), hostile.load()
        errors, refused = faults_and_refused_pods(server.ops_address)
        return Measured(loads, before, beside, after, idle, warm, rest, peak, errors, refused)


def _flags(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser("run", "Put the service under load and check its limits.")
    for flag, default, help in (
        ("--nodes", 5_000, "of the cluster"),
        ("--run-time", 60, "seconds with hostile clients"),
        ("--users", 1, "schedulers"),
        ("--hostile-users", 2, "half of them slow"),
    ):
        parser.add_argument(
            flag, type=arguments.at_least_one, default=default, metavar="N", help=help
        )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    flags = _flags(argv)
    try:
        if importlib.util.find_spec("locust") is None:
            raise ServerError("locust is not installed here: make loadtest")
        found = measure(flags)
    except (ServerError, OSError, UnexpectedError) as error:
        say(f"loadtest: {error}")
        return 1
    limits = list(found.limits())
    users = [_HEAD, *(row for load in found.loads for row in load.rows())]
    verdict = "\n".join(lines(limits))
    written = f"```\n{verdict}\n```\n\n{environment_line()}"
    (flags.out / "loadtest.md").write_text(f"{written}\n")
    print("\n\n".join([tables.table(users), tables.table(list(found.rows())), written]))
    return exit_code(limits)


if __name__ == "__main__":
    arguments.end(main)
