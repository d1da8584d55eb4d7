"""Sends the same requests to two servers in turn, the service and the floor, and times them.

The floor answers with the same bytes as the service; it is given them beforehand.
"""

import contextlib
import gc
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import orjson

from loadtest.cases import HALF, NAMES, Bodies, Case
from loadtest.processes import Server, ServerError, set_apart
from loadtest.timing import Client, Times

SERVICE: Final = "service"
FLOOR: Final = "floor"

#: Requests before the measured ones.
_WARM_UP: Final = 3


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table: the times by server."""

    case: Case
    times: Mapping[str, Times]

    @property
    def to_floor(self) -> float:
        return self.times[SERVICE].p50 / self.times[FLOOR].p50

    def tail(self, server: str) -> float:
        """p99 as a multiple of p50."""
        times = self.times[server]
        return times.p99 / times.p50


@contextlib.contextmanager
def quiet_collector() -> Iterator[None]:
    """Keep this process's garbage collector off while requests are measured."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Comparison:
    """A connection to each of the two servers.

    Until the stack closes, servers and client run on separate processors (set_apart).
    All methods raise ServerError for an answer that is not a 200 of the expected size.
    """

    def __init__(self, service: Server, floor: Server, stack: contextlib.ExitStack) -> None:
        self._servers = {SERVICE: service, FLOOR: floor}
        set_apart(self._servers.values(), stack)
        self._clients = {
            name: stack.enter_context(Client(server.address))
            for name, server in self._servers.items()
        }
        self._rng = random.Random(7)

    def measure(self, case: Case, bodies: Bodies, requests: int) -> Result:
        """Send so many requests to each server."""
        offered = next(bodies)
        size = self._prepare(case, self._asked(case, offered))
        if case.verb == "prioritize":
            self._prepare(replace(case, verb="filter"), offered)
        seconds: dict[str, list[float]] = {name: [] for name in self._clients}
        for body in islice(bodies, _WARM_UP):
            for name in self._clients:
                self._ask(name, case, self._asked(case, body), size)
        with quiet_collector():
            for body in islice(bodies, requests):
                asked = self._asked(case, body)
                # A random order each time, so that no server gains by being first.
                for name in self._rng.sample(list(self._clients), len(self._clients)):
                    seconds[name].append(self._ask(name, case, asked, size))
        return Result(case, {name: Times.of(taken) for name, taken in seconds.items()})

    def _prepare(self, case: Case, body: bytes) -> int:
        """Give the floor the service's answer; returns the size of the answer."""
        answer = self._clients[SERVICE].ask(case.verb, body)
        if answer.status != 200:
            raise ServerError(f"{case}: answered {answer.status}: {answer.body[:200]!r}")
        self._clients[FLOOR].ask(case.verb, answer.body, "PUT")
        return len(answer.body)

    def _asked(self, case: Case, body: bytes) -> bytes:
        """The verb's body, made of a body for the filter.

        kube-scheduler sends prioritize the nodes that the filter left, in the order of its answer.
        """
        if (case.verb, case.mode, case.kind) != ("prioritize", NAMES, HALF):
            return body
        left = orjson.loads(self._clients[SERVICE].ask("filter", body).body)["NodeNames"]
        head, mark, _ = body.rpartition(b',"NodeNames":')
        return b"".join((head, mark, orjson.dumps(left), b"}"))

    def _ask(self, name: str, case: Case, body: bytes, size: int) -> float:
        """The seconds that the request took."""
        try:
            answer = self._clients[name].time(case.verb, body)
        except OSError as error:
            raise ServerError(f"{case}: {name}: {error}") from None
        if answer.status != 200 or answer.size != size:
            raise ServerError(
                f"{case}: {name} answered {answer.status} with {answer.size} bytes "
                f"(expected 200, {size})"
            )
        return answer.seconds
