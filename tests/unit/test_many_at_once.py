"""What comes by the thousand, or is as large as can be, does not keep a request waiting."""

import asyncio
import contextlib
import gc
import socket
import threading
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from itertools import pairwise

import pytest

from extender.http.all_connections import (
    ACCEPTS_A_TURN,
    ENDS_A_TURN,
    FEW_SENDERS,
    GIVE_BACK_SECONDS,
    WORTH_GIVING_BACK,
    Connections,
    Limits,
    Listener,
)
from extender.http.body_memory import IS_COMPILED
from extender.http.connection import Connection
from extender.http.exchange import Answer, Request
from extender.http.routing import (
    FEW_CLIENTS,
    LONG_BYTES,
    SHORT_BYTES,
    Allowance,
    Threads,
    VerbRoute,
)
from extender.undecided_errors import WouldWaitError
from extender.wire.bodies import BadRequestError, LastPod
from extender.wire.filter_bodies import (
    QUICK_BYTES,
    QUICK_NAMES_BYTES,
    decode_args,
    decode_args_quickly,
)
from extender.wire.node_items import SeenNodes
from extender.wire.preempt_bodies import decode_preemption_args
from tests.conversing import Recorder, Wire, arrive

CROWD = 100


@contextlib.contextmanager
def crowd(address: tuple[str, int]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(CROWD):
            stack.enter_context(contextlib.closing(socket.create_connection(address)))
        yield


def test_a_crowd_is_accepted_and_ended_some_in_each_turn_of_the_loop() -> None:
    asyncio.run(accept_and_end_a_crowd())


async def accept_and_end_a_crowd() -> None:
    loop = asyncio.get_running_loop()
    limits = Limits(2**20, 2**20, request_seconds=1.0)
    connections = Connections(Recorder(), limits, loop)
    end, counts = asyncio.Event(), [0]

    def each_turn() -> None:
        counts.append(len(connections))
        if not end.is_set():
            loop.call_soon(each_turn)
        if counts[-1] == 0 and max(counts) == CROWD:
            end.set()

    listener = socket.create_server(("127.0.0.1", 0), backlog=CROWD)
    with crowd(listener.getsockname()):
        each_turn()
        await Listener(listener, connections).serve(end)
    steps = [then - before for before, then in pairwise(counts)]
    assert max(counts) == CROWD
    # A turn of ours may fall between any two of the loop's.
    assert max(steps) <= 2 * ACCEPTS_A_TURN
    assert -min(steps) <= 2 * ENDS_A_TURN


def test_memory_is_given_back_from_time_to_time_and_not_after_each_large_body() -> None:
    loop = asyncio.new_event_loop()
    now = 0.0
    connections = Connections(Recorder(), Limits(2**30, 2**30), loop)
    connections.now = lambda: now
    conn = Connection(connections, 0)

    given_back = []
    for _ in range(3):
        connections.hold(conn, WORTH_GIVING_BACK)
        given_back.append(connections.has_released)
        connections.hold(conn, 0)
        given_back.append(connections.has_released)
    now += GIVE_BACK_SECONDS
    given_back += [connections.has_released, connections.has_released]
    assert given_back == [False, True, False, False, False, False, True, False]
    loop.close()


@pytest.mark.parametrize(
    "is_known", [pytest.param(False, id="a new head"), pytest.param(True, id="a known head")]
)
def test_nothing_is_kept_of_the_body_of_a_client_that_is_refused(is_known: bool) -> None:
    """Not while the client reads why, either: thousands could be refused in that time."""
    loop = asyncio.new_event_loop()
    connections = Connections(Recorder(), Limits(max_body_bytes=10**6, max_held_bytes=10**6), loop)
    conn, wire = Connection(connections, deadline=0), Wire()
    conn.connection_made(wire)
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"
    if is_known:
        arrive(conn, head + bytes(100_000))
        wire.written = b""
    with traced() as taken:
        arrive(conn, head)
        arrive(conn, bytes(70_000))
        assert conn.held == 70_000
        assert taken() > 70_000
        conn.refuse(HTTPStatus.REQUEST_TIMEOUT, "too late")
        assert conn.held == 0
        assert taken() < 70_000
    loop.close()


@pytest.mark.skipif(not IS_COMPILED, reason="no memory is taken before the body arrives")
def test_a_body_that_there_is_no_memory_for_is_refused() -> None:
    loop = asyncio.new_event_loop()
    app, wire = Recorder(), Wire()
    conn = Connection(Connections(app, Limits(10**17, 10**17), loop), deadline=0)
    conn.connection_made(wire)
    arrive(conn, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n{" % 10**17)
    refused = f"there is no memory for a body of {10**17} bytes"
    assert app.asked == [(HTTPStatus.SERVICE_UNAVAILABLE, refused)]
    assert wire.written.startswith(b"HTTP/1.1 503 ")
    loop.close()


@pytest.mark.parametrize(
    "is_known", [pytest.param(False, id="new heads"), pytest.param(True, id="known heads")]
)
def test_not_every_client_that_announces_a_large_body_gets_memory_for_it(is_known: bool) -> None:
    """What they were given and had written to stayed with the process: 30 GB for a thousand."""
    size, app = 10**6, Recorder()
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size
    loop = asyncio.new_event_loop()
    connections = Connections(app, Limits(max_body_bytes=size, max_held_bytes=3 * size), loop)
    with traced() as taken:
        clients = [Connection(connections, deadline=0) for _ in range(20)]
        wires = [Wire() for _ in clients]
        for client, wire in zip(clients, wires, strict=True):
            client.served = True  # else it would be paused
            client.connection_made(wire)
            if is_known:
                arrive(client, head + bytes(size))
                wire.written = b""
        app.asked.clear()
        for number, client in enumerate(clients):
            arrive(client, head)
            arrive(client, bytes([number]))
        assert taken() < 3.5 * size
    # All are received, wherever that is.
    for number, client in enumerate(clients):
        arrive(client, bytes([number]) * (size - 1))
    assert [each[3] for each in app.asked] == [bytes([number]) * size for number in range(20)]
    # What is complete or dropped makes room for others.
    assert connections.body_memory.has_room(3 * size) is IS_COMPILED
    arrive(clients[0], head)
    arrive(clients[0], bytes(1))
    assert not connections.body_memory.has_room(3 * size)
    clients[0].connection_lost(None)
    assert connections.body_memory.has_room(3 * size) is IS_COMPILED
    loop.close()


def test_what_is_read_into_a_part_of_the_buffer_arrives() -> None:
    """As asyncio's TLS does with each record behind the first; with a bytearray it reads a copy."""
    loop, app = asyncio.new_event_loop(), Recorder()
    conn = Connection(Connections(app, Limits(100, 1000), loop), deadline=0)
    conn.connection_made(Wire())
    for record in (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n", b"{}"):
        buffer, half = conn.get_buffer(-1), len(record) // 2
        buffer[:half] = record[:half]
        rest = buffer[half:]
        rest[: len(record) - half] = record[half:]
        conn.buffer_updated(len(record))
    arrive(conn, b"\r\n0\r\n\r\n")
    assert [each[3] for each in app.asked] == [b"{}"]
    loop.close()


@contextlib.contextmanager
def traced() -> Iterator[Callable[[], int]]:
    """What tells how many bytes of memory are taken of those that were asked for within."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


class Routed(Recorder):
    """An application of one route."""

    def __init__(self, route: VerbRoute) -> None:
        super().__init__()
        self._route = route

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        return self._route(request)


class _Times:
    def succeeded(self, nodes: int, seconds: float) -> None: ...
    def failed(self, status: int) -> None: ...


def test_nothing_is_kept_of_a_body_whose_client_went_before_its_turn() -> None:
    """Whoever reset its connection could have one more in the queue: 1.4 GB together."""
    going_on = threading.Event()

    def verb(body: bytes, *, patient: bool = True) -> tuple[list[bytes], int]:
        going_on.wait(10)
        return [b""], 0

    size = QUICK_NAMES_BYTES + 1

    async def ask() -> None:
        loop, threads = asyncio.get_running_loop(), Threads.of(1)
        route = Routed(VerbRoute(verb, _Times(), threads))
        connections = Connections(route, Limits(size, 10 * size), loop)
        clients = [Connection(connections, deadline=0) for _ in range(2)]
        with traced() as taken:
            for client in clients:
                client.served = True  # else it would be paused
                client.connection_made(Wire())
                arrive(client, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size)
                for part in (size - 10, 10):
                    arrive(client, bytes(part))
            await asyncio.sleep(0)
            assert [client.held for client in clients] == [size, size]
            both = taken()
            clients[1].connection_lost(None)
            await asyncio.sleep(0)
            assert both - taken() > size - 10_000
        going_on.set()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*left, return_exceptions=True)
        threads.stop()

    asyncio.run(ask())


def test_few_long_bodies_wait_at_the_same_time() -> None:
    """A thread keeps its body: with 32 of them, clients that went away could fill the memory."""
    going_on, waiting = threading.Event(), threading.Semaphore(0)
    at_once: list[int] = []
    held: list[bytes] = []

    def verb(body: bytes, *, patient: bool = True) -> tuple[list[bytes], int]:
        if not patient:
            raise WouldWaitError
        held.append(body)
        at_once.append(len(held))
        waiting.release()
        going_on.wait(10)
        held.pop()
        return [b""], 0

    async def ask() -> None:
        threads = Threads.of(1)
        route = VerbRoute(verb, _Times(), threads)
        body = bytes(LONG_BYTES + 1)
        requests = [Request(b"POST", b"/", [], [body], len(body)) for _ in range(6)]
        answers = asyncio.gather(*(answer_of(route(each)) for each in requests))
        for _ in range(2):
            await asyncio.to_thread(waiting.acquire)
        short = Request(b"POST", b"/", [], [b"{}"], 2)
        soon = asyncio.ensure_future(answer_of(route(short)))
        await asyncio.to_thread(waiting.acquire)  # it does not wait for one of the others
        assert len(held) == 3
        going_on.set()
        await asyncio.gather(answers, soon)
        threads.stop()

    asyncio.run(ask())
    assert max(at_once) == 3


async def answer_of(given: Answer | Awaitable[Answer]) -> Answer:
    return given if isinstance(given, Answer) else await given


@pytest.mark.parametrize(
    ("size", "collects"),
    [
        pytest.param(10, True, id="a small body, on the event loop"),
        pytest.param(QUICK_NAMES_BYTES + 1, False, id="a large one, in a thread"),
    ],
)
def test_nothing_is_collected_while_a_large_body_is_decoded(size: int, collects: bool) -> None:
    seen: list[bool] = []

    def verb(body: bytes, *, patient: bool = True) -> tuple[list[bytes], int]:
        seen.append(gc.isenabled())
        if len(seen) == 1:
            raise BadRequestError("once")
        return [b""], 0

    async def ask() -> None:
        threads = Threads.of(1)
        route = VerbRoute(verb, _Times(), threads)
        for _ in range(2):
            answer = route(Request(b"POST", b"/filter", [], [b"x" * size], size))
            if not isinstance(answer, Answer):
                await answer
            assert gc.isenabled()
        threads.stop()

    asyncio.run(ask())
    assert seen == [collects] * 2


def test_of_long_answers_that_are_asked_for_at_once_most_are_made_in_a_thread() -> None:
    threads_of: list[str] = []

    def verb(body: bytes, *, patient: bool = True) -> tuple[list[bytes], int]:
        threads_of.append(threading.current_thread().name)
        sum(range(100_000))  # some milliseconds
        return [b""], 0

    async def ask(size: int, times: int) -> int:
        """How many were answered on the event loop."""
        threads_of.clear()
        threads = Threads.of(1)
        route = VerbRoute(verb, _Times(), threads, lambda body: verb(body))
        asked = [route(Request(b"POST", b"/filter", [], [b"x" * size], size)) for _ in range(times)]
        for answer in asked:
            if not isinstance(answer, Answer):
                await answer
        threads.stop()
        return threads_of.count(threading.current_thread().name)

    assert asyncio.run(ask(SHORT_BYTES, 20)) == 20
    assert 1 <= asyncio.run(ask(SHORT_BYTES + 1, 20)) <= 8
    assert asyncio.run(ask(QUICK_NAMES_BYTES + 1, 20)) == 0


def test_one_client_that_asks_after_each_answer_is_always_answered_on_the_event_loop() -> None:
    """Making an answer takes it as long as all else does, or less."""
    allowance, now = Allowance(), 100.0
    for seconds in [0.0002] * 100 + [0.003] * 100:
        assert allowance.allows(QUICK_NAMES_BYTES, now)
        allowance.spend(now, now + seconds)
        now += 2 * seconds
    for _ in range(3):  # without a pause
        allowance.spend(now, now + 0.003)
        now += 0.003
    assert not allowance.allows(SHORT_BYTES + 1, now)


def test_beside_many_clients_a_large_body_is_answered_in_a_thread() -> None:
    allowance = Allowance(clients=lambda: FEW_CLIENTS)
    assert allowance.allows(LONG_BYTES + 1, 100.0)
    allowance.clients = lambda: FEW_CLIENTS + 1
    assert allowance.allows(LONG_BYTES, 100.0)
    assert not allowance.allows(LONG_BYTES + 1, 100.0)


@pytest.mark.parametrize(
    ("item", "end", "is_quick"),
    [
        pytest.param(b"{}", b"}", False, id="empty Nodes"),
        pytest.param(b"{}", b',"NodeNames":null,"x":["a"]}', False, id="that end as names do"),
        pytest.param(b"null", b"}", False, id="nulls"),
        pytest.param(b'{"metadata":{"name":"%b"}}' % (b"a" * 40), b"}", True, id="Nodes"),
    ],
)
def test_short_bodies_of_more_nodes_than_can_be_real_are_read_in_a_thread(
    item: bytes, end: bytes, is_quick: bool
) -> None:
    """10,000 empty ones held the event loop for 60 ms."""
    items = b",".join([item] * (30_000 // (len(item) + 1)))
    body = b'{"Pod":{},"Nodes":{"items":[' + items + b"]}" + end
    assert len(body) <= QUICK_BYTES
    args = decode_args_quickly(body, SeenNodes(), LastPod())
    assert (args is not None) is is_quick


@pytest.mark.parametrize("read", [decode_args, decode_preemption_args])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"Pod":{},"Nodes":{"items":[' + b"[]," * 300_000 + b"[]]}}", id="nodes"),
        pytest.param(b'{"Pod":{},"NodeNames":[' + b'"a",' * 300_000 + b"1]}", id="names"),
        pytest.param(b'{"Pod":{},"NodeNameToVictims":{' + b'"a":1,' * 300_000 + b'"":1}}', id="v"),
    ],
)
def test_what_is_refused_is_freed_without_a_collection(read: object, body: bytes) -> None:
    assert callable(read)
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(3):
            with pytest.raises(BadRequestError):
                read(body)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert held < len(body) / 4


def test_large_bodies_are_slowed_down_where_more_send_them_than_there_are_schedulers() -> None:
    """A hundred clients, each answered before, kept probes waiting for 70 ms, at times for 180."""
    loop = asyncio.new_event_loop()
    connections = Connections(Recorder(), Limits(2**20, 2**30), loop)
    connections.now = lambda: 0.0
    wires = [Wire() for _ in range(FEW_SENDERS + 1)]
    clients = [Connection(connections, deadline=0) for _ in wires]
    for client, wire in zip(clients, wires, strict=True):
        client.served = True
        client.connection_made(wire)
        arrive(client, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % 2**20)
    for client in clients[:-1]:
        for _ in range(3):
            arrive(client, bytes(100_000))
    assert not any(wire.told for wire in wires)
    arrive(clients[-1], bytes(100_000))
    for client, wire in zip(clients, wires, strict=True):
        arrive(client, bytes(100_000))
        assert wire.told == ["pause"]
    # So is what clients send after they were refused, of which nothing is kept.
    for client, wire in zip(clients, wires, strict=True):
        client.refuse(HTTPStatus.REQUEST_TIMEOUT, "too late")
        assert client.held == 0
        arrive(client, bytes(100_000))
        assert wire.told == ["pause", "pause"]
    loop.close()


def test_of_a_client_that_pipelines_no_more_is_read_while_an_answer_is_due() -> None:
    """200 that did so kept the event loop busy for two thirds of its time."""
    request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"

    class Slow(Recorder):
        def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
            answer = super().__call__(request)
            assert isinstance(answer, Answer)
            due.append(asyncio.get_running_loop().create_future())
            awaited: Awaitable[Answer] = due[-1]
            return awaited

    due: list[asyncio.Future[Answer]] = []

    async def converse() -> None:
        app, wire, loop = Slow(), Wire(), asyncio.get_running_loop()
        conn = Connection(Connections(app, Limits(2**20, 2**20), loop), deadline=0)
        conn.connection_made(wire)
        arrive(conn, request)
        assert wire.told == []  # or nobody would see that the client has gone
        arrive(conn, request)
        assert wire.told == ["pause"]
        due[0].set_result(Answer([b"first"]))
        while len(due) < 2:
            await asyncio.sleep(0)
        assert wire.told == ["pause", "resume"]
        due[1].set_result(Answer([b"second"]))
        while b"second" not in wire.written:
            await asyncio.sleep(0)
        assert wire.written.index(b"first") < wire.written.index(b"second")

    asyncio.run(converse())
