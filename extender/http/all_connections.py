"""All connections of one listener: accepting them, their total size, deadlines, stopping."""

import asyncio
import contextlib
import logging
import math
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final

from extender.http.body_memory import BodyMemory
from extender.http.connection import WORTH_COUNTING, Connection, Phase
from extender.http.exchange import Application
from extender.http.known_heads import KnownHeads

_LOG: Final = logging.getLogger(__name__)

#: How many connections are accepted, and how many are ended, in one turn of the loop: each takes
#: some 20 to 40 µs, and a thousand may come at once.
ACCEPTS_A_TURN: Final = 8
ENDS_A_TURN: Final = 8

#: The first read of a request, as much as uvloop reads at once: a pod and 5,000 names. What comes
#: behind it is read into its place. A client whose last body was larger still is read from so
#: little at first that hardly anything is copied.
SCRATCH_BYTES: Final = 256 * 1024
LITTLE_BYTES: Final = 16 * 1024

#: How often deadlines are checked, and the most that one is overdue; seconds.
SWEEP_SECONDS: Final = 0.25

#: The shortest time between two log lines about what may happen many times a second; seconds.
SAME_LINE_SECONDS: Final = 60.0

#: How much clients that were never answered may send in large bodies, together; bytes a second. The
#: event loop takes 2 GB a second, so junk sent at full speed would leave it no time for anything
#: else. Where more than a few send some, or the rest of what was refused, it goes for all of them.
UNPROVEN_BYTES_A_SECOND: Final = 256 * 2**20
FEW_SENDERS: Final = 4

#: Slow clients that hold this share of all that may be held are to blame when it is too much.
SLOW_SHARE: Final = 4

#: Once this many bytes were held, freed memory is returned to the kernel afterwards.
WORTH_GIVING_BACK: Final = 32 * 2**20

#: The shortest time between two returns of memory, during which nobody else gets any: 20 ms.
GIVE_BACK_SECONDS: Final = 10.0

#: The longest that kube-scheduler takes to send a request; seconds.
PROMPT_SECONDS: Final = 1.0

#: Seconds that a phase may last once the server is stopping. Idle connections stay open for a
#: request that the client may be sending already, since keep-alive was promised.
_STOP_SECONDS: Final = {
    Phase.SILENT: 1.0,
    Phase.IDLE: 1.0,
    Phase.RECEIVING: 3.0,
    Phase.LINGERING: 0.5,
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes, seconds and numbers.

    max_held_bytes is for all requests that are not answered and all answers that are not taken yet;
    beyond it the slowest client is refused, or the newest if those who are slow hold little.
    keep_alive_seconds is longer than the 90 s after which Go's client closes an idle connection, so
    that the server never closes a connection just as kube-scheduler sends on it.
    """

    max_body_bytes: int
    max_held_bytes: int
    connections: int = 1000
    request_seconds: float = 10.0
    answer_seconds: float = 10.0
    keep_alive_seconds: float = 120.0
    linger_seconds: float = 2.0
    graceful_seconds: float = 10.0


class Connections:
    """See the module's docstring. Owned by the thread of its event loop."""

    def __init__(
        self, application: Application, limits: Limits, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.application = application
        self.limits = limits
        self.loop = loop
        self.now = loop.time
        self.stopping = False
        self.date = b""
        self.heads = KnownHeads()
        self.body_memory = BodyMemory(limits.max_held_bytes)
        #: Where connections receive what has no place yet; used within one call of the loop.
        self.scratch = bytearray(SCRATCH_BYTES)
        #: The same as the event loop gets it. A view, since asyncio's own TLS reads a second record
        #: into a slice, which of a bytearray is a copy.
        self.shared = memoryview(self.scratch)
        self.little = self.shared[:LITTLE_BYTES]
        self._open: dict[Connection, asyncio.Task[None] | None] = {}
        # The connections that are dropped for a new one, in this order, and in each group the
        # oldest first: those that never sent a byte or never completed a request, those that are
        # slow to take an answer, idle ones, and those that were answered before and are sending. Of
        # the last group, those that take long are dropped before idle ones.
        self._silent: dict[Connection, None] = {}
        self._unserved: dict[Connection, None] = {}
        self._lingering: dict[Connection, None] = {}
        self._sending: dict[Connection, None] = {}
        self._idle: dict[Connection, None] = {}
        self._receiving: dict[Connection, None] = {}
        self._waiting = (
            *(self._silent, self._unserved, self._lingering, self._sending),
            *(self._idle, self._receiving),
        )
        self._held = 0
        self._quiet_until = -math.inf
        self._released = 0
        self._next_return = -math.inf
        self._next_unproven = -math.inf
        self._holding: dict[Connection, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    # Called by connections

    def entered(self, conn: Connection, seconds: float) -> None:
        """A connection has begun a phase, which may last for these seconds."""
        phase = conn.phase
        if phase is Phase.IDLE:
            self._wait_in(conn, self._idle)
        elif phase is Phase.RECEIVING:
            self._wait_in(conn, self._receiving if conn.served else self._unserved)
        elif phase is Phase.SENDING:
            self._wait_in(conn, self._sending)
        elif phase is Phase.LINGERING:
            self._wait_in(conn, self._lingering)
        else:
            self._wait_in(conn, None)
        if self.stopping:
            seconds = min(seconds, _STOP_SECONDS.get(phase, math.inf))
        conn.deadline = self.now() + seconds

    def _wait_in(self, conn: Connection, place: dict[Connection, None] | None) -> None:
        """Move the connection to the end of this group, and out of any other."""
        if conn.waits_in is not None:
            del conn.waits_in[conn]
        conn.waits_in = place
        if place is not None:
            place[conn] = None

    def closed(self, conn: Connection) -> None:
        self.hold(conn, 0)
        self._wait_in(conn, None)
        self._open.pop(conn, None)

    def hold(self, conn: Connection, size: int) -> None:
        """A connection holds this many bytes; if all hold too much, some are refused."""
        if size < WORTH_COUNTING:
            size = 0
        self._held += size - conn.held
        self._released += max(0, conn.held - size)
        conn.held = size
        if not size:
            self._holding.pop(conn, None)
            return
        self._holding.setdefault(conn)
        # One request and one answer of a single client may be more.
        while self._held > self.limits.max_held_bytes and (
            len(self._holding) > 1 or conn.is_ahead_of_us
        ):
            to_blame = self._to_blame()
            _LOG.debug("too much is held at once: a client is turned away")
            self.hold(to_blame, 0)
            to_blame.give_way()
            if to_blame is conn:
                return

    def _to_blame(self) -> "Connection":
        """Who is refused when all hold too much: the longest of those who are slow, or the newest.

        Slow ones together may hold too little to matter, such as a scheduler's few names beside two
        large bodies that wait for their answers; and so may one of them.
        """
        blamed = [each for each in self._holding if each.is_waited_for]
        if sum(each.held for each in blamed) < self.limits.max_held_bytes // SLOW_SHARE:
            blamed = list(self._holding)
        enough = sum(each.held for each in blamed) // len(blamed) // 2
        blamed = [each for each in blamed if each.held >= enough]
        return next((each for each in blamed if each.is_waited_for), blamed[-1])

    @property
    def is_crowded(self) -> bool:
        """Whether more clients send large bodies, or were refused, than there are schedulers."""
        return len(self._holding) + len(self._lingering) > FEW_SENDERS

    def delay(self, size: int) -> float:
        """The pause for a client that has sent so much of a large body, in seconds."""
        now = self.now()
        start = max(self._next_unproven, now)
        self._next_unproven = start + size / UNPROVEN_BYTES_A_SECOND
        return start - now

    @property
    def has_released(self) -> bool:
        """Whether much was held and nothing is any more; True only once in GIVE_BACK_SECONDS."""
        now = self.now()
        if self._held or self._released < WORTH_GIVING_BACK or now < self._next_return:
            return False
        self._released = 0
        self._next_return = now + GIVE_BACK_SECONDS
        return True

    # New connections

    def has_room(self) -> bool:
        """Whether one more connection may be open, if necessary in place of another."""
        return len(self._open) < self.limits.connections or any(self._waiting)

    def welcome(self, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Serve an accepted connection, after its handshake if there is one."""
        if len(self._open) >= self.limits.connections:
            self.make_room()
        conn = Connection(self, self.now() + self.limits.request_seconds)
        self._wait_in(conn, self._silent)
        self._open[conn] = self.loop.create_task(self._greet(conn, sock, tls))

    def make_room(self) -> bool:
        """Drop the least useful connection; False when all are being answered."""
        waiting = next(filter(None, self._waiting), None)
        if waiting is None:
            return False
        slow = next(iter(self._receiving), None)
        if waiting is self._idle and slow is not None and self._takes_long(slow):
            waiting = self._receiving
        self._drop(next(iter(waiting)))
        return True

    def _takes_long(self, conn: Connection) -> bool:
        return conn.deadline - self.now() < self.limits.request_seconds - PROMPT_SECONDS

    def _drop(self, conn: Connection) -> None:
        greeting = self._open.get(conn)
        if greeting is not None:
            greeting.cancel()
        conn.abort()
        self.closed(conn)

    async def _greet(
        self, conn: Connection, sock: socket.socket, tls: ssl.SSLContext | None
    ) -> None:
        seconds = self.limits.request_seconds if tls else None
        try:
            await self.loop.connect_accepted_socket(
                lambda: conn, sock, ssl=tls, ssl_handshake_timeout=seconds
            )
            if conn in self._open:
                self._open[conn] = None
        except (OSError, asyncio.CancelledError) as error:  # ssl.SSLError and TimeoutError are two
            if tls is not None and isinstance(error, OSError):
                self._tell_of_handshake(error)
            self.closed(conn)
            with contextlib.suppress(OSError):
                sock.close()

    def _tell_of_handshake(self, error: OSError) -> None:
        """Logged at intervals: the client itself may see only a closed connection."""
        if self.now() >= self._quiet_until:
            self._quiet_until = self.now() + SAME_LINE_SECONDS
            _LOG.info("a TLS handshake failed: %s", error)

    # Deadlines, and the end

    def sweep(self) -> bool:
        """Regular work: deadlines and log lines. Returns whether more is left for the next turn."""
        self.date = formatdate(usegmt=True).encode()
        now = self.now()
        overdue = [conn for conn in self._open if conn.deadline <= now]
        for conn in overdue[:ENDS_A_TURN]:
            # It ends soon, or has a new deadline.
            conn.deadline = now + SWEEP_SECONDS
            try:
                if self._open[conn] is None:
                    conn.expire()
                else:
                    self._drop(conn)
            except Exception:
                _LOG.exception("dropping a connection")
                self._drop(conn)
        return len(overdue) > ENDS_A_TURN

    def stop(self) -> None:
        """Answer the requests that were sent already; every connection ends soon."""
        self.stopping = True
        now = self.now()
        for conn in self._open:
            limit = _STOP_SECONDS.get(conn.phase, math.inf)
            conn.deadline = min(conn.deadline, now + limit)

    def abort(self) -> None:
        """Drop the remaining connections."""
        for conn in list(self._open):
            self._drop(conn)


class Listener:
    """A listening socket, and the connections that come from it.

    tls returns the context for a new connection; None for plain HTTP.
    """

    def __init__(
        self,
        sock: socket.socket,
        connections: Connections,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._connections = connections
        self._tls = tls
        self._accepting = False
        self._quiet_until = -math.inf

    async def serve(self, until: asyncio.Event, tick: Callable[[], None] = lambda: None) -> None:
        """Serve until the event is set, then until nothing is left to answer.

        tick is called several times a second.
        """
        connections, limits = self._connections, self._connections.limits
        await self._sweep()
        while not until.is_set():
            tick()
            await self._sweep()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(until.wait(), SWEEP_SECONDS)
        self._pause()
        # Clients that have connected already are answered.
        for _ in range(-(-limits.connections // ACCEPTS_A_TURN)):
            if not self._accept():
                break
            await asyncio.sleep(0)
        self._sock.close()
        connections.stop()
        end = connections.now() + limits.graceful_seconds
        while len(connections) and connections.now() < end:
            tick()
            while connections.sweep():
                await asyncio.sleep(0)
            await asyncio.sleep(SWEEP_SECONDS / 5)
        connections.abort()

    async def _sweep(self) -> None:
        while self._connections.sweep():
            await asyncio.sleep(0)
        if not self._accepting and self._connections.has_room():
            self._connections.loop.add_reader(self._sock, self._accept)
            self._accepting = True

    def _tell_of_trouble(self, error: OSError) -> None:
        now = self._connections.now()
        if now >= self._quiet_until:
            self._quiet_until = now + SAME_LINE_SECONDS
            _LOG.warning("can't accept connections: %s", error)

    def _pause(self) -> None:
        if self._accepting:
            self._connections.loop.remove_reader(self._sock)
            self._accepting = False

    def _accept(self) -> bool:
        """Accept some connections; returns whether there may be more."""
        for _ in range(ACCEPTS_A_TURN):
            if not self._connections.has_room():
                self._pause()
                return False
            try:
                sock, _ = self._sock.accept()
            except BlockingIOError:
                return False
            except ConnectionAbortedError:
                continue
            except OSError as error:
                # Out of file descriptors, most likely: another connection makes room.
                self._tell_of_trouble(error)
                if not self._connections.make_room():
                    self._pause()
                return False
            sock.setblocking(False)
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.welcome(sock, self._tls() if self._tls else None)
        return True
