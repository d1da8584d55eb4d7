"""Asks several servers the same things in turn, checks their answers and takes the times."""

import contextlib
import gc
import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import orjson

from loadtest.cases import HALF, NAMES, Bodies, Case
from loadtest.processes import Effort, Server, ServerError, set_apart
from loadtest.timing import Client, Times

#: Requests before the measured ones; of large bodies, seconds each for the plain version, one.
_WARM_UP: Final = 3
_LARGE: Final = 50_000

#: Of these servers it is measured what they spend on a request.
_WORKERS: Final[tuple[str, ...]] = ("service", "floor")

#: The least requests of that pass: what a server does beside them is to count for little.
_LEAST_OF_PASS: Final = 20
#: Of large bodies so many are made for it, and sent again and again.
_HELD_BYTES: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Spent:
    """What a server spends on a request: milliseconds of processor time, context switches."""

    processor: float
    switches: float


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the tables: the times by server, and of some servers what they spend."""

    case: Case
    body_bytes: int
    answer_bytes: int
    times: Mapping[str, Times]
    spent: Mapping[str, Spent]

    def ratio(self, server: str, to: str) -> float:
        return self.times[server].p50 / self.times[to].p50


def requests_for(nodes: int, factor: float = 1.0) -> int:
    """How many requests a case gets: 400 while they are small, 200 at 5,000 nodes, never < 30."""
    return max(3, round(factor * max(30, min(400, 1_000_000 // nodes))))


@contextlib.contextmanager
def quiet_collector() -> Iterator[None]:
    """No garbage collection of ours in the middle of a measured request."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Alternation:
    """A connection to each of some servers, and requests that go to all of them in turn.

    As long as the stack is open, servers and client each keep to a processor (set_apart).

    Raises ServerError for any answer that is not a 200 of the size expected.
    """

    def __init__(self, servers: Iterable[Server], stack: contextlib.ExitStack) -> None:
        self.servers = {server.name: server for server in servers}
        set_apart(self.servers.values(), stack)
        self.clients = {
            name: stack.enter_context(Client(server.address))
            for name, server in self.servers.items()
        }
        self._rng = random.Random(7)

    def measure(
        self,
        case: Case,
        bodies: Bodies,
        requests: int,
        sizes: Mapping[str, int],
        every: Mapping[str, int] = MappingProxyType({}),
    ) -> dict[str, Times]:
        """Send so many bodies to each server, of those in `every` only each so many-th one.

        As kube-scheduler does, each is asked to filter what it is then asked to score, and its
        answer is read; the time of that is not taken.
        """
        for body in islice(bodies, _WARM_UP if case.nodes < _LARGE else 1):
            for name in self.clients:
                self.ask(name, case, self.asked(case, body), sizes)
        seconds: dict[str, list[float]] = {name: [] for name in self.clients}
        with quiet_collector():
            for number, offered in enumerate(islice(bodies, requests)):
                body = self.asked(case, offered)
                # Another order each time: who comes first is nobody's advantage.
                names = [name for name in self.clients if number % every.get(name, 1) == 0]
                self._rng.shuffle(names)
                for name in names:
                    if case.verb == "prioritize":
                        answer = self.clients[name].ask("filter", offered)
                        orjson.loads(answer.body or b"null")
                    seconds[name].append(self.ask(name, case, body, sizes))
        return {name: Times.of(taken) for name, taken in seconds.items()}

    def spent(
        self, name: str, case: Case, bodies: Bodies, requests: int, sizes: Mapping[str, int]
    ) -> Spent:
        """What this server spends, over requests during which no other one is asked."""
        first = self.asked(case, next(bodies))
        # Made before: a server that is left idle meanwhile sleeps more than one that is asked.
        others = islice(bodies, min(requests, _HELD_BYTES // len(first)))
        asked = [first, *(self.asked(case, body) for body in others)]
        pid = self.servers[name].answering
        with quiet_collector():
            self.ask(name, case, asked[0], sizes)
            before = Effort.of(pid)
            for number in range(requests):
                self.ask(name, case, asked[number % len(asked)], sizes)
            after = Effort.of(pid)
        return Spent(
            1000 * (after.seconds - before.seconds) / requests,
            (after.switches - before.switches) / requests,
        )

    def asked(self, case: Case, body: bytes) -> bytes:
        """What the verb is asked where this is what the filter is offered.

        kube-scheduler has the nodes scored that the filter has left, in the order of its answer.
        """
        if (case.verb, case.mode, case.kind) != ("prioritize", NAMES, HALF):
            return body
        first = next(iter(self.clients.values()))
        left = orjson.loads(first.ask("filter", body).body)["NodeNames"]
        head, mark, _ = body.rpartition(b',"NodeNames":')
        asked = b"".join((head, mark, orjson.dumps(left), b"}"))
        # A pod that is filtered twice, and not scored in between, is another case.
        first.ask("prioritize", asked)
        return asked

    def ask(self, name: str, case: Case, body: bytes, sizes: Mapping[str, int]) -> float:
        """The seconds it took."""
        try:
            answer = self.clients[name].time(case.verb, body)
        except OSError as error:
            raise ServerError(f"{case}: {name}: {error}") from None
        size = sizes.get(name, answer.size)
        if answer.status != 200 or answer.size != size:
            raise ServerError(
                f"{case}: {name} answered {answer.status} with {answer.size} bytes "
                f"(expected 200, {size})"
            )
        return answer.seconds


class Comparison:
    """The servers named service, floor and plain, or only the first of them."""

    def __init__(self, servers: Iterable[Server], stack: contextlib.ExitStack) -> None:
        self._turns = Alternation(servers, stack)

    def has_verb(self, verb: str) -> bool:
        return self._turns.clients["service"].ask(verb, b"{}").status != 404

    def measure(self, case: Case, bodies: Bodies, requests: int, plain_requests: int) -> Result:
        """Ask `requests` times; the plain version, being slow, `plain_requests` times of these."""
        offered = next(bodies)
        first = self._turns.asked(case, offered)
        if case.verb == "prioritize":
            self._prepare(replace(case, verb="filter"), offered)
        sizes = self._prepare(case, first)
        every = {"plain": max(1, requests // max(1, plain_requests))}
        times = self._turns.measure(case, bodies, requests, sizes, every)
        of_pass = max(_LEAST_OF_PASS, requests // 2)
        spent = {
            name: self._turns.spent(name, case, bodies, of_pass, sizes)
            for name in _WORKERS
            if name in self._turns.clients
        }
        return Result(case, len(first), sizes["service"], times, spent)

    def _prepare(self, case: Case, body: bytes) -> dict[str, int]:
        """The size of each server's answer; the floor gets the service's to give back."""
        reference = self._answer("service", case, body)
        sizes = {}
        for name, client in self._turns.clients.items():
            if name == "floor":
                client.ask(case.verb, reference, "PUT")
            answer = self._answer(name, case, body)
            sizes[name] = len(answer)
            if _comparable(answer) != _comparable(reference):
                raise ServerError(f"{case}: the answers of service and {name} differ")
        return sizes

    def _answer(self, name: str, case: Case, body: bytes) -> bytes:
        answer = self._turns.clients[name].ask(case.verb, body)
        if answer.status != 200:
            raise ServerError(f"{case}: {name} answered {answer.status}: {answer.body[:200]!r}")
        return answer.body


def _comparable(answer: bytes) -> Any:
    """The document; a list of scores has no order that matters."""
    document = json.loads(answer)
    if isinstance(document, list):
        return sorted(document, key=lambda each: str(each["Host"]))
    return document
