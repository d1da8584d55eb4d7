"""The users of the load test: a realistic kube-scheduler, probes, and hostile clients.

`make loadtest` runs it (loadtest/run.py). The service must have the nodes of loadtest.generator.
"""

import argparse
import json
import random
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from locust import FastHttpUser, User, constant, events

from loadtest.bodies import meta_victims, names_body, pod, preempt_body
from loadtest.generator import Cluster, ClusterSpec, go_json
from loadtest.hostile import QUICK, SLOW, Attack, Target, UnexpectedError
from loadtest.processes import Address

#: The number of prepared orders of the nodes: making one costs more than the request.
ORDERS: Final = 16

#: kube-scheduler dry-runs preemption on 10 % of the nodes, but at least on 100.
_VICTIM_NODES: Final = 100

#: Most pods of most clusters name no class.
_SHARE_WITH_CLASS: Final = 0.1

#: One in so many pods preempts. A hostile user starts at most so many attacks a second.
_PREEMPT_EVERY: Final = 50
_ATTACKS: Final = 5.0

_JSON: Final = {"Content-Type": "application/json"}


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, required=True, help="of the cluster")
    parser.add_argument("--times", type=Path, required=True, metavar="FILE", help="times as JSON")
    parser.add_argument("--max-body-bytes", type=int, required=True, help="as the service's")
    parser.add_argument("--ops-host", required=True, metavar="URL", help="the service's --ops-bind")


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
    found = {
        name: {"failures": _failures[name], "milliseconds": times} for name, times in _times.items()
    }
    environment.parsed_options.times.write_text(json.dumps(found))


events.init_command_line_parser.add_listener(_add_options)
events.request.add_listener(_note_request)
events.quitting.add_listener(_write_times)


@cache
def _cluster(nodes: int) -> Cluster:
    """Cached, so that all users of this process share one copy of the names."""
    return Cluster(ClusterSpec(nodes))


class SchedulerUser(FastHttpUser):  # type: ignore[misc]  # locust is not installed for mypy
    """kube-scheduler: one pod at a time, filter, then prioritize for the nodes that passed."""

    wait_time = constant(0)
    network_timeout = 30.0
    connection_timeout = 5.0

    def on_start(self) -> None:
        options = self.environment.parsed_options
        cluster = _cluster(options.nodes)
        self._rng = random.Random(id(self))
        self._serial = self._rng.randrange(2**24)
        self._names = cluster.names
        self._orders = [self._rng.sample(self._names, len(self._names)) for _ in range(ORDERS)]
        self._classes = [each["metadata"]["name"] for each in cluster.runtime_classes()]

    def schedule(self) -> None:
        """Schedule one pod."""
        self._serial += 1
        has_class = self._rng.random() < _SHARE_WITH_CLASS
        runtime_class = self._rng.choice(self._classes) if has_class else ""
        asked = self._rng.choice(self._orders)
        body = go_json(pod(self._serial, runtime_class))
        passed = self._filter(body, asked)
        # kube-scheduler does not score when there is nothing to choose from.
        if len(passed) > 1:
            self._prioritize(body, passed)
        if self._serial % _PREEMPT_EVERY == 0:
            self._preempt(body)

    def _filter(self, pod: bytes, asked: list[str]) -> list[str]:
        answer = self._ask("filter", names_body(pod, asked), len(asked))
        return [] if answer is None else answer["NodeNames"]

    def _prioritize(self, pod: bytes, names: list[str]) -> None:
        self._ask("prioritize", names_body(pod, names), len(names))

    def _preempt(self, pod: bytes) -> None:
        names = sorted(self._rng.sample(self._names, min(_VICTIM_NODES, len(self._names))))
        victims = [meta_victims(serial) for serial in range(len(names))]
        self._ask("preempt", preempt_body(pod, names, victims), len(names))

    def _ask(self, verb: str, body: bytes, nodes: int) -> Any:
        """The answer; None after a failure, which locust has noted."""
        path = f"/{verb}"
        with self.client.post(path, data=body, headers=_JSON, catch_response=True) as response:
            if response.status_code != 200:
                response.failure(f"status {response.status_code}: {response.text[:100]}")
                return None
            answer = orjson.loads(response.content)
            if verb == "filter":  # its answer must cover every node
                told = len(answer["NodeNames"]) + len(answer["FailedAndUnresolvableNodes"])
                if told != nodes:
                    response.failure(f"{told} nodes in the answer, {nodes} asked about")
                    return None
            return answer

    tasks = (schedule,)


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
    """Runs attacks of loadtest.hostile. An attack fails if the service reacts wrongly."""

    abstract = True
    attacks: dict[Attack, int]

    def on_start(self) -> None:
        options = self.environment.parsed_options
        address = _address(self.host or self.environment.host)
        self._target = Target(address, options.max_body_bytes)
        self._rng = random.Random(id(self))

    def attack(self) -> None:
        (chosen,) = self._rng.choices(list(self.attacks), list(self.attacks.values()))
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
        time.sleep(1 / _ATTACKS)

    tasks = (attack,)


def _address(url: str) -> Address:
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or 80


class HostileUser(_Attacker):
    """Quick attacks (over the limit, malformed, dropped), several a second."""

    attacks = QUICK


class SlowUser(_Attacker):
    """Slow attacks (half-sent, byte by byte, silent, never reading) on one connection at a time."""

    attacks = SLOW
