"""Of those who hold too much together, whoever holds little is never the one that is refused."""

import asyncio
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from extender.http.all_connections import Connections, Limits
from extender.http.connection import WORTH_COUNTING, Connection
from extender.http.exchange import Answer, Refusal, Request
from tests.conversing import Wire, arrive

LITTLE: Final = 2 * WORTH_COUNTING
HELD: Final = 64 * LITTLE
MUCH: Final = HELD // 2
LIMITS: Final = Limits(max_body_bytes=MUCH, max_held_bytes=HELD)

HEAD: Final = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
ZEROS: Final = bytes(MUCH)

Clients = list[tuple[Connection, Wire]]

#: So few that those who hold little hold less than a quarter of that together.
CLIENTS: Final = st.lists(st.sampled_from([100_000, LITTLE, MUCH, MUCH]), min_size=3, max_size=6)


class NeverDone:
    """An application whose answers are all still to come."""

    async def __call__(self, request: Request) -> Answer:
        done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        return await done

    def refused(self, refusal: Refusal) -> None:
        """It is in what was written to the client."""


#: Whose turn it is to send, and how much of what it has left.
STEPS: Final = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([70_000, 10**6, MUCH])), min_size=8, max_size=40
)


@given(CLIENTS, STEPS)
def test_whoever_holds_little_is_never_refused_for_what_others_hold(
    sizes: list[int], steps: list[tuple[int, int]]
) -> None:
    async def send() -> None:
        connections = Connections(NeverDone(), LIMITS, asyncio.get_running_loop())
        wires = [Wire() for _ in sizes]
        clients = [Connection(connections, deadline=0) for _ in sizes]
        left = [HEAD % size + ZEROS[:size] for size in sizes]
        for client, wire in zip(clients, wires, strict=True):
            client.served = True  # else it would be paused
            client.connection_made(wire)
        for number, piece in steps:
            index = number % len(sizes)
            arrive(clients[index], left[index][:piece])
            left[index] = left[index][piece:]
            assert sum(client.held for client in clients) <= HELD
            await asyncio.sleep(0)
        for size, wire in zip(sizes, wires, strict=True):
            is_refused = wire.written.startswith(b"HTTP/1.1 503 ")
            assert wire.written == b"" or (is_refused and size > LITTLE)
        for client in clients:
            client.connection_lost(None)
        assert not any(client.held for client in clients)

    asyncio.run(send())


async def connected(connections: Connections, count: int, wire: type[Wire] = Wire) -> Clients:
    """Clients that were answered before, with their wires."""
    clients = [(Connection(connections, deadline=0), wire()) for _ in range(count)]
    for client, own in clients:
        client.served = True
        client.connection_made(own)
    return clients


def test_of_many_who_are_slow_and_hold_little_the_longest_is_refused() -> None:
    """64 of them held all there was, and a large request was refused as the only one with much."""

    async def send() -> None:
        connections = Connections(NeverDone(), LIMITS, asyncio.get_running_loop())
        for client, _ in (slow := await connected(connections, 64)):
            arrive(client, HEAD % MUCH + ZEROS[: LITTLE - 100])
        ((large, wire),) = await connected(connections, 1)
        arrive(large, HEAD % MUCH + ZEROS)
        assert wire.written == b""
        refused = [each.written.startswith(b"HTTP/1.1 503 ") for _, each in slow]
        assert refused == [True] * sum(refused) + [False] * (64 - sum(refused))
        assert sum(client.held for client, _ in [*slow, (large, wire)]) <= HELD
        for client, _ in [*slow, (large, wire)]:
            client.connection_lost(None)
        await asyncio.sleep(0)

    asyncio.run(send())


class TlsWire(Wire):
    """As of a connection with TLS, of which reading is never paused."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "ssl_object" else default


def test_a_client_alone_can_not_hold_more_by_sending_ahead_of_its_answers() -> None:
    """One with TLS had 14 requests of 47 MB taken."""

    async def send() -> None:
        connections = Connections(NeverDone(), LIMITS, asyncio.get_running_loop())
        ((client, wire),) = await connected(connections, 1, TlsWire)
        for number in range(5):
            arrive(client, HEAD % MUCH + ZEROS)
            await asyncio.sleep(0)
            assert client.held <= HELD
            assert bool(wire.written) == (number > 1)
        assert wire.written.startswith(b"HTTP/1.1 503 ")
        assert wire.written.count(b"HTTP/1.1 ") == 1
        client.connection_lost(None)
        await asyncio.sleep(0)

    asyncio.run(send())
