"""A client that times requests over a keep-alive connection, and percentiles of the times."""

import re
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loadtest.processes import Address

#: The headers of Go's client, in its order.
_HEAD: Final = (
    b"%b /%b HTTP/1.1\r\n"
    b"Host: %b:%d\r\n"
    b"User-Agent: Go-http-client/1.1\r\n"
    b"Content-Length: %d\r\n"
    b"Content-Type: application/json\r\n"
    b"Accept-Encoding: gzip\r\n\r\n"
)

_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)[ \t]*\r\n", re.IGNORECASE)
_LAST: Final = re.compile(rb"\r\nconnection:[ \t]*close[ \t]*\r\n", re.IGNORECASE)

#: Larger than any head; small enough to stay in a processor's cache from request to request.
_BUFFER_BYTES: Final = 256 * 1024

_TIMEOUT_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. size: of the body, in bytes. Only ask() keeps the body.

    seconds: from before the first byte is sent until the last is received.
    """

    status: int
    size: int
    seconds: float
    body: bytes = b""


class Client:
    """One keep-alive connection to a server, opened at the first request. For one thread.

    A bare socket, since an HTTP library's own time would be most of a short time. It understands
    only answers with a Content-Length.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._buffer = bytearray(_BUFFER_BYTES)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, verb: str, body: bytes, method: str = "POST") -> Answer:
        """Raises OSError when no answer comes, or one that is not HTTP."""
        return self._exchange(verb, body, method, [])

    def time(self, verb: str, body: bytes) -> Answer:
        """Like ask() with POST, but the body of the answer is discarded."""
        return self._exchange(verb, body, "POST", None)

    def _exchange(self, verb: str, body: bytes, method: str, kept: list[bytes] | None) -> Answer:
        host, port = self._address
        words = (method.encode(), verb.encode(), host.encode(), port, len(body))
        request = _HEAD % words + body
        connection = self._connected()
        try:
            began = time.perf_counter()
            connection.sendall(request)
            status, size, is_last = self._receive(connection, kept)
            seconds = time.perf_counter() - began
        except BlockingIOError:
            self.close()
            raise TimeoutError(f"no answer within {_TIMEOUT_SECONDS} s") from None
        except OSError:
            self.close()
            raise
        if is_last:
            self.close()
        return Answer(status, size, seconds, b"".join(kept or ()))

    def _connected(self) -> socket.socket:
        if self._socket is None:
            connection = socket.create_connection(self._address, _TIMEOUT_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Timeouts by the kernel: with Python's own there is a poll() before each call.
            connection.settimeout(None)
            limit = struct.pack("ll", _TIMEOUT_SECONDS, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            self._socket = connection
        return self._socket

    def _receive(
        self, connection: socket.socket, kept: list[bytes] | None
    ) -> tuple[int, int, bool]:
        """(status, size of the body, whether the server closes the connection)."""
        buffer = self._buffer
        received, end = 0, -1
        with memoryview(buffer) as view:
            while end < 0:
                received += _some(connection.recv_into(view[received:]))
                end = buffer.find(b"\r\n\r\n", 0, received)
                if end < 0 and received == len(buffer):
                    raise ConnectionError("an answer without an end of its head")
            head, start = bytes(view[: end + 2]), end + 4
            length = _LENGTH.search(head)
            if not head.startswith(b"HTTP/1.1 ") or length is None:
                raise ConnectionError(f"no answer of a known length: {head[:100]!r}")
            size = int(length[1])
            if received - start > size:
                raise ConnectionError("more bytes than the answer has")
            if kept is not None:
                kept.append(bytes(view[start:received]))
            left = size - (received - start)
            while left:
                count = _some(connection.recv_into(view[: min(left, len(buffer))]))
                if kept is not None:
                    kept.append(bytes(view[:count]))
                left -= count
        return int(head[9:12]), size, _LAST.search(head) is not None


def _some(count: int) -> int:
    if not count:
        raise ConnectionError("the server closed the connection")
    return count


def percentile(times: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: the smallest time that so many percent of all don't exceed."""
    ranked = sorted(times)
    rank = -(-len(ranked) * percent // 100)
    return ranked[max(0, int(rank) - 1)]


@dataclass(frozen=True, slots=True)
class Times:
    """The summary of a series of requests; times are in milliseconds."""

    requests: int
    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Times":
        milliseconds = [each * 1000 for each in seconds]
        return cls(
            len(milliseconds),
            percentile(milliseconds, 50),
            percentile(milliseconds, 99),
        )
