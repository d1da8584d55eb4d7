"""uvicorn's connections and server, with the deadlines, limits and TLS it has no setting for.

Tested against uvicorn.protocols.http.httptools_impl of the installed version: `cycle`, `pipeline`
and the callbacks of its parser are what Connection relies on.
"""

import asyncio
import contextlib
import logging
import math
import socket
import ssl
import time
from collections.abc import Callable, Generator
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Final, NamedTuple

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from extender.cluster.input_files import FileError, read_file, signature_of
from extender.cluster.rate_limit import LogLimit
from extender.model.errors import UsageError

_LOG: Final = logging.getLogger(__name__)

#: The time in which a request must arrive, from its first byte to its last, and the time in which
#: a client must read an answer; seconds.
REQUEST_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 10.0

#: Bytes of a request that are no content: its head, chunk sizes, trailers. Fields of a head: each
#: takes 150 bytes beside its text. Requests that come before the first is answered.
MAX_FRAMING: Final = 64 * 1024
MAX_FIELDS: Final = 100
MAX_PIPELINED: Final = 16

#: How long a stopping server still accepts connections and requests: those that were sent already
#: are answered.
DRAIN_SECONDS: Final = 0.3


class _OneWrite:
    """The transport of one answer: uvicorn's head waits for the first piece of the body.

    In two packets the answer would wake kube-scheduler twice.
    """

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle, self._transport = cycle, cycle.transport
        self._head: bytes | None = None
        self.is_closing = self._transport.is_closing

    def write(self, data: bytes | memoryview) -> None:
        cycle = self._cycle
        # A 100 Continue, which comes before the answer, does not wait; no body follows a HEAD.
        if self._head is None and cycle.response_started and cycle.scope["method"] != "HEAD":
            self._head = bytes(data)
        else:
            self._transport.write(self._head + data if self._head else data)
            self._head = b"" if self._head else self._head

    def close(self) -> None:
        if self._head:
            self.write(b"")
        self._transport.close()


class Connection(HttpToolsProtocol):
    """One client's connection, ended at its deadline; owned by the event loop's thread."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._framing = 0
        self._arriving = False
        self._answering: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._allow(REQUEST_SECONDS)
        if len(self.connections) >= (self.limit_concurrency or math.inf):
            # A silent connection, or the longest idle one: kube-scheduler's is in use.
            evicted = min(self.connections - {self}, key=attrgetter("deadline"))
            self.connections.discard(evicted)
            evicted.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        # uvicorn tells the newest request only.
        if self._answering is not None:
            self._answering.disconnected = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._framing += len(data)
        super().data_received(data)
        too_much = self._framing > MAX_FRAMING or len(self.headers or ()) > MAX_FIELDS
        if too_much and self._arriving and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many requests at once")
        super().on_message_begin()
        self._arriving = True
        self._allow(REQUEST_SECONDS)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        cycle.transport = _OneWrite(cycle)  # type: ignore[assignment]  # all that uvicorn asks
        super()._start_asgi_task(cycle, app)

    def _unsupported_upgrade_warning(self) -> None:
        # The parser takes what follows the head, even a body, for the other protocol.
        self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._framing -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._arriving = False
        self._framing = 0
        self._go_on()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._go_on()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._go_on()

    def _go_on(self) -> None:
        """Set the deadline for the next thing that the client has to do."""
        if self.flow.write_paused or self.transport.is_closing():
            self._allow(ANSWER_SECONDS)
        elif not self._arriving:
            self._allow(self.timeout_keep_alive if self.cycle.response_complete else math.inf)

    def _allow(self, seconds: float) -> None:
        self.deadline = self.loop.time() + seconds


class Server(uvicorn.Server):
    """uvicorn with fewer Connections than its limit_concurrency; whoever runs it gets signals."""

    def __init__(
        self, config: uvicorn.Config, tls: ssl.SSLContext | None, each_second: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._tls, self._each_second = tls, each_second

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, with a deadline for the TLS handshake."""
        loop, state = asyncio.get_running_loop(), self.server_state
        make = partial(Connection, config=self.config, server_state=state, app_state={})
        limits: dict[str, Any] = {"backlog": self.config.backlog}
        if self._tls:
            limits |= {"ssl_handshake_timeout": REQUEST_SECONDS, "ssl_shutdown_timeout": 1.0}
        self.servers = [
            await loop.create_server(make, sock=each, ssl=self._tls, **limits)
            for each in sockets or ()
        ]
        self.started = True
        self._tick(loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """By a timer of its own: uvicorn's ticks come late where many requests are ready."""
        self._each_second()
        connections: tuple[Any, ...] = (*self.server_state.connections,)
        for each in connections:
            if loop.time() >= each.deadline:
                each.transport.abort()
        loop.call_later(1, self._tick, loop)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.sleep(DRAIN_SECONDS)
        await super().shutdown(sockets)


class TlsFiles(NamedTuple):
    """PEM files: a certificate, its key, and the CAs of clients; without these any may connect."""

    tls_cert_file: str
    tls_private_key_file: str
    client_ca_file: str | None

    def load(self) -> ssl.SSLContext:
        """Raises UsageError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # A session that is resumed would bypass a rotated CA.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        flags = [f"--{name.replace('_', '-')} {path}" for name, path in self._asdict().items()]
        try:
            for flag, path in zip(flags, self, strict=True):
                where = flag
                read_file(path or self.tls_cert_file)
            where = ", ".join(flags[:2])
            context.load_cert_chain(*self[:2], password=self._password)
            where = flags[2]
            if self.client_ca_file:
                context.load_verify_locations(self.client_ca_file)
                context.verify_mode = ssl.CERT_REQUIRED
        except (FileError, OSError) as error:
            cause = getattr(error, "strerror", None) or error
            raise UsageError(f"{where}: {cause}") from None
        return context

    def _password(self) -> str:
        """Raises UsageError, where OpenSSL would ask on the terminal."""
        key = self.tls_private_key_file
        fix = f"decrypt it with openssl pkey -in {key}"
        raise UsageError(f"--tls-private-key-file {key}: is encrypted; {fix}")

    def signatures(self) -> object:
        """A value that differs once a file is replaced, rewritten or gone."""
        try:
            return [signature_of(path) for path in self if path]
        except OSError:
            return None

    def rotating(self) -> ssl.SSLContext:
        """A context that goes on with the newest files in each handshake. Raises UsageError.

        Loading them into the context itself would leave a CA trusted that was taken out.
        """
        seen, newest = self.signatures(), self.load()

        def choose(peer: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
            nonlocal seen, newest
            signatures = self.signatures()
            if signatures != seen:
                # A change while the files are being read is another change at the next handshake.
                seen = signatures
                try:
                    newest = self.load()
                    _LOG.info("loaded the changed TLS certificate of %s", self.tls_cert_file)
                except UsageError as error:
                    _LOG.warning("keeping the previous TLS certificate: %s", error)
            peer.context = newest

        context = self.load()
        # Called once a handshake has begun, with or without a name of the server.
        context.sni_callback = choose
        context.sslobject_class = _Peer
        return context


class _Peer(ssl.SSLObject):
    """The server's side of a connection; logs failed handshakes, which may come by the thousand."""

    log: ClassVar = LogLimit(_LOG, time.monotonic)

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except ssl.SSLError as error:
            if not isinstance(error, (ssl.SSLWantReadError, ssl.SSLWantWriteError)):
                self.log.say(logging.INFO, "handshake", f"a TLS handshake failed: {error}")
            raise
