"""The ASGI application: the route of a path, the body within its limits, the answer.

Flask serves all other paths: the pages and answers for people.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from http import HTTPStatus
from io import BytesIO
from typing import Any, Final
from urllib.parse import quote_from_bytes

from extender.http.answers import Answer, Refusal, Request, Route, answer_of, error_answer
from extender.http.limits import SMALL_BYTES, Room
from extender.model.reasons import shown

#: The bytes of an answer in one write over TLS, where uvloop applies backpressure between writes
#: only. Otherwise a write of any size needs no memory: the kernel reads from the answer itself.
PIECE_BYTES: Final = 512 * 1024

#: The most pages that are made or sent at a time. A page of a large cluster has some megabytes.
MAX_PAGES: Final = 32

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGI = Callable[[Scope, Receive, Send], Awaitable[None]]

_LENGTH: Final = b"content-length"
_FRAMING: Final = (_LENGTH, b"transfer-encoding")

#: The ASCII characters that a query may have. All others are escaped, since WSGI wants ASCII.
_QUERY: Final = bytes(range(0x21, 0x7F))


class Application:
    """Finds the route of a path. Flask serves a path in `queried` if it comes with a query.

    count_refused: called with the status of each request that is refused before its route.
    """

    def __init__(
        self,
        routes: Mapping[str, Route],
        pages: ASGI,
        max_body_bytes: int,
        count_refused: Callable[[int], None],
        queried: Collection[str] = (),
    ) -> None:
        self._routes = routes
        self._pages = pages
        self._most = max_body_bytes
        self.room = Room(max_body_bytes)
        self._count_refused = count_refused
        self._queried = queried
        self._turns = asyncio.Semaphore(MAX_PAGES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes.get(scope["path"])
        held: list[int] = []
        try:
            if route is not None and scope["method"] not in route.methods:
                text = f"the method {shown(scope['method'])} is not allowed here"
                text += f": POST {route.about}" if "POST" in route.methods else ""
                allowed = b"allow", ", ".join(route.methods).encode()
                answer = error_answer(HTTPStatus.METHOD_NOT_ALLOWED, text, allowed)
                await self._send(answer, scope, send, held)
                return
            request = await self._read(scope, receive, held)
            if request is None:
                return
            if route is None or (request.query and request.path in self._queried):
                await self._page(request, scope, send)
                return
            await self._send(await route(request), scope, send, held)
        except Exception as error:
            if isinstance(error, Refusal):
                self._count_refused(error.status)
            await self._send(answer_of(error), scope, send, held)
        finally:
            self.room.give_back(held)

    async def _read(self, scope: Scope, receive: Receive, held: list[int]) -> Request | None:
        """The request with its body, None if the client has disconnected. Raises Refusal."""
        headers = scope["headers"]
        size, body, more = 0, BytesIO(), True
        # httptools has checked that Content-Length is a number.
        expected = int(dict(headers).get(_LENGTH, 0))
        while True:
            if max(size, expected) > self._most:
                text = f"the body is over the limit of {self._most} bytes (--max-body-bytes)"
                raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
            if not more:
                query = scope["query_string"]
                return Request(scope["method"], scope["path"], query, headers, body, size)
            if max(size, expected) > SMALL_BYTES and not held:
                self.room.take(expected or self._most, held)
            message = await receive()
            if message["type"] != "http.request":
                return None
            piece = message.get("body", b"")
            more = message.get("more_body", False)
            if size or more:
                body.write(piece)
            else:
                body = BytesIO(piece)  # Without a copy.
            size += len(piece)

    async def _page(self, request: Request, scope: Scope, send: Send) -> None:
        """Have Flask answer the request, with its length in the headers."""
        headers = [field for field in request.headers if field[0] not in _FRAMING]
        headers.append((_LENGTH, b"%d" % request.size))
        query = quote_from_bytes(request.query, _QUERY).encode()

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": request.body.getvalue()}

        if self._turns.locked():
            # uvicorn goes on with a page whose client is gone, and refuses all at a limit of tasks.
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages at once, try again later")
        async with self._turns:
            await self._pages({**scope, "headers": headers, "query_string": query}, receive, send)

    async def _send(self, answer: Answer, scope: Scope, send: Send, held: list[int]) -> None:
        chunks, size = answer.chunks, sum(map(len, answer.chunks))
        if size > SMALL_BYTES:
            self.room.take(size, held)
        headers = [(b"content-type", answer.content_type), (_LENGTH, b"%d" % size), *answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        if size > SMALL_BYTES:
            step = PIECE_BYTES if scope.get("scheme") == "https" else size
            for chunk in chunks:
                view = memoryview(chunk)
                for start in range(0, len(view), step):
                    piece = view[start : start + step]
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            # uvicorn sends the end after the client has read most of the pieces.
            chunks = ()
        await send({"type": "http.response.body", "body": b"".join(chunks)})
