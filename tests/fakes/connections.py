"""An API server in so far as one thread asks it: without sockets, and without waiting."""

import json
from collections import deque
from collections.abc import Callable, Mapping

from extender.cluster.api.connection import ApiConnection, ApiResponse
from extender.cluster.api.list_watch import Reason
from extender.verbs.metrics import Metrics
from tests.clocks import Clock


class Body(ApiResponse):
    """An answer in pieces: bytes, or an exception to raise; empty is the end."""

    def __init__(
        self,
        *pieces: bytes | Exception,
        status: int = 200,
        clock: Clock | None = None,
        seconds: float = 0.0,
    ) -> None:
        """Reading a piece takes so many seconds of the clock."""
        self.status = status
        self.closed = 0
        self._pieces = deque(pieces)
        self._clock, self._seconds = clock or Clock(), seconds

    @property
    def has_more(self) -> bool:
        return bool(self._pieces)

    @property
    def retry_after(self) -> None:
        return None

    def read_some(self, silence: float) -> bytes:
        self._clock.now += self._seconds
        piece = self._pieces.popleft() if self._pieces else b""
        if isinstance(piece, Exception):
            raise piece
        return piece

    def close(self) -> None:
        self.closed += 1


def answer_of(status: int, document: object) -> Body:
    return Body(json.dumps(document).encode(), status=status)


class Connection(ApiConnection):
    """Answers each get and each patch with the next function's answer, and notes the question."""

    def __init__(
        self, get: Callable[[], Body], patch: Callable[[], Body] = lambda: answer_of(200, {})
    ) -> None:
        self._get, self._patch = get, patch
        self.paths: list[str] = []
        self.queries: list[Mapping[str, str]] = []
        self.patched: list[str] = []

    def get(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        silence: float,
        connect: float = 0,
    ) -> Body:
        self.paths.append(path)
        self.queries.append(query or {})
        return self._get()

    def send(self, method: str, path: str, body: bytes, *, silence: float) -> Body:
        self.patched.append(path.rpartition("/")[2])
        return self._patch()

    def interrupt(self) -> None:
        pass


class Counted(Metrics):
    def __init__(self) -> None:
        super().__init__()
        self.events: list[str] = []
        self.restarts: list[Reason] = []

    def event(self, kind: str, type: str) -> None:
        self.events.append(type)

    def restart(self, kind: str, reason: str) -> None:
        self.restarts.append(Reason(reason))
