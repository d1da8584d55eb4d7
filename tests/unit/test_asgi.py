"""The ASGI application: its limit on pages."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from extender.http.asgi import MAX_PAGES, Application

Message = MutableMapping[str, Any]


def test_pages_that_nobody_waits_for_are_bounded() -> None:
    """uvicorn goes on with them, and would refuse probes once there are too many."""
    statuses: list[int] = []
    refused: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def ask() -> None:
        going_on = asyncio.Event()

        async def slow(_scope: Any, _receive: Any, send: Any) -> None:
            await going_on.wait()
            await send({"type": "http.response.start", "status": 200})

        app = Application({}, slow, 1000, refused.append)
        scope = {"method": "GET", "path": "/", "headers": [], "query_string": b""}
        async with asyncio.TaskGroup() as group:
            for _ in range(MAX_PAGES + 3):
                group.create_task(app(dict(scope), receive, send))
            while len(statuses) < 3:
                await asyncio.sleep(0)
            going_on.set()
        await app(dict(scope), receive, send)

    asyncio.run(asyncio.wait_for(ask(), 20))
    assert statuses == [503] * 3 + [200] * (MAX_PAGES + 1)
    assert refused == [503] * 3
