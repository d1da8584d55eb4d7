"""Asking over a keep-alive connection, and what a series of times amounts to."""

import http.client
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from loadtest.processes import Address

#: As Go's client sends them; http.client adds Host and Content-Length.
HEADERS: Final = {
    "User-Agent": "Go-http-client/1.1",
    "Content-Type": "application/json",
    "Accept-Encoding": "gzip",
}

_TIMEOUT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Seconds run from before the first byte is sent until the last is received."""

    status: int
    body: bytes
    seconds: float


class Client:
    """One keep-alive connection to a server."""

    def __init__(self, address: Address) -> None:
        self._connection = http.client.HTTPConnection(*address, timeout=_TIMEOUT_SECONDS)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    def ask(self, verb: str, body: bytes, method: str = "POST") -> Answer:
        """Raises OSError or http.client.HTTPException when no answer comes."""
        connection = self._connection
        began = time.perf_counter()
        connection.request(method, f"/{verb}", body, HEADERS)
        response = connection.getresponse()
        answer = response.read()
        return Answer(response.status, answer, time.perf_counter() - began)


def percentile(times: Sequence[float], percent: float) -> float:
    """The nearest rank: the smallest time that is not exceeded by so many percent of all."""
    ranked = sorted(times)
    rank = -(-len(ranked) * percent // 100)
    return ranked[max(0, int(rank) - 1)]


@dataclass(frozen=True, slots=True)
class Times:
    """A series of requests in short; milliseconds."""

    requests: int
    p50: float
    p99: float
    best: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Times":
        milliseconds = [each * 1000 for each in seconds]
        return cls(
            len(milliseconds),
            percentile(milliseconds, 50),
            percentile(milliseconds, 99),
            min(milliseconds),
        )
