"""Asks an application in process, as a connection does, but without a socket."""

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import orjson

from extender.http.exchange import Answer, Application, Request


@dataclass(frozen=True, slots=True)
class Response:
    """An answer as a client sees it."""

    status_code: int
    data: bytes
    headers: dict[str, str]

    @property
    def text(self) -> str:
        return self.data.decode()

    @property
    def json(self) -> Any:
        return orjson.loads(self.data)


class Client:
    """One client of an application."""

    def __init__(self, app: Application) -> None:
        self._app = app

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: object, _trace: TracebackType | None
    ) -> None:
        pass

    def get(self, path: str, **headers: str) -> Response:
        """headers: by name, with _ for -."""
        return self.ask("GET", path, b"", **headers)

    def post(self, path: str, data: bytes | str = b"", **headers: str) -> Response:
        return self.ask("POST", path, data.encode() if isinstance(data, str) else data, **headers)

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Response:
        fields = [
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        ]
        answer = asyncio.run(
            self._ask(Request(method.encode(), path.encode(), fields, [body], len(body)))
        )
        answered = {name.decode(): value.decode() for name, value in answer.headers}
        answered["Content-Type"] = answer.content_type.decode()
        return Response(answer.status, b"".join(answer.chunks), answered)

    async def _ask(self, request: Request) -> Answer:
        answer = self._app(request)
        return answer if isinstance(answer, Answer) else await answer
