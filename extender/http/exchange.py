"""A request and its answer, as the connection and the applications hand them to each other."""

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Final, Protocol

import orjson
from msgspec import Struct

Header = tuple[bytes, bytes]

JSON: Final = b"application/json"
TEXT: Final = b"text/plain; charset=utf-8"


class Refusal(Exception):  # noqa: N818 - a malformed or too large request, not a fault of ours
    """The request can't be accepted; `message` is the line in the answer."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Request(Struct):
    """One complete HTTP/1.x request; target and headers are as they came.

    pieces is the content as it was received, size the sum of their lengths; encoding is the value
    of Content-Encoding.
    """

    method: bytes
    target: bytes
    headers: Sequence[Header]
    pieces: list[bytes]
    size: int
    keep_alive: bool = True
    encoding: bytes = b""

    @property
    def body(self) -> bytes:
        """The content. Joining a large one takes milliseconds, so do it in a thread."""
        pieces = self.pieces  # the connection may drop them meanwhile
        if len(pieces) != 1:
            pieces[:] = [b"".join(pieces)]
        return pieces[0]

    def header(self, name: bytes) -> bytes:
        """The value of the first header of this lower-case name, or nothing."""
        return next((value for key, value in self.headers if key.lower() == name), b"")


class Answer(Struct):
    """An answer whose body is complete; chunks are sent one after the other, not copied.

    sent is called on the event loop as soon as the answer is on its way, for what the client need
    not wait for; what it returns is called when the client has taken the answer.
    """

    chunks: Sequence[bytes | memoryview]
    status: int = 200
    content_type: bytes = JSON
    headers: Sequence[Header] = ()
    sent: Callable[[], Callable[[], None] | None] | None = None

    def head(self, date: bytes, size: int, *, keep_alive: bool) -> bytes:
        """The status line and the headers. date is the Date header's value, size the body's."""
        if self.status == 200 and keep_alive and not self.headers:
            return _usual_start(date, self.content_type) + b"%d\r\n\r\n" % size
        lines = [
            b"HTTP/1.1 %d %b" % (self.status, HTTPStatus(self.status).phrase.encode()),
            b"Date: " + date,
            *([] if keep_alive else [b"Connection: close"]),
            *(b"%b: %b" % each for each in self.headers),
            b"Content-Type: " + self.content_type,
            b"Content-Length: %d" % size,
        ]
        return b"\r\n".join((*lines, b"\r\n"))


@lru_cache(maxsize=8)
def _usual_start(date: bytes, content_type: bytes) -> bytes:
    """The head that most answers within a second share, up to the length."""
    return b"HTTP/1.1 200 OK\r\nDate: %b\r\nContent-Type: %b\r\nContent-Length: " % (
        date,
        content_type,
    )


def error_answer(status: int, message: str, *headers: Header) -> Answer:
    """An error as JSON with one key."""
    return Answer([orjson.dumps({"error": message}) + b"\n"], status, JSON, headers)


class Application(Protocol):
    """What answers requests; called on the event loop.

    An answer that has to wait, or takes long, comes as an awaitable. What it raises is answered by
    error_answers.answer_of.
    """

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]: ...

    def refused(self, refusal: Refusal) -> None:
        """A request was turned away before it was complete."""
