"""One kube-scheduler at work: started on a cluster of Pending pods, watched until all are bound.

Its speed is read from its own log (a line for each bound pod, with microseconds), since watching
the pods would take processor time.
"""

import http.client
import re
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from loadtest import processes
from loadtest.generator import Cluster as MadeUp
from loadtest.processes import Server, ServerError, seconds_of, tail
from loadtest.scheduler_cases import Configuration, Kind, pod
from loadtest.timing import Client
from tests.e2e.cluster import PODS, Cluster, Program, free_ports
from tests.fakes.apiserver import NODES, RUNTIME_CLASSES

Json = dict[str, Any]

#: A scheduler that binds nothing for so long is stuck.
_STUCK_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05

#: The share of pods, the first ones, that don't count: caches still fill meanwhile.
_WARM_UP: Final = 0.1

_CREATORS: Final = 4

_BOUND: Final = b'"Successfully bound pod to node"'
_TIME: Final = re.compile(rb"^I\d{4} (\d\d):(\d\d):(\d\d\.\d+) ")
_SAMPLE: Final = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)

_DAY: Final = 86_400


class Run(NamedTuple):
    """The cost of scheduling many pods; milliseconds and requests are per pod.

    algorithm_ms: kube-scheduler's mean scheduling_algorithm_duration. requests: to the extender.
    hinted: the share of pods whose node OpportunisticBatching knew.
    """

    pods_per_second: float
    algorithm_ms: float
    scheduler_ms: float
    extender_ms: float
    requests: float
    hinted: float


class Bench:
    """A control plane with nodes, on which one scheduler after the other runs."""

    def __init__(self, cluster: Cluster, servers: Mapping[str, Server]) -> None:
        """servers: by the names in Configuration.extender."""
        self._cluster = cluster
        self._servers = servers
        # It lives as long as the bench, since each thread keeps a connection of its own.
        self._pool = ThreadPoolExecutor(_CREATORS)

    def add_nodes(self, made_up: MadeUp) -> Iterator[int]:
        """Create the RuntimeClasses and nodes. Yields the number of nodes created so far."""
        for each in made_up.runtime_classes():
            self._cluster.create(RUNTIME_CLASSES, each)
        count = made_up.spec.nodes
        added = self._pool.map(self._add_node, map(made_up.node, range(count)))
        for done, _ in enumerate(added, 1):
            yield done

    def _add_node(self, node: Json) -> None:
        room = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
        ready = {"type": "Ready", "status": "True", "reason": "x", "message": "x"}
        status = {**node["status"], "capacity": room, "allocatable": room, "conditions": [ready]}
        metadata = {key: node["metadata"][key] for key in ("name", "labels")}
        self._cluster.create(NODES, {"metadata": metadata, "spec": node["spec"]})
        self._cluster.patch(f"{NODES}/{metadata['name']}/status", {"status": status})

    def run(self, configuration: Configuration, kind: Kind, pods: int) -> Run:
        """Create, schedule and delete pods. Raises ServerError when not all pods are bound."""
        made = (pod(serial, kind, marked=configuration.marked_only) for serial in range(pods))
        for _ in self._pool.map(lambda each: self._cluster.create(PODS, each), made):
            pass
        try:
            return self._schedule(configuration, kind, pods)
        finally:
            self._delete_pods()

    def _schedule(self, configuration: Configuration, kind: Kind, pods: int) -> Run:
        server = self._servers[configuration.extender]
        (port,) = free_ports(1)
        before = _requests(server)
        with self._cluster.kube_scheduler(
            configuration.document(processes.url(server.address), kind),
            "--v=2",
            "--authorization-always-allow-paths=/healthz,/metrics",
            port=port,
        ) as program:
            watch = _Watch(program, server.answering)
            watch.until(round(pods * _WARM_UP))
            begin = watch.spent()
            watch.until(pods)
            bound, scheduler, extender = (
                last - first for first, last in zip(begin, watch.spent(), strict=True)
            )
            metrics = self._metrics(port)
        times = watch.times[round(pods * _WARM_UP) :]
        # A handful of pods may all be bound between two polls.
        counted = max(1, bound)
        attempts = metrics.get("scheduler_scheduling_algorithm_duration_seconds_count", 0.0)
        algorithm = metrics.get("scheduler_scheduling_algorithm_duration_seconds_sum", 0.0)
        return Run(
            pods_per_second=(len(times) - 1) / (times[-1] - times[0]),
            algorithm_ms=1000 * algorithm / max(1.0, attempts),
            scheduler_ms=1000 * scheduler / counted,
            extender_ms=1000 * extender / counted,
            requests=(_requests(server) - before) / pods,
            hinted=metrics.get("hint_used", 0.0) / pods,
        )

    def _metrics(self, port: int) -> Mapping[str, float]:
        """The sum of each metric; the attempts of OpportunisticBatching by result instead."""
        connection = http.client.HTTPSConnection(
            "127.0.0.1", port, context=ssl._create_unverified_context(), timeout=30
        )
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        found: dict[str, float] = {}
        for name, labels, value in _SAMPLE.findall(text):
            result = re.search(r'result="(\w+)"', labels or "")
            key = result[1] if name == "scheduler_batch_attempts_total" and result else name
            found[key] = found.get(key, 0.0) + float(value)
        return found

    def _delete_pods(self) -> None:
        self._cluster.delete(PODS)
        deadline = time.monotonic() + _STUCK_SECONDS
        while self._cluster.get(f"{PODS}?limit=1")["items"]:
            if time.monotonic() > deadline:
                raise ServerError("pods were not deleted in time")
            time.sleep(_POLL_SECONDS)


def _requests(server: Server) -> float:
    """The number of verb requests that an extender has answered."""
    with Client(server.address) as client:
        text = client.ask("metrics", b"", "GET").body.decode()
    return sum(
        float(value)
        for name, labels, value in _SAMPLE.findall(text)
        if name == "runtimeclass_extender_requests_total"
        and re.search(r'verb="(filter|prioritize|preempt)"', labels)
    )


class _Watch:
    """Follows a scheduler's log."""

    def __init__(self, program: Program, extender: int) -> None:
        self._program = program
        self._extender = extender
        self._rest = b""
        self._read = 0
        self.times: list[float] = []

    def until(self, bound: int) -> None:
        """Wait until so many pods are bound. Raises ServerError if none is bound for too long."""
        deadline = time.monotonic() + _STUCK_SECONDS
        while len(self.times) < bound:
            if self._follow():
                deadline = time.monotonic() + _STUCK_SECONDS
            elif time.monotonic() > deadline:
                raise ServerError(f"only {len(self.times)} pods bound: {tail(self._program.log)}")
            time.sleep(_POLL_SECONDS)

    def spent(self) -> tuple[int, float, float]:
        """Pods bound by now; processor seconds of the scheduler and of the extender."""
        return len(self.times), seconds_of(self._program.pid), seconds_of(self._extender)

    def _follow(self) -> bool:
        """Read the new lines of the log. Whether they tell of bound pods."""
        with self._program.log.open("rb") as log:
            log.seek(self._read)
            new = log.read()
        self._read += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        found = list(_bindings(lines))
        for moment in found:
            while self.times and moment < self.times[-1] - _DAY / 2:
                moment += _DAY
            self.times.append(moment)
        return bool(found)


def _bindings(lines: Sequence[bytes]) -> Iterator[float]:
    """When each pod was bound, in seconds of the day. klog mixes the lines of several threads."""
    for line in lines:
        if _BOUND in line and (match := _TIME.match(line)):
            hours, minutes, seconds = match.groups()
            yield int(hours) * 3600 + int(minutes) * 60 + float(seconds)
