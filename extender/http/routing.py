"""Which callable answers a request: verbs, probes and metrics are called, pages run in threads.

Quick answers are made on the event loop. Long work (a large body, a page) runs in a thread, and so
does what waits for the API server; each kind has threads of its own, so that none delays another.
"""

import asyncio
import contextlib
import gc
import io
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, unquote_to_bytes

from flask import Flask
from werkzeug.wrappers import Response

from extender.http.error_answers import answer_of
from extender.http.exchange import Answer, Refusal, Request, error_answer
from extender.reasons import shown
from extender.undecided_errors import WouldWaitError
from extender.wire.bodies import Chunks
from extender.wire.filter_bodies import QUICK_NAMES_BYTES, is_quick

#: Threads for large bodies: only one, since Python runs one at a time, and each keeps its body in
#: memory meanwhile.
_LARGE_THREADS: Final = 1

#: Bodies up to this size are answered in some tenths of a millisecond.
SHORT_BYTES: Final = 64 * 1024

#: How long the event loop may make answers to others, one after the other, and what it regains of
#: that in a second in which it makes none.
BURST_SECONDS: Final = 0.0005
REGAINED: Final = 1.0

#: A larger body takes more than a millisecond. It is answered on the event loop, which is quicker,
#: only where the clients are so few that it keeps nobody waiting: kube-scheduler has a connection
#: or two.
LONG_BYTES: Final = 2**20
FEW_CLIENTS: Final = 8

#: Threads that wait, 30 ms or a second each (cluster.node_wait, cluster.live_classes).
_WAITING_THREADS: Final = 32

#: Those that wait with a body over LONG_BYTES. Each keeps its body, even if the client goes away
#: meanwhile, when nothing counts it any more.
_LONG_WAITING_THREADS: Final = 2


#: An answer, and the number of nodes it is about.
Answered = tuple[Chunks, int]


class Verb(Protocol):
    """Answers a body, bytes in and bytes out, with the number of nodes it was about.

    Unless it is patient, it raises WouldWaitError instead of waiting for anything.
    """

    def __call__(self, body: bytes, *, patient: bool = True) -> Answered: ...


class VerbTimes(Protocol):
    """Counts the results of a verb's requests."""

    def succeeded(self, nodes: int, seconds: float) -> None: ...

    def failed(self, status: int) -> None: ...


class Turn:
    """Allows one page to be made at a time.

    Pages are Python, of which one thread runs at a time; with eight of them the event loop would
    have to wait for each in turn, several times a request.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """Release the turn while this page waits, for example for the API server."""
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()


@dataclass(slots=True)
class Allowance:
    """For how long the event loop may make long answers; seconds, by time.perf_counter().

    One client that asks after each answer never uses it up. Of many that ask at once, each takes a
    millisecond, most are answered in a thread, with the loop's other work in between. clients is
    how many there are.
    """

    left: float = BURST_SECONDS
    at: float = 0.0
    clients: Callable[[], int] = lambda: 0

    def allows(self, size: int, now: float) -> bool:
        if size > LONG_BYTES and self.clients() > FEW_CLIENTS:
            return False
        self.left = min(BURST_SECONDS, self.left + (now - self.at) * REGAINED)
        self.at = now
        return self.left > 0

    def spend(self, began: float, ended: float) -> None:
        self.left -= ended - began
        self.at = ended


@dataclass(frozen=True)
class Threads:
    """The threads beside the event loop."""

    turn: Turn = field(default_factory=Turn, init=False)
    allowance: Allowance = field(default_factory=Allowance, init=False)

    pages: ThreadPoolExecutor
    large: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_LARGE_THREADS, "large")
    )
    waiting: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_WAITING_THREADS, "waiting")
    )
    long_waiting: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_LONG_WAITING_THREADS, "long waiting")
    )
    #: Metrics of a thousand classes take some milliseconds; they never wait for a page.
    metrics: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "metrics"))

    @classmethod
    def of(cls, pages: int) -> "Threads":
        return cls(ThreadPoolExecutor(pages, "pages"))

    def stop(self) -> None:
        for pool in (self.pages, self.large, self.waiting, self.long_waiting, self.metrics):
            pool.shutdown(wait=False, cancel_futures=True)

    def to_wait(self, size: int) -> ThreadPoolExecutor:
        """Those that wait with a body of this size."""
        return self.long_waiting if size > LONG_BYTES else self.waiting


class VerbRoute:
    """The route of a verb: times and counts requests, and answers errors.

    quickly makes those answers that take a few milliseconds at most, on the event loop; all others
    are made in a thread. Without it that is told by the body's size. afterwards gives what is to be
    done once the answer has been sent.
    """

    methods: Final = (b"POST",)

    def __init__(
        self,
        verb: Verb,
        times: VerbTimes,
        threads: Threads,
        quickly: Callable[[bytes], Answered | None] | None = None,
        afterwards: Callable[[], Callable[[], None] | None] = lambda: None,
    ) -> None:
        self._verb = verb
        self._times = times
        self._threads = threads
        self._quickly = quickly or self._if_quick
        self._afterwards = afterwards

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        began = time.perf_counter()
        try:
            if request.encoding:
                _check_encoding(request.encoding)
            size, allowance = request.size, self._threads.allowance
            is_short = size <= SHORT_BYTES or (
                size <= QUICK_NAMES_BYTES and allowance.allows(size, began)
            )
            answered = self._quickly(request.body) if is_short else None
        except WouldWaitError:
            return self._later(self._threads.to_wait(size), request, began, patient=True)
        except Exception as error:
            return self._failed(error)
        if answered is None:
            return self._later(self._threads.large, request, began, patient=False)
        ended = time.perf_counter()
        if size > SHORT_BYTES:
            allowance.spend(began, ended)
        return self._succeeded(answered, ended - began)

    def _succeeded(self, answered: Answered, seconds: float) -> Answer:
        chunks, nodes = answered
        return Answer(chunks, sent=partial(self._sent, nodes, seconds))

    def _sent(self, nodes: int, seconds: float) -> Callable[[], None] | None:
        self._times.succeeded(nodes, seconds)
        return self._afterwards()

    def _if_quick(self, body: bytes) -> Answered | None:
        return self._verb(body, patient=False) if is_quick(body) else None

    async def _later(
        self, pool: ThreadPoolExecutor, request: Request, began: float, *, patient: bool
    ) -> Answer:
        loop = asyncio.get_running_loop()
        try:
            work = self._wait if patient else self._work_long
            answered = await loop.run_in_executor(pool, work, request)
        except WouldWaitError:
            pool = self._threads.to_wait(request.size)
            return await self._later(pool, request, began, patient=True)
        except Exception as error:
            return self._failed(error)
        return self._succeeded(answered, time.perf_counter() - began)

    def _wait(self, request: Request) -> Answered:
        return self._verb(request.body, patient=True)

    def _work_long(self, request: Request) -> Answered:
        """Runs in the one thread for large bodies.

        Their objects may be a million, which a garbage collection would walk, in whatever thread it
        falls: 0.2 s during which nothing is answered. They are no garbage, and have no cycles.
        """
        gc.disable()
        try:
            return self._verb(request.body, patient=False)
        finally:
            gc.enable()

    def _failed(self, error: Exception) -> Answer:
        answer = answer_of(error)
        self._times.failed(answer.status)
        return answer


def _check_encoding(encoding: bytes) -> None:
    """Raises Refusal for a body that is compressed or otherwise encoded."""
    if encoding.lower() != b"identity":
        text = f"Content-Encoding {shown(encoding.decode('latin-1'))} is not supported"
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, text)


class Route(Protocol):
    """What answers the requests for a path; methods are those it allows."""

    @property
    def methods(self) -> tuple[bytes, ...]: ...

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]: ...


@dataclass(frozen=True, slots=True)
class Probe:
    """A short answer that nothing may delay."""

    answer: Callable[[Request], Answer]
    pool: ThreadPoolExecutor | None = None
    methods: tuple[bytes, ...] = (b"GET", b"HEAD")

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        if self.pool is None:
            return self.answer(request)
        return asyncio.get_running_loop().run_in_executor(self.pool, self.answer, request)


class Router:
    """An Application: routes by path, and pages for all other paths.

    A path in `queried` is a page when it comes with a query.
    """

    def __init__(
        self,
        routes: Mapping[bytes, Route],
        pages: Flask,
        threads: Threads,
        count_refused: Callable[[int], None],
        queried: Collection[bytes] = (),
    ) -> None:
        self._routes = routes
        self._pages = pages
        self._threads = threads
        self._count_refused = count_refused
        self._queried = queried

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        route = self._routes.get(request.target)
        if route is None:
            path, query = split_target(request.target)
            route = self._routes.get(path)
            if route is None or (query and path in self._queried):
                loop = asyncio.get_running_loop()
                return loop.run_in_executor(self._threads.pages, self._page, request)
        if request.method in route.methods:
            return route(request)
        method = shown(request.method.decode("ascii"))
        return error_answer(
            HTTPStatus.METHOD_NOT_ALLOWED,
            f"the method {method} is not allowed here",
            (b"Allow", b", ".join(route.methods)),
        )

    def refused(self, refusal: Refusal) -> None:
        self._count_refused(refusal.status)

    def _page(self, request: Request) -> Answer:
        """Runs in a thread."""
        with self._threads.turn:
            response = Response.from_app(self._pages.wsgi_app, environ_of(request), buffered=True)
        headers = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in response.headers.items()
            if name not in ("Content-Type", "Content-Length", "Date")
        ]
        kind = response.headers.get("Content-Type", "application/json").encode("latin-1")
        return Answer([response.get_data()], response.status_code, kind, headers)


def split_target(target: bytes) -> tuple[bytes, bytes]:
    """The decoded path and the query of a request's target, be it /path or http://host/path."""
    path, _, query = target.partition(b"?")
    if not path.startswith(b"/"):
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    return unquote_to_bytes(path), query


def is_asked(request: Request, name: str) -> bool:
    """Whether the query has this parameter, with or without a value."""
    _, query = split_target(request.target)
    return name in parse_qs(query.decode("latin-1"), keep_blank_values=True)


def environ_of(request: Request) -> dict[str, Any]:
    """The WSGI environment of a request (PEP 3333).

    Headers of a proxy are not trusted. A header with an underscore is left out: it could be
    mistaken for the one with a hyphen.
    """
    path, query = split_target(request.target)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method.decode("ascii"),
        "SCRIPT_NAME": "",
        "PATH_INFO": path.decode("latin-1"),
        "QUERY_STRING": query.decode("latin-1"),
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_LENGTH": str(len(request.body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in request.headers:
        key = name.decode("latin-1").upper()
        if "_" in key or key in ("CONTENT-LENGTH", "TRANSFER-ENCODING"):
            continue
        key = key.replace("-", "_")
        environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value.decode("latin-1")
    return environ
