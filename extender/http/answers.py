"""The requests and answers that the ASGI application and its routes exchange."""

import logging
from collections.abc import Sequence
from http import HTTPStatus
from io import BytesIO
from typing import Final, Protocol
from urllib.parse import parse_qs

import orjson
from flask import Flask, Response, request
from msgspec import Struct
from werkzeug.exceptions import HTTPException

from extender.model.errors import BadRequestError, TooLargeError, UndecidedError
from extender.model.reasons import shown

_LOG: Final = logging.getLogger(__name__)

Header = tuple[bytes, bytes]

JSON: Final = b"application/json"
TEXT: Final = b"text/plain; charset=utf-8"


class Refusal(Exception):  # noqa: N818 - a malformed or too large request, not a fault of ours
    """The request can't be accepted; its text is the line in the answer."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Request(Struct):
    """A complete request: the path is decoded, the query as sent, names of headers in lower case.

    body: the content; closed once it is read, to free its memory. size: its length in bytes.
    """

    method: str
    path: str
    query: bytes
    headers: Sequence[Header]
    body: BytesIO
    size: int

    def header(self, name: bytes) -> bytes:
        """The value of the first header with this lower-case name; empty without one."""
        return next((value for key, value in self.headers if key == name), b"")

    def is_asked(self, name: str) -> bool:
        """Whether the query has this parameter, with or without a value."""
        return name in parse_qs(self.query.decode("latin-1"), keep_blank_values=True)


class Answer(Struct):
    """A complete answer. The chunks of its body are sent one after the other, without a copy."""

    chunks: Sequence[bytes | memoryview]
    status: int = 200
    content_type: bytes = JSON
    headers: Sequence[Header] = ()


class Route(Protocol):
    """Answers requests for a path. methods: the HTTP methods it allows. about: what it takes."""

    @property
    def methods(self) -> tuple[str, ...]: ...

    @property
    def about(self) -> str: ...

    async def __call__(self, request: Request) -> Answer: ...


def error_body(message: str) -> bytes:
    """An error as JSON with one key, and a line break for a terminal."""
    return orjson.dumps({"error": message}) + b"\n"


def error_answer(status: int, message: str, *headers: Header) -> Answer:
    return Answer([error_body(message)], status, JSON, headers)


class NotFoundError(Exception):
    """The requested object does not exist; becomes a 404. similar: existing names like its name."""

    def __init__(self, message: str, similar: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.similar = similar


#: The filter writes an UndecidedError into its answer. The other verbs have no field for it: 503.
_STATUSES: Final = (
    (TooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (BadRequestError, HTTPStatus.BAD_REQUEST),
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (UndecidedError, HTTPStatus.SERVICE_UNAVAILABLE),
)


def answer_of(error: Exception) -> Answer:
    """The answer to a request that ended in an error; unexpected errors are logged."""
    if isinstance(error, Refusal):
        return error_answer(error.status, str(error))
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return error_answer(status, str(error))
    _LOG.exception("a request failed", exc_info=error)
    return error_answer(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error, see the log")


def install_error_handlers(app: Flask) -> None:
    """Answer errors in Flask's pages as answer_of does."""

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        text = error.description or error.name
        if error.code == HTTPStatus.NOT_FOUND:
            text = f"no such path: {shown(request.path)}"
        allowed = [field for field in error.get_headers() if field[0] == "Allow"]
        return Response(error_body(text), error.code or 500, allowed, mimetype="application/json")

    @app.errorhandler(Exception)
    def other_error(error: Exception) -> Response:
        answer = answer_of(error)
        return Response(b"".join(answer.chunks), answer.status, mimetype="application/json")
