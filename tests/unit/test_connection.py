"""The subclass of uvicorn's protocol, with the installed uvicorn."""

import asyncio
import gc
import math
import weakref
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from extender.server.connection import Connection

REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"


def test_a_lost_connection_is_freed_without_a_garbage_collection() -> None:
    """Otherwise the bodies and unread answers of a crowd stay for minutes."""
    made: list[weakref.ref[Connection]] = []
    deadlines = set[float]()
    state = ServerState()

    async def answer(_scope: Any, receive: Any, _send: Any) -> None:
        await receive()
        answering.set()
        await lost.wait()

    async def lose() -> None:
        config = uvicorn.Config(answer, log_config=None)
        config.load()

        def make() -> Connection:
            connection = Connection(config=config, server_state=state, app_state={})
            made.append(weakref.ref(connection))
            return connection

        async with await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0) as server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(REQUEST * 3)
            await answering.wait()
            connection = made[0]()
            assert connection is not None
            # The deadline of a paused answer is not renewed: a client could read piece by piece.
            for _ in range(2):
                connection.pause_writing()
                deadlines.add(connection.deadline)
                connection.resume_writing()
            del connection
            writer.transport.abort()
            while state.connections:
                await asyncio.sleep(0)
            lost.set()
            while state.tasks:
                await asyncio.sleep(0)

    answering, lost = asyncio.Event(), asyncio.Event()
    gc.collect()
    gc.disable()
    try:
        asyncio.run(asyncio.wait_for(lose(), 20))
        assert [each() for each in made] == [None]
        assert len(deadlines - {math.inf}) == 1
    finally:
        gc.enable()
