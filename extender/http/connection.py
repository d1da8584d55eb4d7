"""One client's connection: bytes → requests → the application → bytes.

httptools (llhttp, the parser of Node.js) reads HTTP; here stand the limits, the deadlines and the
order of answers. Everything runs on the event loop, and nothing waits for a client:

    silent -> receiving -> answering -> (sending) -> idle -> receiving …
                  |            |
                  +------------+--> lingering: refused, or Connection: close

`extender.http.connections` knows all connections, counts what they hold, and ends those whose
deadline has passed.
"""

import asyncio
import enum
import logging
import math
from collections import deque
from collections.abc import Awaitable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import httptools

from extender.http.exchange import Answer, Header, Refusal, Request, error_answer

if TYPE_CHECKING:
    from extender.http.connections import Connections

_LOG: Final = logging.getLogger(__name__)

#: A request's line and headers, as nginx and Go would take them.
MAX_TARGET: Final = 8 * 1024
MAX_FIELD: Final = 8 * 1024
MAX_FIELDS: Final = 100
MAX_HEAD: Final = 64 * 1024

#: Chunks of a chunked body; what stands around them may be that many times its content.
MAX_CHUNKS: Final = 64 * 1024
MAX_CHUNK_OVERHEAD: Final = 16

#: Complete requests that wait for the answers before theirs. Nobody who asks a scheduler extender
#: sends a second request before the first is answered.
MAX_PIPELINED: Final = 64

#: Headers that say where a request ends and how it is written, and Host, which it must have.
_READ_HERE: Final = frozenset(
    {b"host", b"content-length", b"transfer-encoding", b"expect", b"content-encoding"}
)

#: 10^18 bytes; longer numbers are no lengths, and int() is slow on very long ones.
MAX_LENGTH_DIGITS: Final = 18

#: How much of an answer is given to a TLS transport at once.
TLS_WRITE: Final = 256 * 1024

#: A body in more pieces than this is joined on the way: a piece of one byte takes 50.
MAX_PIECES: Final = 1024

#: What is held is counted from here on: a thousand connections may hold as much each.
WORTH_COUNTING: Final = 64 * 1024


class Phase(enum.Enum):
    """What a connection is doing."""

    SILENT = enum.auto()  # nothing has ever arrived
    RECEIVING = enum.auto()
    ANSWERING = enum.auto()  # the application has the request
    SENDING = enum.auto()  # the client is slow to take its answer
    IDLE = enum.auto()  # answered, nothing of the next request has arrived
    LINGERING = enum.auto()  # our side is done; the client reads the answer, then closes


class Connection(asyncio.Protocol):
    """See the module's docstring. Owned by the event loop's thread.

    deadline is the loop's time at which the phase has to be over. Until then the other methods
    are called by the event loop, and on_… by the parser.
    """

    def __init__(self, connections: "Connections", deadline: float) -> None:
        self._all = connections
        self.deadline = deadline
        self.phase = Phase.SILENT
        self.served = False
        #: Bytes that the registry counts for it.
        self.held = 0
        #: Where the registry has it among those that may make room.
        self.waits_in: dict[Connection, None] | None = None
        self._transport: asyncio.Transport | None = None
        self._tls = False
        self._requests: deque[Request | Refusal] = deque()
        self._task: asyncio.Task[None] | None = None
        # Nothing more is read: the client has closed its side, or was refused.
        self._deaf = False
        self._keep_alive = True
        self._parser: Any = httptools.HttpRequestParser(self)
        self._refusal: Refusal | None = None
        self._head_size = 0
        # Bytes of bodies that are complete and not answered, and of answers not taken yet.
        self._queued = self._unread = 0
        self._headers: list[Header] = []
        self._read_here: list[Header] = []
        self._pieces: list[bytes] = []
        self.on_message_begin()
        self._in_message = False

    @property
    def is_waited_for(self) -> bool:
        """Whether it is the client that is slow."""
        return self.phase in (Phase.RECEIVING, Phase.SENDING)

    def expire(self) -> None:
        """The deadline has passed."""
        if self.phase is Phase.RECEIVING:
            self.refuse(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time")
        else:
            self.abort()

    def refuse(self, status: HTTPStatus, message: str) -> None:
        """Turn away what the client is sending."""
        self._deaf = True
        self._pieces = []
        self._requests.append(Refusal(status, message))
        self._go_on()

    def abort(self) -> None:
        """Drop the connection, whatever is unsent."""
        if self._transport is not None:
            self._transport.abort()

    def _enter(self, phase: Phase, seconds: float) -> None:
        self.phase = phase
        self._all.entered(self, seconds)

    # The event loop's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._tls = transport.get_extra_info("ssl_object") is not None
        # pause_writing() then tells when the client does not take all at once. Not 0: with TLS
        # that is reached by nothing at all.
        self._transport.set_write_buffer_limits(high=1, low=0)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._requests.clear()
        self._pieces = []
        if self._task is not None:
            # What waits for a thread need not be done any more.
            self._task.cancel()
        self._all.closed(self)

    def eof_received(self) -> bool:
        self._deaf = True
        is_due = self.phase in (Phase.ANSWERING, Phase.SENDING) or bool(self._requests)
        return is_due and not self._tls

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        before = self.phase
        if before is Phase.IDLE and len(data) <= WORTH_COUNTING:
            known = self._all.heads.read(data)
            if known is not None:
                self._queued += known.size
                self._answer(known)
                return
        if before is Phase.IDLE or before is Phase.SILENT:
            self.phase = Phase.RECEIVING
        try:
            self._feed(data)
        except Refusal as refusal:
            self._deaf = True
            self._pieces = []
            self._requests.append(refusal)
        if self.phase is Phase.LINGERING:
            return  # turned away meanwhile, for holding too much
        if before is not self.phase and len(self._requests) == 1 and not self._in_message:
            self._learn(data, self._requests[0])
        if not self._requests and before is not self.phase:
            # With TLS, handshake and first request have one deadline together.
            left = math.inf if self.served or not self._tls else self.deadline - self._all.now()
            self._enter(Phase.RECEIVING, min(left, self._all.limits.request_seconds))
        elif not self.served and not self._tls and self._received > WORTH_COUNTING:
            self._slow_down(len(data))
        self._go_on()

    def _learn(self, data: bytes, request: Request | Refusal) -> None:
        if isinstance(request, Request):
            self._all.heads.learn(data, request)

    def _slow_down(self, size: int) -> None:
        """Take no more for a moment of a large body, unless the client has been answered before.

        Not over TLS, where a paused connection was seen to stay paused.
        """
        seconds = self._all.delay(size)
        if seconds > 0 and self._transport is not None:
            self._transport.pause_reading()
            self._all.loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        # In other phases it is a handshake, 100 Continue or an error that is on its way.
        if self.phase is Phase.ANSWERING:
            self._enter(Phase.SENDING, self._all.limits.answer_seconds)

    def resume_writing(self) -> None:
        if self.phase is Phase.SENDING:
            self._rest()

    # Reading

    def _feed(self, data: bytes) -> None:
        """Raises Refusal."""
        if self._in_head:
            self._head_size += len(data)
        else:
            self._wire_size += len(data)
        rest = self._parse(data)
        if self._in_head and self._head_size > MAX_HEAD:
            raise _head_too_large()
        if self._wire_size > MAX_HEAD + MAX_CHUNK_OVERHEAD * self._received:
            raise Refusal(HTTPStatus.BAD_REQUEST, "a chunk's size line is too long")
        if len(self._requests) > MAX_PIPELINED:
            text = f"more than {MAX_PIPELINED} requests at once"
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, text)
        if self._received > WORTH_COUNTING:
            self._count()
        if rest:
            self._feed(rest)

    def _count(self) -> None:
        """Have the registry count what this connection holds."""
        self._all.hold(self, self._received + self._queued + self._unread)

    def _parse(self, data: bytes) -> bytes:
        """Give the parser what has arrived; what it leaves stands behind an ignored upgrade."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # To another protocol, which RFC 9110 section 7.8 lets a server ignore.
            self._parser = httptools.HttpRequestParser(self)
            return data[upgrade.args[0] :]
        except httptools.HttpParserCallbackError:
            if self._refusal is None:
                raise
            raise self._refusal from None
        except httptools.HttpParserError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"not HTTP: {error}") from None
        return b""

    def _raise(self, refusal: Refusal) -> NoReturn:
        """From within a callback: the parser wraps what is raised there."""
        self._refusal = refusal
        raise refusal

    def on_message_begin(self) -> None:
        self._in_message = self._in_head = True
        self._target = b""
        self._headers = []
        self._read_here = []
        self._fields_size = 0
        self._pieces = []
        self._received = self._chunks = self._wire_size = self._joined = 0
        self._awaits_continue = False

    def on_url(self, url: bytes) -> None:
        self._target += url
        if len(self._target) > MAX_TARGET:
            text = f"the request's target is over the limit of {MAX_TARGET} bytes"
            self._raise(Refusal(HTTPStatus.REQUEST_URI_TOO_LONG, text))

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self._headers
        if self._in_head:  # else it is a trailer, which nothing here asks for
            headers.append((name, value))
        if self._in_head and (key := name.lower()) in _READ_HERE:
            self._read_here.append((key, value))
        self._fields_size += len(name) + len(value)
        if len(value) > MAX_FIELD or len(headers) > MAX_FIELDS or self._fields_size > MAX_HEAD:
            self._raise(_head_too_large())

    def on_headers_complete(self) -> None:
        self._in_head = False
        try:
            self._awaits_continue = _check_head(
                self._parser.get_http_version(), self._read_here, self._all.limits.max_body_bytes
            )
            if self._parser.should_upgrade():
                _check_upgrade(self._parser.get_method(), self._read_here)
        except Refusal as refusal:
            self._raise(refusal)

    def on_chunk_header(self) -> None:
        self._chunks += 1
        if self._chunks > MAX_CHUNKS:
            self._raise(Refusal(HTTPStatus.BAD_REQUEST, f"more than {MAX_CHUNKS} chunks"))

    def on_body(self, piece: bytes) -> None:
        pieces = self._pieces
        pieces.append(piece)
        self._received += len(piece)
        self._awaits_continue = False
        limit = self._all.limits.max_body_bytes
        if self._received > limit:
            self._raise(_body_too_large(f"more than {limit}", limit))
        if len(pieces) - self._joined > MAX_PIECES:
            # What was not joined before, so that no byte is copied twice.
            pieces[self._joined :] = [b"".join(pieces[self._joined :])]
            self._joined += 1

    def on_message_complete(self) -> None:
        pieces, self._pieces = self._pieces, []
        size = self._received
        parser = self._parser
        keep_alive = parser.should_keep_alive() and parser.get_http_version() == "1.1"
        encodings = [value for name, value in self._read_here if name == b"content-encoding"]
        self._requests.append(
            Request(
                *(parser.get_method(), self._target, self._headers, pieces),
                *(size, keep_alive, b",".join(encodings)),
            )
        )
        self._queued += size
        self._received = self._wire_size = 0
        self._in_message, self._in_head, self._awaits_continue = False, True, False
        self._head_size = 0

    # Answering

    def _go_on(self) -> None:
        """Answer the next request that is complete.

        One a call: the loop looks after other connections before it answers what is pipelined.
        """
        if self.phase is not Phase.RECEIVING or self._transport is None:
            return
        if self._requests:
            asked = self._requests.popleft()
            if isinstance(asked, Refusal):
                self._turn_away(asked)
            else:
                self._answer(asked)
        elif self._awaits_continue:
            self._awaits_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _answer(self, request: Request) -> None:
        self.phase = Phase.ANSWERING
        try:
            answer = self._all.application(request)
        except Exception:
            self._send(request, _failed())
            return
        if isinstance(answer, Answer):
            self._send(request, answer)
        else:
            self._enter(Phase.ANSWERING, math.inf)
            self._task = self._all.loop.create_task(self._wait_for(request, answer))

    async def _wait_for(self, request: Request, awaited: Awaitable[Answer]) -> None:
        try:
            answer = await awaited
        except Exception:
            answer = _failed()
        self._task = None
        if self._transport is not None:
            self._send(request, answer)

    def _send(self, request: Request, answer: Answer) -> None:
        self.served = True
        self._queued -= request.size
        self._keep_alive = request.keep_alive and not self._all.stopping
        size = sum(map(len, answer.chunks))
        head = answer.head(self._all.date, size, keep_alive=self._keep_alive)
        if request.method == b"HEAD":
            self._unread = self._write(head, (), 0)
        else:
            self._unread = self._write(head, answer.chunks, size)
        if self.phase is Phase.ANSWERING:
            self._rest()
        else:  # pause_writing() was called meanwhile
            self._count()

    def _write(self, head: bytes, chunks: Sequence[bytes], size: int) -> int:
        """Send an answer whose chunks have this size together; answers the size."""
        assert self._transport is not None
        # Each chunk costs more than its bytes while they are few; with TLS each is a record.
        if size < WORTH_COUNTING:
            self._transport.write(head + b"".join(chunks))
        elif not self._tls:
            self._transport.writelines((head, *chunks))
        else:
            # In pieces: of one large write a TLS transport does not tell that it can't be sent.
            whole = memoryview(head + b"".join(chunks))
            for start in range(0, len(whole), TLS_WRITE):
                self._transport.write(whole[start : start + TLS_WRITE])
        return size

    def _turn_away(self, refusal: Refusal) -> None:
        assert self._transport is not None
        self._all.application.refused(refusal)
        answer = error_answer(refusal.status, refusal.message)
        self._keep_alive = False
        self._enter(Phase.LINGERING, self._all.limits.linger_seconds)
        self._all.hold(self, 0)
        size = sum(map(len, answer.chunks))
        self._write(answer.head(self._all.date, size, keep_alive=False), answer.chunks, size)
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def _rest(self) -> None:
        """The answer is sent: go on with what was received meanwhile, or wait."""
        self._unread = 0
        if self.held or self._queued or self._received:
            self._count()
        if not self._keep_alive or (self._deaf and not self._requests):
            self._linger()
        elif self._requests:
            self._enter(Phase.RECEIVING, self._all.limits.request_seconds)
            self._all.loop.call_soon(self._go_on)
        elif self._in_message:
            self._enter(Phase.RECEIVING, self._all.limits.request_seconds)
            self._go_on()
        else:
            self._enter(Phase.IDLE, self._all.limits.keep_alive_seconds)

    def _linger(self) -> None:
        """Close our side and wait for the client's.

        close() alone would reset the connection if something is still unread, and the client could
        lose the answer (RFC 9112 section 9.6). TLS can't be closed by halves.
        """
        assert self._transport is not None
        self._requests.clear()
        if self._deaf or not self._transport.can_write_eof():
            self._enter(Phase.LINGERING, self._all.limits.linger_seconds)
            self._transport.close()
            return
        self._deaf = True
        self._enter(Phase.LINGERING, self._all.limits.linger_seconds)
        self._transport.write_eof()


def _check_head(version: str, headers: Sequence[Header], limit: int) -> bool:
    """What the parser leaves open; answers whether the client waits for 100 Continue.

    headers are those of _READ_HERE, their names in lower case. Raises Refusal.
    """
    found: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        found.setdefault(name, []).append(value.strip().lower())
    if version not in ("1.1", "1.0"):
        text = "only HTTP/1.1 and HTTP/1.0 are supported"
        raise Refusal(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, text)
    hosts = len(found.get(b"host", ()))
    if hosts > 1 or (not hosts and version == "1.1"):
        raise Refusal(HTTPStatus.BAD_REQUEST, "exactly one Host header is needed")
    codings = found.get(b"transfer-encoding")
    if codings:
        _check_codings(version, codings)
    digits = found.get(b"content-length", (b"0",))[0].lstrip(b"0") or b"0"
    if len(digits) > MAX_LENGTH_DIGITS:
        raise Refusal(HTTPStatus.BAD_REQUEST, "Content-Length is no length")
    length = int(digits)
    if length > limit:
        raise _body_too_large(str(length), limit)
    expected = found.get(b"expect")
    if expected and expected != [b"100-continue"]:
        raise Refusal(HTTPStatus.EXPECTATION_FAILED, "the only expectation met is 100-continue")
    return expected is not None and version == "1.1"


def _check_upgrade(method: bytes, headers: Sequence[Header]) -> None:
    """The parser takes what follows such a head for another protocol, be there a body or not."""
    has_body = any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b" \t0"))
        for name, value in headers
    )
    if has_body or method == b"CONNECT":
        raise Refusal(HTTPStatus.NOT_IMPLEMENTED, "Upgrade and CONNECT are not supported")


def _check_codings(version: str, codings: Sequence[bytes]) -> None:
    if version == "1.0" or not codings[-1].endswith(b"chunked"):
        # Where such a body ends is a guess (RFC 9112 section 6.3).
        raise Refusal(HTTPStatus.BAD_REQUEST, "the length of the request is ambiguous")
    if codings != [b"chunked"]:
        raise Refusal(HTTPStatus.NOT_IMPLEMENTED, "the only transfer coding supported is chunked")


def _failed() -> Answer:
    """Called where an exception is being handled: ours, since the application refuses by values."""
    _LOG.exception("a request failed")
    return error_answer(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error, see the log")


def _head_too_large() -> Refusal:
    text = (
        f"the request's head is over the limit of {MAX_HEAD} bytes,"
        f" {MAX_FIELDS} fields or {MAX_FIELD} bytes a field"
    )
    return Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text)


def _body_too_large(size: str, limit: int) -> Refusal:
    text = f"request body of {size} bytes is over the limit of {limit} bytes (--max-body-bytes)"
    return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
