"""A gunicorn worker that no slow or silent client can hold.

gunicorn's gthread worker reads requests and writes answers in its pool threads, waiting for
the client: as many half-sent requests as there are threads stop it. Here the main thread
gathers requests without waiting, a pool thread gets complete ones only, and what a client
does not take of its answer at once is left to the main thread again:

    accept -> (TLS handshake) -> idle -> gathering -> answering -> (sending) -> idle or lingering
              main thread        main    main         pool         main         main

A connection belongs to the main thread, but to one pool thread while it is `ANSWERING`: this
module is what the main thread does, `extender.http.answering` what a pool thread does.
Not supported, as the extender needs none of them: HTTP/2, the PROXY protocol, uWSGI, and
streaming (an answer is sent once the application has produced all of it).
"""

import math
import selectors
import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from http import HTTPStatus
from typing import Any

from extender.http.answering import AnsweringWorker
from extender.http.connection import Connection, Phase
from extender.http.gathering import RECEIVE_LIMIT, Gathering, Refusal, error_answer
from extender.http.holdings import Holdings
from extender.http.tls import TlsContext

# One look a second at the deadlines, the arbiter and the listeners, whatever the traffic.
SWEEP_INTERVAL = 1.0
# While stopping, deadlines are what the process waits for.
STOP_SWEEP_INTERVAL = 0.1
# recv() calls an event, so that no connection keeps the main thread from the others: 1 MiB of
# a body whose length isn't known, a quarter of that in TLS records.
RECEIVES_PER_EVENT = 16
DISCARD_SIZE = 64 * 1024
# A request's head and the lines around its chunks are held too, whatever a body may have.
HELD_AT_LEAST = 64 * 2**20

# Seconds a connection may stay in a phase once the worker is stopping. Idle ones stay for a
# request that the client may be sending already, having been promised a kept-alive connection.
_STOP_LIMITS = {
    Phase.HANDSHAKE: 1.0,
    Phase.IDLE: 1.0,
    Phase.GATHERING: 3.0,
    Phase.LINGERING: 0.5,
}


class GatheringWorker(AnsweringWorker):
    """See the module's docstring. Subclass it to set the limits and to be told of events.

    Times are seconds. Of gunicorn's settings it reads threads, keepalive, worker_connections,
    graceful_timeout, timeout, certfile, keyfile, ca_certs and those of gunicorn's parser.
    """

    max_body_bytes: int = 256 * 2**20
    #: All requests that are not answered and answers that are not sent yet, together. Over it the
    #: slowest client is given up: kube-scheduler's requests arrive in milliseconds. None: one of
    #: the largest and a quarter more, at least HELD_AT_LEAST.
    max_held_bytes: int | None = None
    #: A new connection may stay silent, and a request take to arrive, that long. With TLS the
    #: first request and its handshake have that long together.
    request_deadline: float = 10.0
    #: A closed connection is kept for the client to read the answer before a reset reaches it.
    linger: float = 2.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Longest idle first. The base class answers "Connection: close" when there are more
        # than max_keepalived, to have room for new ones; here the longest idle makes room.
        self.keepalived_conns: dict[Connection, None] = {}
        self.max_keepalived = self.worker_connections
        self._connections: set[Connection] = set()
        self._held = Holdings()
        self._tls: TlsContext | None = None
        self._next_sweep = 0.0
        self._accept_failed = False
        self._stopping = False
        self._steps: dict[Phase, Callable[[Connection], None]] = {
            Phase.HANDSHAKE: self._shake_hands,
            Phase.IDLE: self._receive,
            Phase.GATHERING: self._receive,
            Phase.ANSWERING: self._unwatch,
            Phase.SENDING: self._send,
            Phase.LINGERING: self._discard,
        }

    def on_stopping(self) -> None:
        """Called once in the main thread when the worker begins to stop, before all else."""

    # The main loop

    def init_process(self) -> None:
        if self.cfg.is_ssl:
            cfg = self.cfg
            self._tls = TlsContext(cfg.certfile, cfg.keyfile, cfg.ca_certs, self.log)
        super().init_process()

    def run(self) -> None:
        queue = self.method_queue
        self.poller.register(queue.fileno(), selectors.EVENT_READ, queue.run_callbacks)
        self.set_accept_enabled(True)
        while self.alive:
            self.wait_for_and_dispatch_events(timeout=SWEEP_INTERVAL)
            if time.monotonic() >= self._next_sweep:
                self._sweep(SWEEP_INTERVAL)
                if not self.is_parent_alive():
                    break
            if not self._accepting and not self._accept_failed and self._has_room():
                self.set_accept_enabled(True)
        self._stop()

    def _sweep(self, interval: float) -> None:
        """What need not be done at every event: deadlines, and a sign of life to the arbiter."""
        now = time.monotonic()
        self._next_sweep = now + interval
        self._accept_failed = False
        self.notify()
        for conn in [conn for conn in self._connections if conn.deadline <= now]:
            self._guard(conn, self._expire)

    def _stop(self) -> None:
        """Answer what was sent already, within graceful_timeout, then release everything."""
        self.alive = False
        self._stopping = True
        self._next_sweep = 0.0
        self.on_stopping()
        self.set_accept_enabled(False)
        for listener in self.sockets:
            listener.close()
        for conn in self._connections:
            self._enter(conn, conn.phase, conn.deadline - time.monotonic())
            if conn.parsed is not None:
                conn.parsed.force_close()
        end = time.monotonic() + self.cfg.graceful_timeout
        while self._connections and time.monotonic() < end:
            self.wait_for_and_dispatch_events(timeout=STOP_SWEEP_INTERVAL)
            if time.monotonic() >= self._next_sweep:
                self._sweep(STOP_SWEEP_INTERVAL)
        for conn in [conn for conn in self._connections if conn.phase is not Phase.ANSWERING]:
            self._close(conn)
        self.tpool.shutdown(wait=False)
        self.poller.close()
        self.method_queue.close()

    def _guard(self, conn: Connection, step: Callable[[Connection], None]) -> None:
        """Take a step of one connection; its failure closes that connection, no other."""
        try:
            step(conn)
        except OSError as error:  # ssl.SSLError is one
            self.log.debug("closing the connection of %s: %s", conn.client, error)
            self._close(conn)
        except Exception:
            self.log.exception("closing the connection of %s", conn.client)
            self._close(conn)

    def _on_event(self, conn: Connection, _sock: object) -> None:
        # Another event of the same poll may have closed it.
        if conn.phase is not Phase.CLOSED:
            self._guard(conn, self._steps[conn.phase])

    def _enter(self, conn: Connection, phase: Phase, seconds: float) -> None:
        """Begin a phase that may last that long."""
        conn.phase = phase
        if self._stopping:
            seconds = min(seconds, _STOP_LIMITS.get(phase, math.inf))
        conn.deadline = time.monotonic() + seconds

    def _expire(self, conn: Connection) -> None:
        if conn.phase is Phase.GATHERING:
            message = "the request did not arrive in time"
            self._refuse(conn, Refusal(HTTPStatus.REQUEST_TIMEOUT, message))
        else:
            self._close(conn)

    def _watch(self, conn: Connection, events: int) -> None:
        """Have the poller report these events of the connection, and no others."""
        if conn.events == events:
            return
        if conn.events:
            self.poller.modify(conn.sock, events, partial(self._on_event, conn))
        else:
            self.poller.register(conn.sock, events, partial(self._on_event, conn))
        conn.events = events

    def _unwatch(self, conn: Connection) -> None:
        """Bytes or a hang-up while the request is answered: neither concerns us before that.

        Only then does the connection leave the poller, which most requests are thus spared.
        """
        if conn.events:
            self.poller.unregister(conn.sock)
            conn.events = 0

    def _close(self, conn: Connection) -> None:
        self._unwatch(conn)
        conn.phase = Phase.CLOSED
        self.keepalived_conns.pop(conn, None)
        self._connections.discard(conn)
        self._held.release(conn)
        try:
            conn.sock.close()
        except OSError as error:
            self.log.debug("closing the connection of %s: %s", conn.client, error)

    # New connections

    def accept(self, listener: Any) -> None:
        """Accept all pending connections."""
        while self._has_room():
            try:
                sock, client = listener.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                # Out of file descriptors, most likely: the next sweep allows another attempt.
                self.log.warning("can't accept connections: %s", error)
                self._accept_failed = True
                break
            if len(self._connections) >= self.worker_connections:
                longest_idle = next(iter(self.keepalived_conns))
                self._close(longest_idle)
            self._welcome(sock, client, listener.getsockname())
        self.set_accept_enabled(False)

    def _has_room(self) -> bool:
        """Whether one more connection may be open, if need be for the longest idle one."""
        return len(self._connections) < self.worker_connections or bool(self.keepalived_conns)

    def _welcome(self, sock: socket.socket, client: Any, server: Any) -> None:
        try:
            sock.setblocking(False)
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock = self._tls.current().wrap_socket(
                    sock, server_side=True, do_handshake_on_connect=False
                )
        except OSError as error:
            self.log.debug("closing the connection of %s: %s", client, error)
            sock.close()
            return
        conn = Connection(sock, client, server, Gathering(self.max_body_bytes))
        self._connections.add(conn)
        self._enter(conn, conn.phase, self.request_deadline)
        self._guard(conn, partial(self._watch, events=selectors.EVENT_READ))

    def _shake_hands(self, conn: Connection) -> None:
        assert isinstance(conn.sock, ssl.SSLSocket)
        try:
            conn.sock.do_handshake()
        except ssl.SSLWantReadError:
            self._watch(conn, selectors.EVENT_READ)
        except ssl.SSLWantWriteError:
            self._watch(conn, selectors.EVENT_WRITE)
        else:
            conn.phase = Phase.IDLE  # within the deadline of the handshake
            self._watch(conn, selectors.EVENT_READ)
            self._receive(conn)

    # Requests

    def _receive(self, conn: Connection) -> None:
        for _ in range(RECEIVES_PER_EVENT):
            wanted = conn.gathering.wanted
            data = conn.receive(wanted)
            if data is None:
                return
            if not data:
                self._close(conn)
                return
            if self._take(conn, data) or len(data) >= RECEIVE_LIMIT:
                return
            # Less than was asked for is all there is, but for TLS: that's a record a call.
            if len(data) < wanted and not conn.tls:
                return

    def _take(self, conn: Connection, data: bytes) -> bool:
        """Add to the request; whether it is settled: submitted to the pool, or refused."""
        if conn.phase is Phase.IDLE:
            self._begin_request(conn)
        try:
            request = conn.gathering.feed(data)
        except Refusal as refusal:
            self._refuse(conn, refusal)
            return True
        if request is None:
            if conn.gathering.awaits_continue:
                self._send_continue(conn)
            self._hold(conn, conn.gathering.held)
            return conn.phase is not Phase.GATHERING  # it may have been given up itself
        conn.request = request
        conn.rest = request.rest
        conn.phase = Phase.ANSWERING
        conn.deadline = math.inf
        self._hold(conn, conn.gathering.held)
        self.enqueue_req(conn)
        return True

    def _hold(self, conn: Connection, size: int) -> None:
        """Note what the connection holds; if all of them hold too much, give the slowest up."""
        self._held.note(conn, size)
        limit = self.max_held_bytes or max(self.max_body_bytes * 5 // 4, HELD_AT_LEAST)
        while self._held.total > limit and (slow := self._held.slowest()):
            self._guard(slow, self._give_up)

    def _give_up(self, conn: Connection) -> None:
        self.log.debug("giving up a slow client, %s: too much is held at once", conn.client)
        if conn.phase is Phase.GATHERING:
            message = "too many bytes of requests are arriving at once; try again"
            self._refuse(conn, Refusal(HTTPStatus.SERVICE_UNAVAILABLE, message))
        else:
            self._close(conn)

    def _begin_request(self, conn: Connection) -> None:
        self.keepalived_conns.pop(conn, None)
        if conn.tls and not conn.served:
            conn.phase = Phase.GATHERING  # within the deadline of the handshake
        else:
            self._enter(conn, Phase.GATHERING, self.request_deadline)

    def _send_continue(self, conn: Connection) -> None:
        conn.gathering.awaits_continue = False
        interim = b"HTTP/1.1 100 Continue\r\n\r\n"
        if conn.sock.send(interim) != len(interim):
            raise OSError("no room for 100 Continue: the client does not read its answers")

    def _refuse(self, conn: Connection, refusal: Refusal) -> None:
        self.log.debug("refusing a request of %s: %s", conn.client, refusal.message)
        self.on_refusal(refusal.status)
        self._held.release(conn)
        conn.gathering = Gathering(self.max_body_bytes)
        conn.unsent = [error_answer(refusal.status, refusal.message)]
        conn.keep_alive = False
        conn.answer_deadline = time.monotonic() + self.answer_deadline
        conn.send_once()
        self._settle(conn)

    # After the answer

    def finish_request(self, conn: Connection, fs: "Future[bool]") -> None:
        """The pool thread is done with the connection (called in the main thread)."""
        self._guard(conn, partial(self._finish, answered=fs))

    def _finish(self, conn: Connection, answered: "Future[bool]") -> None:
        conn.served = True
        conn.keep_alive = answered.result()
        self._settle(conn)
        if conn.phase is Phase.SENDING:
            self._hold(conn, sum(map(len, conn.unsent)))

    def _settle(self, conn: Connection) -> None:
        """Go on as soon as the whole answer is sent."""
        if conn.unsent:
            self._enter(conn, Phase.SENDING, conn.answer_deadline - time.monotonic())
            self._watch(conn, selectors.EVENT_WRITE)
            return
        self._held.release(conn)
        if conn.keep_alive:
            self._rest(conn)
        else:
            self._linger(conn)

    def _send(self, conn: Connection) -> None:
        if conn.send_once():
            self._settle(conn)

    def _rest(self, conn: Connection) -> None:
        """Wait for the next request, or go on with what was received of it already."""
        conn.gathering = Gathering(self.max_body_bytes)
        rest, conn.rest = conn.rest, b""
        missed_event = not conn.events
        self._enter(conn, Phase.IDLE, self.cfg.keepalive)
        self.keepalived_conns[conn] = None
        self._watch(conn, selectors.EVENT_READ)
        if not (rest and self._take(conn, rest)) and missed_event:
            self._receive(conn)

    def _linger(self, conn: Connection) -> None:
        """Close our side and wait for the client's: close() alone would reset the connection
        when something is still unread, and the client could lose the answer (RFC 9112, 9.6).
        """
        conn.half_close()
        self._enter(conn, Phase.LINGERING, self.linger)
        self._watch(conn, selectors.EVENT_READ)

    def _discard(self, conn: Connection) -> None:
        for _ in range(RECEIVES_PER_EVENT):
            data = conn.receive(DISCARD_SIZE)
            if data is None:
                return
            if not data:
                self._close(conn)
                return
