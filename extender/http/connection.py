"""One client's connection: bytes → requests → the application → bytes.

`extender.http.request_reader` makes requests of the bytes; here are the deadlines and the order of
answers. Everything runs on the event loop, and nothing waits for a client:

    silent -> receiving -> answering -> (sending) -> idle -> receiving …
                  |            |
                  +------------+--> lingering: refused, or Connection: close

`extender.http.all_connections` knows all connections, counts what they hold, and ends those whose
deadline has passed.
"""

import asyncio
import enum
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

from extender.http.error_answers import answer_of
from extender.http.exchange import Answer, Refusal, Request, error_answer
from extender.http.request_reader import RequestReader

if TYPE_CHECKING:
    from extender.http.all_connections import Connections

#: How much of an answer is given to a TLS transport at once.
TLS_WRITE: Final = 256 * 1024

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


class Connection(asyncio.BufferedProtocol):
    """See the module's docstring. Owned by the event loop's thread.

    deadline is the loop's time at which the phase has to be over. Until then the other methods
    are called by the event loop.
    """

    def __init__(self, connections: "Connections", deadline: float) -> None:
        self._all = connections
        self.deadline = deadline
        self.phase = Phase.SILENT
        self.served = False
        #: Bytes that the registry counts for this connection.
        self.held = 0
        #: The group of this connection among those that may be dropped.
        self.waits_in: dict[Connection, None] | None = None
        self._transport: asyncio.Transport | None = None
        self._tls = False
        self._requests: deque[Request | Refusal] = deque()
        self._task: asyncio.Task[None] | None = None
        # What the task is to answer.
        self._asked: Request | None = None
        # Nothing more is read: the client has closed its side, or was refused.
        self._deaf = False
        self._keep_alive = True
        self._afterwards: Callable[[], None] | None = None
        # More than one request has arrived, and the first is not answered yet.
        self._is_paused = False
        self._reader = RequestReader(
            self._requests, connections.limits.max_body_bytes, connections.body_memory
        )
        # Where the beginning of its next request goes.
        self._first_read = connections.shared
        # Bytes of answers that the client has not taken yet.
        self._unread = 0

    @property
    def is_ahead_of_us(self) -> bool:
        """Whether a request is complete while an earlier one is being answered."""
        return bool(self._requests) and self.phase in (Phase.ANSWERING, Phase.SENDING)

    @property
    def is_waited_for(self) -> bool:
        """Whether the client is the slow side."""
        return self.phase in (Phase.RECEIVING, Phase.SENDING)

    def expire(self) -> None:
        """The deadline has passed."""
        if self.phase is Phase.RECEIVING:
            self.refuse(HTTPStatus.REQUEST_TIMEOUT, "the request did not arrive in time")
        else:
            self.abort()

    def refuse(self, status: HTTPStatus, message: str) -> None:
        """Refuse the request that the client is sending."""
        self._refuse_rest(Refusal(status, message))
        self._go_on()

    def give_way(self) -> None:
        """Too much is held at once: refuse what is being sent, or waits for its answer."""
        if self._task is not None:
            self._drop_work()
            self._requests.clear()
            self.phase = Phase.RECEIVING
        if self.phase is Phase.RECEIVING:
            text = "too many bytes of requests are arriving at once; try again"
            self.refuse(HTTPStatus.SERVICE_UNAVAILABLE, text)
        else:
            self.abort()

    def _drop_work(self) -> None:
        """Work that still waits for a thread is cancelled.

        It stays in the queue of the thread, which may be long, but without the body.
        """
        if self._task is not None:
            # A task that has not begun yet would leave behind what it was to wait for.
            self._all.loop.call_soon(self._task.cancel)
        if self._asked is not None:
            self._asked.pieces = []
        self._task = self._asked = None

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
        # pause_writing() is then called when the client does not take everything at once. Not 0:
        # with TLS even an empty buffer reaches that.
        self._transport.set_write_buffer_limits(high=1, low=0)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._requests.clear()
        self._reader.drop()
        self._drop_work()
        self._all.closed(self)

    def eof_received(self) -> bool:
        self._deaf = True
        is_due = self.phase in (Phase.ANSWERING, Phase.SENDING) or bool(self._requests)
        return is_due and not self._tls

    def get_buffer(self, sizehint: int) -> memoryview:
        reader = self._reader
        return reader.place if reader.is_filling else self._first_read

    def buffer_updated(self, nbytes: int) -> None:
        if self._deaf:
            self._slow_down(nbytes)
            return
        before = self.phase
        if before is Phase.IDLE:
            known = self._all.heads.read(self._all.scratch, nbytes)
            if known is not None and self._begin(*known):
                self._count_if_much()
                return
        if before is Phase.IDLE or before is Phase.SILENT:
            self.phase = Phase.RECEIVING
        try:
            self._take(nbytes, is_first=before is not self.phase)
        except Refusal as refusal:
            self._refuse_rest(refusal)
        if self.phase is Phase.LINGERING:
            return  # refused meanwhile, for holding too much
        if not self._requests and before is not self.phase:
            # With TLS, handshake and first request have one deadline together.
            left = math.inf if self.served or not self._tls else self.deadline - self._all.now()
            self._enter(Phase.RECEIVING, min(left, self._all.limits.request_seconds))
        elif self._reader.received > WORTH_COUNTING:
            self._slow_down(nbytes)
        self._go_on()
        self._count_if_much()  # what is complete, and was not answered at once
        self._pause_if_due(before)

    def _begin(self, request: Request, content: memoryview) -> bool:
        """Answer a request whose head is known, or receive the rest of its content.

        False if there is no room for that: it is left to the parser.
        """
        if len(content) == request.size:
            request.pieces.append(bytes(content))
            self._reader.queued += request.size
            self._answer(request)
            return True
        try:
            if not self._reader.receive(request, content):
                return False
        except Refusal as refusal:
            self._refuse_rest(refusal)
        is_large = request.size > len(self._all.shared)
        self._first_read = self._all.little if is_large else self._all.shared
        self._enter(Phase.RECEIVING, self._all.limits.request_seconds)
        self._go_on()
        return True

    def _take(self, size: int, *, is_first: bool) -> None:
        """Give the reader what has arrived, is_first: of a request. Raises Refusal."""
        reader = self._reader
        if reader.is_filling:
            reader.written(size)
        else:
            data = bytes(memoryview(self._all.scratch)[:size])
            reader.feed(data)
            if is_first:
                self._learn(data)
        if reader.received > WORTH_COUNTING:
            self._count()

    def _refuse_rest(self, refusal: Refusal) -> None:
        """Read no more; the refusal is answered in its turn."""
        self._deaf = True
        self._reader.drop()
        self._requests.append(refusal)

    def _pause_if_due(self, before: Phase) -> None:
        """Read no more where an answer was due already: only a client that pipelines notices.

        Not over TLS, as in _slow_down.
        """
        is_due = before is Phase.ANSWERING or before is Phase.SENDING
        may_pause = not (self._tls or self._deaf or self._is_paused)
        if is_due and may_pause and self._transport is not None:
            self._transport.pause_reading()
            self._is_paused = True

    def _count_if_much(self) -> None:
        if self._reader.received + self._reader.queued > WORTH_COUNTING:
            self._count()

    def _count(self) -> None:
        """Have the registry count the bytes of this connection."""
        self._all.hold(self, self._reader.received + self._reader.queued + self._unread)

    def _learn(self, data: bytes) -> None:
        """Remember the head of the only request that data has, or has the beginning of.

        The rest of its content is received without the parser. Raises Refusal.
        """
        waiting = len(self._requests)
        request: Request | Refusal | None = None
        if not self._reader.in_message:
            request = self._requests[0] if waiting == 1 else None
        elif not waiting:
            request = self._reader.leave_parser()
        if isinstance(request, Request):
            arrived = self._reader.received if self._reader.is_filling else request.size
            self._all.heads.learn(data, request, arrived)

    def _slow_down(self, size: int) -> None:
        """Pause a client that sends much for a moment, unless it was answered before and few do.

        Not over TLS, where a paused connection has been seen to stay paused.
        """
        if self._tls or (self.served and not self._all.is_crowded):
            return
        seconds = self._all.delay(size)
        if seconds > 0 and self._transport is not None:
            self._transport.pause_reading()
            self._all.loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        if self._transport is not None and not self._is_paused:
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        # In other phases it is a handshake, 100 Continue or an error that is on its way.
        if self.phase is Phase.ANSWERING:
            self._enter(Phase.SENDING, self._all.limits.answer_seconds)

    def resume_writing(self) -> None:
        if self.phase is Phase.SENDING:
            self._rest()

    # Answering

    def _go_on(self) -> None:
        """Answer the next request that is complete.

        One per call: the loop serves other connections before it answers pipelined requests.
        """
        if self.phase is not Phase.RECEIVING or self._transport is None:
            return
        if self._requests:
            asked = self._requests.popleft()
            if isinstance(asked, Refusal):
                self._turn_away(asked)
            else:
                self._answer(asked)
        elif self._reader.awaits_continue:
            self._reader.awaits_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _answer(self, request: Request) -> None:
        self.phase = Phase.ANSWERING
        try:
            answer = self._all.application(request)
        except Exception as error:
            self._send(request, answer_of(error))
            return
        if isinstance(answer, Answer):
            self._send(request, answer)
        else:
            self._enter(Phase.ANSWERING, math.inf)
            self._asked = request
            self._task = self._all.loop.create_task(self._wait_for(request, answer))

    async def _wait_for(self, request: Request, awaited: Awaitable[Answer]) -> None:
        try:
            answer = await awaited
        except Exception as error:
            answer = answer_of(error)
        self._task = self._asked = None
        if self._transport is not None and not self._transport.is_closing():
            self._send(request, answer)

    def _send(self, request: Request, answer: Answer) -> None:
        self.served = True
        self._reader.queued -= request.size
        self._keep_alive = request.keep_alive and not self._all.stopping
        size = sum(map(len, answer.chunks))
        head = answer.head(self._all.date, size, keep_alive=self._keep_alive)
        if request.method == b"HEAD":
            self._unread = self._write(head, (), 0)
        else:
            self._unread = self._write(head, answer.chunks, size)
        self._afterwards = answer.sent() if answer.sent is not None else None
        if self.phase is Phase.ANSWERING:
            self._rest()
        else:  # pause_writing() was called meanwhile
            self._count()

    def _write(self, head: bytes, chunks: Sequence[bytes | memoryview], size: int) -> int:
        """Send an answer; size is that of its chunks together, which is returned."""
        assert self._transport is not None
        # A small chunk costs more than copying its bytes; with TLS each chunk is a record.
        if size < WORTH_COUNTING:
            self._transport.write(head + b"".join(chunks))
        elif not self._tls:
            self._transport.writelines((head, *chunks))
        else:
            # In pieces: after one large write a TLS transport does not report that it can't be
            # sent.
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
        if self._is_paused:
            self._is_paused = False
            self._resume()
        if self._afterwards is not None:
            self._all.loop.call_soon(self._afterwards)
            self._afterwards = None
        if self.held or self._reader.queued or self._reader.received:
            self._count()
        if not self._keep_alive or (self._deaf and not self._requests):
            self._linger()
        elif self._requests:
            self._enter(Phase.RECEIVING, self._all.limits.request_seconds)
            self._all.loop.call_soon(self._go_on)
        elif self._reader.in_message:
            self._enter(Phase.RECEIVING, self._all.limits.request_seconds)
            self._go_on()
        else:
            self._enter(Phase.IDLE, self._all.limits.keep_alive_seconds)

    def _linger(self) -> None:
        """Close our side and wait for the client's.

        close() alone would reset the connection if something is still unread, and the client could
        lose the answer (RFC 9112 section 9.6). One side of TLS can't be closed alone.
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
