"""Asks an application in process, as uvicorn does, but without a socket."""

import asyncio
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from urllib.parse import unquote

import orjson
from werkzeug.datastructures import Headers

from extender.http.asgi import ASGI
from extender.verbs.endpoint import Answered, Verb


@dataclass(frozen=True, slots=True)
class Response:
    """An answer as a client sees it."""

    status_code: int
    data: bytes
    headers: Headers

    @property
    def text(self) -> str:
        return self.data.decode()

    @property
    def json(self) -> Any:
        return orjson.loads(self.data)


class Client:
    """One client of an application."""

    def __init__(self, app: ASGI) -> None:
        self._app = app

    def get(self, path: str, **headers: str) -> Response:
        """headers: by name, with _ for -."""
        return self.ask("GET", path, b"", **headers)

    def post(self, path: str, data: bytes | str = b"", **headers: str) -> Response:
        return self.ask("POST", path, data.encode() if isinstance(data, str) else data, **headers)

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Response:
        fields = [
            (name.replace("_", "-").lower().encode(), value.encode())
            for name, value in headers.items()
        ]
        where, _, query = path.partition("?")
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": unquote(where),
            "query_string": query.encode(),
            "headers": [*fields, (b"content-length", b"%d" % len(body))],
        }
        return asyncio.run(self._ask(scope, body))

    async def _ask(self, scope: dict[str, Any], body: bytes) -> Response:
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        start, *rest = sent
        headers = Headers([(name.decode(), value.decode()) for name, value in start["headers"]])
        data = b"".join(message.get("body", b"") for message in rest)
        return Response(start["status"], data, headers)


async def at_once(function: Callable[..., Any], *args: object) -> Any:
    return function(*args)


def answered(verb: Verb, body: bytes) -> tuple[Any, int]:
    """The JSON that a verb answers, and the number of nodes it was about."""
    chunks, nodes = asyncio.run(_run(verb, body))
    return orjson.loads(b"".join(chunks)), nodes


async def _run(verb: Verb, body: bytes) -> Answered:
    return await verb(BytesIO(body), at_once)
