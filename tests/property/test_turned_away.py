"""Of those who hold too much together, whoever holds little is never the one that is refused."""

import asyncio
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from extender.http.all_connections import MUCH_SHARE, Connections, Limits
from extender.http.connection import WORTH_COUNTING, Connection
from extender.http.exchange import Answer, Refusal, Request
from tests.conversing import Wire, arrive

HELD: Final = 2 * MUCH_SHARE * WORTH_COUNTING
LITTLE: Final = HELD // MUCH_SHARE
MUCH: Final = HELD // 2
LIMITS: Final = Limits(max_body_bytes=MUCH, max_held_bytes=HELD)

HEAD: Final = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
ZEROS: Final = bytes(MUCH)

#: Fewer than would hold too much together if each held little.
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
