"""The load test: the service under a scheduler, probes and hostile clients, and its limits.

    make loadtest        or        python -m loadtest.run --run-time 600 --hostile-users 12

Starts the service on a generated cluster (or takes --host), runs locust, prints tables and writes
HTML reports, CSV and a plot into loadtest/out/. Exit code 1 when a limit is broken.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Final
from urllib.parse import urlsplit

from extender.http.service import DEFAULT_MAX_BODY_BYTES
from loadtest import arguments, tables
from loadtest.bodies import names_body, pod
from loadtest.generator import HALF_CLASS, ClusterSpec, add_cluster_flags, cluster_of, go_json
from loadtest.processes import (
    ROOT,
    Server,
    ServerError,
    Usage,
    is_ready,
    running,
    serve_command,
    url,
)
from loadtest.progress import Progress
from loadtest.restarting import Restarts, free_address
from loadtest.timing import Client, percentile
from loadtest.watching import Watch, await_usage, server_errors

VERBS: Final = ("filter", "prioritize", "preempt")

#: The service's, in the runs that start it: small enough to go over it often.
MAX_BODY_BYTES: Final = 64 * 2**20

#: Started one by one, as they are first needed: for pages, for large bodies, for metrics.
_POOL_THREADS: Final = 8 + 2 + 1
_SPARE_DESCRIPTORS: Final = 2
#: What is left of hostile connections is cut off after 10 s, and memory is returned every 10 s.
_RELEASE_SECONDS: Final = 20.0
#: Until then the allocator finds its size.
_WARM_SHARE: Final = 0.25
_WARM_SECONDS: Final = 10.0
_WARM_REQUESTS: Final = 20
_WARM_CLIENTS: Final = 16

_HOSTILE: Final = ("HostileUser", "SlowUser", "CrowdUser")
_LOCUST_SECONDS: Final = 60

#: How long a restart may take, after which requests that can't connect count as lost.
DOWN_SECONDS: Final = 60

Times = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Load:
    """What locust's users saw: milliseconds of each request and number of failures, by name."""

    times: Times
    failures: Mapping[str, int]
    seconds: float

    def p99(self, name: str) -> float:
        return percentile(self.times[name], 99)

    def rows(self) -> list[tuple[str, ...]]:
        return [
            (
                name,
                f"{len(times):,}",
                str(self.failures[name]),
                f"{len(times) / self.seconds:.1f}",
                tables.milliseconds(percentile(times, 50)),
                tables.milliseconds(percentile(times, 99)),
                tables.milliseconds(max(times)),
            )
            for name, times in sorted(self.times.items())
            if times
        ]


def _warm_up(server: Server, flags: argparse.Namespace) -> None:
    """Have the memory grow to what some clients at a time take."""
    names = cluster_of(flags).names
    body = names_body(go_json(pod(0, HALF_CLASS)), names)

    def ask(_: int) -> None:
        with Client(server.address) as client:
            for _ in range(_WARM_REQUESTS):
                client.ask("filter", body)

    with ThreadPoolExecutor(_WARM_CLIENTS) as pool:
        list(pool.map(ask, range(_WARM_CLIENTS)))


@dataclass(frozen=True, slots=True)
class Limit:
    """Something the run must keep to."""

    text: str
    kept: bool

    def __str__(self) -> str:
        return f"{'ok    ' if self.kept else 'BROKEN'}  {self.text}"


class LoadTest:
    """Runs locust against a host, one process for each kind of user.

    Hostile users have a process of their own, lest they slow the scheduler's measuring down.
    """

    def __init__(
        self, flags: argparse.Namespace, host: str, ops_host: str, progress: Progress
    ) -> None:
        self._flags = flags
        self._host = host
        self._ops_host = ops_host
        self._progress = progress

    def run(self, name: str, seconds: int, hostile_users: int) -> Load:
        """Raises ServerError when locust fails."""
        self._progress.say(f"{name}: {seconds} s, {hostile_users} hostile users")
        flags = self._flags
        users = ["SchedulerUser", "ProbeUser"]
        started = [self._locust(f"{name}-scheduler", flags.users + 1, seconds, users)]
        if hostile_users:
            started.append(self._locust(f"{name}-hostile", hostile_users + 1, seconds, _HOSTILE))
        try:
            for process, _ in started:
                process.wait(seconds + _LOCUST_SECONDS)
        except subprocess.TimeoutExpired:
            raise ServerError("locust did not end in time") from None
        finally:
            for process, _ in started:
                process.kill()
                process.wait()
        return self._load([times for _, times in started], seconds)

    def _locust(
        self, name: str, users: int, seconds: int, kinds: Sequence[str]
    ) -> tuple[subprocess.Popen[bytes], Path]:
        flags, out = self._flags, self._flags.out
        times: Path = out / "logs" / f"{name}.times.json"
        times.unlink(missing_ok=True)
        options = {
            "--host": self._host,
            "--users": users,
            "--spawn-rate": users,
            "--run-time": f"{seconds}s",
            "--stop-timeout": 15,
            "--exit-code-on-error": 0,
            "--csv": out / name,
            "--html": out / f"{name}.html",
            "--times": times,
            "--nodes": flags.nodes,
            "--shapes": flags.shapes,
            "--runtimeclasses": flags.runtimeclasses,
            "--seed": flags.seed,
            "--share-with-class": flags.share_with_class,
            "--mode": flags.mode,
            "--pods-per-second": flags.pods_per_second,
            "--max-body-bytes": flags.max_body_bytes,
        }
        if self._ops_host:
            options["--ops-host"] = self._ops_host
        if flags.restart_every:
            options["--down-seconds"] = DOWN_SECONDS
        command = [sys.executable, "-m", "locust", "-f", "loadtest/locustfile.py"]
        command += ["--headless", "--only-summary"]
        command += [str(word) for pair in options.items() for word in pair] + list(kinds)
        with (out / "logs" / f"{name}.log").open("wb") as log:
            return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log), times

    def _load(self, files: Sequence[Path], seconds: float) -> Load:
        times: dict[str, list[float]] = {}
        failures: dict[str, int] = {}
        for file in files:
            if not file.exists():
                raise ServerError(f"locust wrote no times; see {self._flags.out}/logs")
            for name, found in json.loads(file.read_bytes()).items():
                times[name] = found["milliseconds"]
                failures[name] = found["failures"]
        if "filter" not in times:
            raise ServerError(f"no filter request was made; see {self._flags.out}/logs")
        return Load(times, failures, seconds)


class _Service:
    """The service on generated nodes, on the same ports each time that it is started.

    watches has a watch of each process, in their order.
    """

    def __init__(self, flags: argparse.Namespace, manifest: Path) -> None:
        cluster_of(flags).write_manifest(manifest)
        bind, ops_bind = free_address(), free_address()
        options = ["--max-body-bytes", str(flags.max_body_bytes)]
        options += ["--bind", "{}:{}".format(*bind), "--ops-bind", "{}:{}".format(*ops_bind)]
        self._command = serve_command(manifest, *options)
        self._out = flags.out
        self.watches: list[Watch] = []

    @contextlib.contextmanager
    def start(self) -> Iterator[Server]:
        name = f"service-{len(self.watches)}" if self.watches else "service"
        with running(name, self._command, self._out) as server, Watch(server.worker) as watch:
            self.watches.append(watch)
            yield server


def load_limits(load: Load, flags: argparse.Namespace) -> list[Limit]:
    """A service that is stopped has no good answer for who is hostile: that is not judged."""
    judged = VERBS if flags.restart_every else load.failures
    failed = sum(load.failures.get(name, 0) for name in judged)
    whose = " of the scheduler's requests" if flags.restart_every else ""
    limits = [Limit(f"failures{whose}: {failed}, limit 0", failed == 0)]
    for verb in VERBS:
        if verb in load.times:
            p99 = load.p99(verb)
            text = f"{verb} p99: {p99:.1f} ms, limit {flags.max_p99_ms:g} ms"
            limits.append(Limit(text, p99 <= flags.max_p99_ms))
    return limits


def usage_limits(idle: Usage, warm: Usage, after: Usage, flags: argparse.Namespace) -> list[Limit]:
    """idle: before the first request; warm: with a quarter of the run over; after: at rest."""
    growth = (after.rss - warm.rss) / 2**20
    memory = f"memory: {warm.rss / 2**20:.0f} MiB warm, {growth:+.1f} MiB since, "
    judged = flags.run_time * _WARM_SHARE >= _WARM_SECONDS
    memory += f"limit {flags.max_growth_mib:g} MiB" if judged else "too short a run to judge"
    threads, descriptors = idle.threads + _POOL_THREADS, idle.descriptors + _SPARE_DESCRIPTORS
    return [
        Limit(memory, growth <= flags.max_growth_mib or not judged),
        Limit(
            f"threads at rest: {after.threads} ({idle.threads} at first), limit {threads}",
            after.threads <= threads,
        ),
        Limit(
            f"descriptors at rest: {after.descriptors} ({idle.descriptors} at first), "
            f"limit {descriptors}",
            after.descriptors <= descriptors,
        ),
    ]


def _print_load(load: Load) -> None:
    head = ("request", "count", "failed", "per s", "p50 ms", "p99 ms", "max ms")
    print(tables.terminal([head, *load.rows()]))
    print()


def _own_service(flags: argparse.Namespace, progress: Progress) -> list[Limit]:
    """Start the service, load it, and look at what it holds on to."""
    progress.say("starting the service")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        service = _Service(flags, Path(folder) / "cluster.json")
        restarts = stack.enter_context(Restarts(service.start, flags.restart_every))
        first = restarts.server
        assert first.ops_address is not None
        # Both event loops are there now.
        is_ready(first.ops_address)
        idle = Usage.of(first.worker)
        test = LoadTest(flags, url(first.address), url(first.ops_address), progress)
        _warm_up(first, flags)
        limits = _loaded(test, flags)
        restarts.end()
        server, warm = restarts.server, service.watches[-1].settled(_WARM_SHARE)
        after = await_usage(
            server.worker,
            lambda now: all(limit.kept for limit in usage_limits(idle, warm, now, flags)),
            _RELEASE_SECONDS,
        )
        errors = server_errors(first.ops_address)
    _plot(service.watches, flags)
    if flags.restart_every:
        limits.append(_restarted(restarts))
    return [
        *limits,
        *usage_limits(idle, warm, after, flags),
        Limit(f"answers that tell of a fault (500): {errors}, limit 0", errors == 0),
    ]


def _restarted(restarts: Restarts) -> Limit:
    text = f"{len(restarts.down)} restarts"
    if restarts.down:
        text += f", each down for {mean(restarts.down):.1f} s, {max(restarts.down):.1f} s at most"
    return Limit(f"{text}; {restarts.error}" if restarts.error else text, not restarts.error)


def _check_host(flags: argparse.Namespace) -> None:
    """Whether a service answers there that has the same nodes. Raises ServerError, OSError."""
    parts = urlsplit(flags.host)
    name = cluster_of(flags).names[-1]
    try:
        with Client((parts.hostname or "", parts.port or 80)) as client:
            answer = client.ask("filter", names_body(go_json(pod(0, HALF_CLASS)), [name]))
    except OSError as error:
        raise ServerError(f"--host {flags.host}: {error}") from None
    if answer.status != 200 or b"not yet known" in answer.body or b"not found" in answer.body:
        raise ServerError(
            f"--host {flags.host}: no service with the cluster that is asked about; start it with "
            f"--manifests FILE of: python -m loadtest.generator --nodes {flags.nodes} --out FILE"
        )


def _loaded(test: LoadTest, flags: argparse.Namespace) -> list[Limit]:
    load = test.run("loadtest", flags.run_time, flags.hostile_users)
    _print_load(load)
    return load_limits(load, flags)


def _plot(watches: Sequence[Watch], flags: argparse.Namespace) -> None:
    from loadtest.plots import plot_usage

    samples = [(each.at, each.usage) for watch in watches for each in watch.since(watches[0])]
    plot_usage(samples, flags.out / "loadtest-usage.png")


def _flags(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments.parser("run", "Put the service under load and check its limits.")
    add_cluster_flags(parser, 5_000)
    add, some, count, number = (
        parser.add_argument,
        arguments.at_least_one,
        arguments.count,
        arguments.number,
    )
    add("--run-time", type=some, default=60, metavar="SECONDS", help="of the load")
    add("--users", type=some, default=1, metavar="N", help="schedulers")
    add(
        "--hostile-users",
        type=count,
        default=2,
        metavar="N",
        help="half of them slow, and a crowd",
    )
    add("--share-with-class", type=number(0, 1), default=0.1, metavar="X", help="of the pods")
    add("--mode", choices=("names", "nodes"), default="names", help="what the scheduler sends")
    add(
        "--pods-per-second",
        type=number(0),
        default=0.0,
        metavar="X",
        help="per scheduler; 0: full speed",
    )
    add(
        "--host",
        metavar="URL",
        help="a service that runs already, on the manifest that loadtest.generator writes with the "
        "same flags; its memory, threads and descriptors are not judged",
    )
    add("--ops-host", default="", metavar="URL", help="that service's --ops-bind, if it has one")
    add(
        "--max-body-bytes",
        type=some,
        metavar="N",
        help="the service's limit (default: 64 MiB; with --host serve's default)",
    )
    add(
        "--restart-every",
        type=number(1),
        metavar="SECONDS",
        help="stop the service (SIGTERM) and start it again, while the scheduler tries again",
    )
    add("--max-p99-ms", type=number(0), default=50.0, metavar="MS", help="limit for each verb")
    add(
        "--max-growth-mib",
        type=number(0),
        default=16.0,
        metavar="MIB",
        help="limit for the worker's memory",
    )
    arguments.add_out(parser, "for reports")
    flags = parser.parse_args(argv)
    if flags.max_body_bytes is None:
        flags.max_body_bytes = DEFAULT_MAX_BODY_BYTES if flags.host else MAX_BODY_BYTES
    if flags.restart_every and flags.host:
        parser.error("--restart-every: not with --host, which runs without this command")
    if flags.ops_host and not flags.host:
        parser.error("--ops-host goes with --host")
    for flag, where in (("--host", flags.host), ("--ops-host", flags.ops_host)):
        if where and urlsplit(where).scheme != "http":
            parser.error(f"{flag} {where}: expected http://HOST:PORT")
    try:
        ClusterSpec(flags.nodes, flags.shapes, flags.runtimeclasses, flags.seed)
    except ValueError as error:
        parser.error(str(error))
    return flags


def main(argv: Sequence[str] | None = None) -> int:
    flags = _flags(argv)
    with Progress() as progress:
        try:
            if flags.host:
                _check_host(flags)
                limits = _loaded(LoadTest(flags, flags.host, flags.ops_host, progress), flags)
            else:
                limits = _own_service(flags, progress)
        except (ServerError, OSError) as error:
            progress.note(f"loadtest: {error}")
            return 1
    for limit in limits:
        print(limit)
    if flags.host:
        print("not judged with --host: memory, threads, descriptors, answers with 5xx")
    print(f"reports: {flags.out}/*.html")
    return 0 if all(limit.kept for limit in limits) else 1


if __name__ == "__main__":
    arguments.end(main)
