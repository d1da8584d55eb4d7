"""uvicorn's connections and server, with deadlines, limits and TLS that uvicorn can't configure.

Tested against uvicorn.protocols.http.httptools_impl of the installed version: Connection relies on
its `cycle`, its `pipeline` and the callbacks of its parser.
"""

import asyncio
import contextlib
import logging
import math
import socket
import ssl
import time
import weakref
from collections.abc import Callable, Generator
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Final, NamedTuple, Self

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from extender.cluster.input_files import FileError, read_file, signature_of
from extender.cluster.rate_limit import LogLimit
from extender.model.errors import UsageError

_LOG: Final = logging.getLogger(__name__)

#: The seconds in which a request must arrive, from its first byte to its last, and in which a
#: client must read an answer.
REQUEST_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 10.0

#: The most bytes of a request besides its content: its head, chunk sizes, trailers. The most header
#: fields: each takes 150 bytes besides its text. The most pipelined requests that wait.
MAX_FRAMING: Final = 64 * 1024
MAX_FIELDS: Final = 100
MAX_PIPELINED: Final = 16

#: How long a stopping server still accepts connections and requests, so that those already on
#: their way are answered.
DRAIN_SECONDS: Final = 0.3


class Connection(HttpToolsProtocol):
    """One client's connection, aborted at its deadline. The event loop's thread owns it."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._framing = 0
        self._arriving = False
        self._answering: RequestResponseCycle | None = None
        self.deadline = math.inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._allow(REQUEST_SECONDS)
        if len(self.connections) >= (self.limit_concurrency or math.inf):
            # Evicts a silent connection, or the longest idle one.
            evicted = min(self.connections - {self}, key=attrgetter("deadline"))
            self.connections.discard(evicted)
            evicted.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        # uvicorn marks only the newest request as disconnected.
        if self._answering is not None:
            self._answering.disconnected = True
        super().connection_lost(exc)
        # Unread answers and pipelined bodies of a crowd are hundreds of megabytes.
        self.cycle = self._answering = None  # type: ignore[assignment]
        self.pipeline.clear()

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
        super()._start_asgi_task(cycle, app)

    def _unsupported_upgrade_warning(self) -> None:
        # The parser takes all bytes after the head, even a body, for the other protocol.
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
        """Set the deadline for the client's next step."""
        if self.flow.write_paused or self.transport.is_closing():
            # A client that reads piece by piece has no more time.
            self.deadline = min(self.deadline, self.loop.time() + ANSWER_SECONDS)
        elif not self._arriving:
            self._allow(self.timeout_keep_alive if self.cycle.response_complete else math.inf)

    def _allow(self, seconds: float) -> None:
        self.deadline = self.loop.time() + seconds


class Server(uvicorn.Server):
    """uvicorn's server. Connection keeps below limit_concurrency; the caller handles signals."""

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
            _Peer.most = (self.config.limit_concurrency or 2) // 2
            limits |= {"ssl_handshake_timeout": REQUEST_SECONDS, "ssl_shutdown_timeout": 1.0}
        self.servers = [
            await loop.create_server(make, sock=each, ssl=self._tls, **limits)
            for each in sockets or ()
        ]
        self.started = True
        self._tick(loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        """Runs by its own timer: uvicorn's ticks come late while many requests are ready."""
        loop.call_later(1, self._tick, loop)
        self._each_second()
        connections: tuple[Any, ...] = (*self.server_state.connections,)
        for each in connections:
            if loop.time() >= each.deadline:
                each.transport.abort()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.sleep(DRAIN_SECONDS)
        await super().shutdown(sockets)


class TlsFiles(NamedTuple):
    """PEM files: a certificate, its key, the CAs of clients. Without CAs any client may connect."""

    tls_cert_file: str
    tls_private_key_file: str
    client_ca_file: str | None

    def load(self) -> ssl.SSLContext:
        """Raises UsageError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # A resumed session would bypass a rotated CA.
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
        """Raises UsageError, so that OpenSSL does not ask on the terminal."""
        key = self.tls_private_key_file
        fix = f"decrypt it with openssl pkey -in {key}"
        raise UsageError(f"--tls-private-key-file {key}: is encrypted; {fix}")

    def signatures(self) -> object:
        """A value that changes when a file is replaced, rewritten or deleted."""
        try:
            return [signature_of(path) for path in self if path]
        except OSError:
            return None

    def rotating(self) -> ssl.SSLContext:
        """A context that uses the newest files in each handshake. Raises UsageError.

        Loading new files into the same context would leave a removed CA trusted.
        """
        seen, newest = self.signatures(), self.load()

        def choose(peer: ssl.SSLObject, _name: str | None, _: ssl.SSLContext) -> None:
            nonlocal seen, newest
            signatures = self.signatures()
            if signatures != seen:
                # If the files change while they are read, the next handshake reads them again.
                seen = signatures
                try:
                    newest = self.load()
                    _LOG.info("loaded the changed TLS certificate of %s", self.tls_cert_file)
                except UsageError as error:
                    _LOG.warning("keeping the previous TLS certificate: %s", error)
            peer.context = newest

        context = self.load()
        # Called in each handshake, with or without a server name.
        context.sni_callback = choose
        context.sslobject_class = _Peer
        return context


class _Peer(ssl.SSLObject):
    """The server's side of a TLS connection. Logs failed handshakes, at most once a minute."""

    log: ClassVar = LogLimit(_LOG, time.monotonic)
    #: The handshakes at a time. Otherwise silent clients would take the files that probes need.
    most: ClassVar = 0
    handshakes: ClassVar = weakref.WeakSet["_Peer"]()

    @classmethod
    def _create(cls, *args: Any, **parts: Any) -> Self:
        if len(cls.handshakes) >= cls.most:
            raise ssl.SSLError("too many handshakes at once")
        peer: Self = super()._create(*args, **parts)  # type: ignore[misc]  # asyncio's own way
        cls.handshakes.add(peer)
        return peer

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
            self.handshakes.discard(self)
        except ssl.SSLError as error:
            if not isinstance(error, (ssl.SSLWantReadError, ssl.SSLWantWriteError)):
                self.log.say(logging.INFO, "handshake", f"a TLS handshake failed: {error}")
            raise
