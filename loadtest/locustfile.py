"""The users of the load test: a kube-scheduler as it behaves, probes, and hostile clients.

`make loadtest` runs it (loadtest/run.py); by itself, against a service that runs already:

    locust -f loadtest/locustfile.py --host http://127.0.0.1:8888 SchedulerUser ProbeUser

The service must have the nodes of `python -m loadtest.generator` with the same --nodes, --shapes,
--runtimeclasses and --seed.
"""

import argparse
import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from locust import FastHttpUser, User, constant, events

from loadtest.bodies import (
    meta_victims,
    names_body,
    nodes_body,
    pod,
    pod_classes,
    preempt_body,
)
from loadtest.generator import Cluster, ClusterSpec, add_cluster_flags, cluster_of, go_json
from loadtest.hostile import CROWDS, NEED_OPS, QUICK, SLOW, Attack, Target, UnexpectedError
from loadtest.processes import Address

#: Orders of the nodes that are prepared: making one costs more than asking about it.
ORDERS: Final = 16

#: kube-scheduler dry-runs preemption on 10 % of the nodes, but on 100 at least.
_VICTIM_NODES: Final = 100

#: The name in the tables of attempts that found nobody listening, and the pause after each.
DOWN: Final = "down"
_AGAIN_SECONDS: Final = 0.1

_JSON: Final = {"Content-Type": "application/json"}


def _add_options(parser: argparse.ArgumentParser) -> None:
    add_cluster_flags(parser, 5_000)
    parser.add_argument("--share-with-class", type=float, default=0.1, help="of the pods")
    parser.add_argument("--mode", choices=("names", "nodes"), default="names", help="what is sent")
    parser.add_argument("--preempt-every", type=int, default=50, help="pods, then a preempt")
    parser.add_argument("--pods-per-second", type=float, default=0.0, help="0: full speed")
    parser.add_argument("--attacks-per-second", type=float, default=5.0, help="per hostile user")
    parser.add_argument("--times", type=Path, metavar="FILE", help="exact times as JSON")
    parser.add_argument("--max-body-bytes", type=int, default=256 * 2**20, help="as the service's")
    parser.add_argument("--ops-host", default="", metavar="URL", help="the service's --ops-bind")
    parser.add_argument(
        "--down-seconds", type=float, default=0.0, help="so long nobody may listen: tried again"
    )


#: Milliseconds of each request, and the failures, by name. locust's own statistics round to
#: whole milliseconds, and a filter takes about two.
_times: dict[str, list[float]] = {}
_failures: Counter[str] = Counter()


def _note_request(
    name: str, response_time: float, exception: Exception | None, **_: object
) -> None:
    _times.setdefault(name.strip("/"), []).append(response_time)
    _failures[name.strip("/")] += exception is not None


def _write_times(environment: Any, **_: object) -> None:
    path: Path | None = environment.parsed_options.times
    if path is not None:
        found = {
            name: {"failures": _failures[name], "milliseconds": times}
            for name, times in _times.items()
        }
        path.write_text(json.dumps(found))


events.init_command_line_parser.add_listener(_add_options)
events.request.add_listener(_note_request)
events.quitting.add_listener(_write_times)

_clusters: dict[ClusterSpec, Cluster] = {}


def _shared(cluster: Cluster) -> Cluster:
    """All users of this process have one copy of the names."""
    return _clusters.setdefault(cluster.spec, cluster)


class SchedulerUser(FastHttpUser):  # type: ignore[misc]  # locust is not installed for mypy
    """kube-scheduler: one pod at a time, filter, then prioritize on what has passed."""

    wait_time = constant(0)
    network_timeout = 30.0
    connection_timeout = 5.0

    def on_start(self) -> None:
        options = self.environment.parsed_options
        self._cluster = _shared(cluster_of(options))
        self._rng = random.Random(id(self))
        self._serial = self._rng.randrange(2**24)
        self._names = self._cluster.names
        self._nodes: dict[str, bytes] = {}
        if options.mode == "nodes":
            fat = (self._cluster.node(index, fat=True) for index in range(len(self._names)))
            self._nodes = {name: go_json(node) for name, node in zip(self._names, fat, strict=True)}
        self._orders = [self._rng.sample(self._names, len(self._names)) for _ in range(ORDERS)]
        listed = [each["metadata"]["name"] for each in self._cluster.runtime_classes()]
        self._classes = pod_classes(self._rng, listed, options.share_with_class)
        self._pause = 1 / options.pods_per_second if options.pods_per_second else 0.0

    def schedule(self) -> None:
        """One pod."""
        began = time.monotonic()
        self._serial += 1
        runtime_class = next(self._classes)
        asked = self._rng.choice(self._orders)
        body = go_json(pod(self._serial, runtime_class))
        passed = self._filter(body, asked)
        # kube-scheduler does not score when there is nothing to choose from.
        if len(passed) > 1:
            self._prioritize(body, passed)
        if self._serial % self.environment.parsed_options.preempt_every == 0:
            self._preempt(body)
        time.sleep(max(0.0, self._pause - (time.monotonic() - began)))

    def _body(self, pod: bytes, names: list[str]) -> bytes:
        if self._nodes:
            return nodes_body(pod, [self._nodes[name] for name in names])
        return names_body(pod, names)

    def _filter(self, pod: bytes, asked: list[str]) -> list[str]:
        answer = self._ask("filter", self._body(pod, asked), len(asked))
        if answer is None:
            return []
        if self._nodes:
            return [node["metadata"]["name"] for node in answer["Nodes"]["items"]]
        passed: list[str] = answer["NodeNames"]
        return passed

    def _prioritize(self, pod: bytes, names: list[str]) -> None:
        self._ask("prioritize", self._body(pod, names), len(names))

    def _preempt(self, pod: bytes) -> None:
        names = sorted(self._rng.sample(self._names, min(_VICTIM_NODES, len(self._names))))
        victims = [meta_victims(serial) for serial in range(len(names))]
        self._ask("preempt", preempt_body(pod, names, victims), len(names))

    def _ask(self, verb: str, body: bytes, nodes: int) -> Any:
        """The answer; None after a failure, which locust has noted.

        While the service is down, which shows as a refused connection, it is asked again, as
        kube-scheduler tries a pod again.
        """
        end = time.monotonic() + self.environment.parsed_options.down_seconds
        while True:
            try:
                return self._ask_once(verb, body, nodes, may_be_down=time.monotonic() < end)
            except ConnectionRefusedError:
                time.sleep(_AGAIN_SECONDS)

    def _ask_once(self, verb: str, body: bytes, nodes: int, *, may_be_down: bool) -> Any:
        """Raises ConnectionRefusedError."""
        path = f"/{verb}"
        with self.client.post(path, data=body, headers=_JSON, catch_response=True) as response:
            # An answer has no such attribute.
            error = getattr(response, "error", None)
            if may_be_down and isinstance(error, ConnectionRefusedError):
                response.request_meta["name"] = DOWN
                response.success()
                raise error
            if response.status_code != 200:
                response.failure(f"status {response.status_code}: {response.text[:100]}")
                return None
            answer = orjson.loads(response.content)
            accounted = _accounted(verb, answer)
            # Of all verbs only the filter says something about every node.
            if accounted != nodes if verb == "filter" else accounted > nodes:
                response.failure(f"{accounted} nodes in the answer, {nodes} asked about")
                return None
            return answer

    tasks = (schedule,)


def _accounted(verb: str, answer: Any) -> int:
    """How many nodes an answer says something about."""
    if verb != "filter":
        return len(answer)
    passed = answer["NodeNames"] if answer["Nodes"] is None else answer["Nodes"]["items"]
    return len(passed) + len(answer["FailedAndUnresolvableNodes"])


class ProbeUser(FastHttpUser):  # type: ignore[misc]  # locust is not installed for mypy
    """kubelet and Prometheus: once a second."""

    fixed_count = 1
    wait_time = constant(1)
    network_timeout = 1.0  # kubelet's default

    def probe(self) -> None:
        host = self.environment.parsed_options.ops_host
        for path in ("/livez", "/readyz", "/metrics"):
            self.client.get(f"{host}{path}", name=path)

    tasks = (probe,)


class _Attacker(User):  # type: ignore[misc]  # locust is not installed for mypy
    """See loadtest.hostile; an attack counts as failed when the service reacts wrongly."""

    abstract = True
    attacks: dict[Attack, int]

    def on_start(self) -> None:
        options = self.environment.parsed_options
        address = _address(self.host or self.environment.host)
        ops_address = _address(options.ops_host) if options.ops_host else None
        self._target = Target(address, options.max_body_bytes, ops_address)
        possible = {
            attack: often
            for attack, often in self.attacks.items()
            if ops_address or attack not in NEED_OPS
        }
        self._possible, self._often = list(possible), list(possible.values())
        self._rng = random.Random(id(self))
        self._pause = 1 / options.attacks_per_second

    def attack(self) -> None:
        chosen: Attack = self._rng.choices(self._possible, self._often)[0]
        began = time.perf_counter()
        error: Exception | None = None
        try:
            chosen(self._target, self._rng)
        except (OSError, UnexpectedError) as failure:
            error = failure
        self.environment.events.request.fire(
            request_type="HOSTILE",
            name=chosen.__name__,
            response_time=(time.perf_counter() - began) * 1000,
            response_length=0,
            exception=error,
            context={},
        )
        time.sleep(self._pause)

    tasks = (attack,)


def _address(url: str) -> Address:
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or 80


class HostileUser(_Attacker):
    """Over the limit, malformed, dropped: many in a second."""

    attacks = QUICK


class SlowUser(_Attacker):
    """Half-sent, drop by drop, silent or reading nothing: one connection is always held."""

    attacks = SLOW


class CrowdUser(_Attacker):
    """A thousand silent connections."""

    fixed_count = 1
    attacks = CROWDS
