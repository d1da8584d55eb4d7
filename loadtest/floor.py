"""The floor: the least that a server in Python does to read a body and send an answer.

    python -m loadtest.floor

An event loop (uvloop; --loop asyncio for Python's own), a parser of HTTP in C (httptools), nothing
else: no limits, no deadlines, no framework, no gunicorn. PUT a verb's path with the answer to
prepare; POST it as one would ask the service.
"""

import asyncio
import gc
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import httptools
import uvloop

from extender.serving.listeners import announce, listen_on
from extender.serving.memory import keep_freed_memory
from loadtest.stack import bind_parser

_PREPARED: dict[bytes, bytes] = {b"/readyz": b"ok"}

_LOOPS: Final[dict[str, Callable[[], asyncio.AbstractEventLoop]]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}


class Floor(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._parser: Any = httptools.HttpRequestParser(self)
        self._pieces: list[bytes] = []
        self._path = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._pieces = []

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def on_message_complete(self) -> None:
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        if self._parser.get_method() == b"PUT":
            _PREPARED[self._path] = body
            body = b""
        else:
            body = _PREPARED.get(self._path, b"")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self._transport.writelines((head % len(body), body))


def main(argv: Sequence[str] | None = None) -> int:
    parser = bind_parser("loadtest.floor", "Answers with what was prepared.")
    parser.add_argument("--loop", choices=_LOOPS, default="uvloop", help="the event loop")
    flags = parser.parse_args(argv)
    listener = listen_on(flags.bind, "--bind")
    print(f"listening on {announce(listener, tls=False)}", file=sys.stderr, flush=True)
    keep_freed_memory()
    gc.freeze()

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Floor, sock=listener)
        await server.serve_forever()

    with asyncio.Runner(loop_factory=_LOOPS[flags.loop]) as runner:
        runner.run(serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
