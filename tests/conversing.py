"""A connection without a socket: bytes in; out what is asked of an application, and the answers."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from extender.http.all_connections import Connections, Limits
from extender.http.connection import Connection
from extender.http.exchange import Answer, Refusal, Request
from extender.http.request_reader import MAX_PIPELINED

#: The only part of an answer that changes by the clock.
_DATE: Final = re.compile(rb"Date: [^\r]*\r\n")


class Recorder:
    """An application that notes what it is asked, and answers with the body."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        head = (request.method, request.target, list(request.headers))
        self.asked.append((*head, request.body, request.size, request.keep_alive, request.encoding))
        return Answer([request.body])

    def refused(self, refusal: Refusal) -> None:
        self.asked.append((refusal.status, refusal.message))


class Wire(asyncio.Transport):
    """A transport that keeps what is written, and notes when it is to be read from."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.told: list[str] = []

    def pause_reading(self) -> None:
        self.told.append("pause")

    def resume_reading(self) -> None:
        self.told.append("resume")

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Everything is taken at once."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def writelines(self, list_of_data: Any) -> None:
        self.written += b"".join(list_of_data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.written += b"<eof>"

    def close(self) -> None:
        self.written += b"<close>"

    def is_closing(self) -> bool:
        return b"<close>" in self.written


def arrive(conn: Connection, data: bytes) -> None:
    """Hand over what has arrived, as the event loop does."""
    while data:
        with memoryview(conn.get_buffer(-1)) as place:
            size = min(len(place), len(data))
            place[:size] = data[:size]
        conn.buffer_updated(size)
        data = data[size:]


def conversation(
    requests: Sequence[bytes], cut: Callable[[bytes], Sequence[bytes]], limits: Limits
) -> tuple[list[Any], bytes]:
    """What an application was asked and a client got but for dates, each request sent in pieces."""
    app, wire = Recorder(), Wire()

    async def converse() -> None:
        conn = Connection(Connections(app, limits, asyncio.get_running_loop()), deadline=0)
        conn.connection_made(wire)
        for request in requests:
            for piece in cut(request):
                arrive(conn, piece)
                await asyncio.sleep(0)
        for _ in range(MAX_PIPELINED):  # one answer in a turn of the loop
            await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(converse())
    finally:
        loop.close()
    return app.asked, _DATE.sub(b"", wire.written)


def whole(request: bytes) -> list[bytes]:
    return [request]


def head_first(request: bytes) -> list[bytes]:
    """The head, and then the content by the byte."""
    end = request.find(b"\r\n\r\n") + 4
    return [request[:end], *(request[at : at + 1] for at in range(end, len(request)))]


def in_two(request: bytes) -> list[bytes]:
    return [request[:1], request[1:]]
