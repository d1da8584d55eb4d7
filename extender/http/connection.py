"""A client's connection: its socket, how far its request or answer has come, and its phase."""

import contextlib
import enum
import math
import select
import socket
import ssl
import time
from typing import Any, BinaryIO, NamedTuple

from extender.http.gathering import GatheredRequest, Gathering

# OpenSSL hands out one record a call; asking for all of it leaves nothing inside OpenSSL that
# the poller would not report.
TLS_RECORD_SIZE = 16 * 1024
# sendmsg() takes 1024 buffers (IOV_MAX).
SEND_BUFFERS_LIMIT = 512
# A TLS send encrypts until the socket is full: about a millisecond of the main thread.
TLS_SEND_SIZE = 1024 * 1024


class Phase(enum.Enum):
    """What a connection is doing."""

    HANDSHAKE = enum.auto()
    IDLE = enum.auto()  # nothing of the next request has arrived
    GATHERING = enum.auto()
    ANSWERING = enum.auto()  # a pool thread owns the connection
    SENDING = enum.auto()  # the client is slow to take its answer
    LINGERING = enum.auto()  # our side is closed; the client reads the answer, then closes
    CLOSED = enum.auto()


class AnswerBuffer:
    """Stands in for the socket that gunicorn's Response writes to, and keeps what is written.

    Head and body then leave in one system call, and no write waits for the client.
    """

    def __init__(self) -> None:
        self.pieces: list[bytes | memoryview] = []

    def sendall(self, data: bytes) -> None:
        self.pieces.append(data)

    def send(self, data: bytes) -> int:
        self.pieces.append(data)
        return len(data)

    def sendfile(self, file: BinaryIO, offset: int = 0, count: int | None = None) -> int:
        file.seek(offset)
        return self.send(file.read(-1 if count is None else count))

    def shutdown(self, _how: int) -> None:
        """gunicorn gives the answer up: the application failed after it had begun one."""
        raise OSError("an answer that was not sent needs no closing handshake")

    def close(self) -> None:
        self.pieces.clear()


class Exchange(NamedTuple):
    """What gunicorn's handle_request() reads of its connection."""

    sock: AnswerBuffer
    client: Any
    server: Any


class Connection:
    """A client's socket, and how far its request or answer has come."""

    def __init__(self, sock: socket.socket, client: Any, server: Any, gathering: Gathering) -> None:
        self.sock = sock
        self.client = client
        self.server = server
        self.tls = isinstance(sock, ssl.SSLSocket)
        self.phase = Phase.HANDSHAKE if self.tls else Phase.IDLE
        self.deadline = math.inf
        self.served = False  # whether a request was answered already
        self.events = 0  # what the poller watches it for
        self.gathering = gathering
        self.request: GatheredRequest | None = None
        self.parsed: Any = None  # gunicorn's request, while it is answered
        self.rest = b""  # received after the end of the request being answered
        self.unsent: list[bytes | memoryview] = []
        self.keep_alive = False
        self.answer_deadline = math.inf

    def receive(self, size: int) -> bytes | None:
        """At most `size` bytes (at least a record of TLS); b"" at the end, None if none yet."""
        try:
            return self.sock.recv(max(size, TLS_RECORD_SIZE) if self.tls else size)
        except (BlockingIOError, ssl.SSLWantReadError):
            return None

    def send_once(self) -> bool:
        """Send what the socket takes at once; whether nothing is left. Raises OSError."""
        try:
            if self.tls:
                sent = self.sock.send(self._tls_slice())
            elif len(self.unsent) == 1:
                sent = self.sock.send(self.unsent[0])
            else:
                self._join_many()
                sent = self.sock.sendmsg(self.unsent)
        except (BlockingIOError, ssl.SSLWantWriteError):
            return False
        while self.unsent and sent >= len(self.unsent[0]):
            sent -= len(self.unsent.pop(0))
        if self.unsent and sent:
            self.unsent[0] = memoryview(self.unsent[0])[sent:]
        return not self.unsent

    def send_patiently(self, patience: float) -> None:
        """Send until nothing is left or the client has not taken it in `patience` seconds."""
        if not self.unsent or self.send_once():
            return
        deadline = time.monotonic() + patience
        writable = select.poll()
        writable.register(self.sock, select.POLLOUT)
        while (left := deadline - time.monotonic()) > 0 and writable.poll(left * 1000):
            if self.send_once():
                return

    def half_close(self) -> None:
        """Tell the client that nothing more is sent. Raises OSError."""
        if isinstance(self.sock, ssl.SSLSocket):
            # Not answered yet, or there was no handshake.
            with contextlib.suppress(OSError, ValueError):
                self.sock.unwrap()
        self.sock.shutdown(socket.SHUT_WR)

    def _tls_slice(self) -> bytes | memoryview:
        """The next bytes to encrypt: the same ones again when OpenSSL could not send them."""
        if len(self.unsent) > 1:
            self.unsent = [b"".join(self.unsent)]
        if len(self.unsent[0]) <= TLS_SEND_SIZE:
            return self.unsent[0]
        return memoryview(self.unsent[0])[:TLS_SEND_SIZE]

    def _join_many(self) -> None:
        if len(self.unsent) > SEND_BUFFERS_LIMIT:
            self.unsent = [b"".join(self.unsent)]
