"""gunicorn with one worker process, and in it an event loop for each listener."""

import asyncio
import gc
import logging
import math
import os
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import uvloop
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from gunicorn.workers.base import Worker

from extender.flags import PROGRAM
from extender.http import exchange
from extender.http.all_connections import Connections, Limits, Listener
from extender.http.routing import Threads
from extender.serving.listeners import ListenOptions
from extender.serving.memory import give_back_freed_memory, keep_freed_memory
from extender.serving.tls import TlsContext

_LOG: Final = logging.getLogger(__name__)

#: How often the worker notifies gunicorn, which kills it after WORKER_SECONDS without that.
NOTIFY_SECONDS: Final = 1.0
WORKER_SECONDS: Final = 60

#: How long a stopping server goes on answering requests; kube-scheduler itself waits 5 s.
GRACEFUL_SECONDS: Final = 10

#: Heads and the framing of chunks are held too, however small the limit of a body.
HELD_AT_LEAST: Final = 64 * 2**20

#: How long a thread keeps the interpreter while the event loop waits for it. With Python's default
#: of 5 ms, a request would wait that long for each page that is being made.
SWITCH_SECONDS: Final = 0.0002

#: Enough for a kubelet and a few Prometheus servers.
OPS_LIMITS: Final = Limits(
    max_body_bytes=2**16, max_held_bytes=2**24, connections=64, keep_alive_seconds=60.0
)

SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 (gunicorn makes a file of its own name there)


@dataclass(frozen=True, slots=True)
class Running:
    """The parts that a worker has made and must stop: applications, their threads and sources."""

    app: exchange.Application
    ops_app: exchange.Application
    threads: Threads
    on_stopping: Callable[[], None]


class _Logger(Logger):  # type: ignore[misc]  # gunicorn ships no types
    """gunicorn's own messages, in the format of ours; no access log."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True
        # gunicorn's messages about its processes are shown with -v only.
        self.error_log.setLevel(cfg.loglevel.upper())
        self.access_log.disabled = True


class _Arbiter(Arbiter):  # type: ignore[misc]  # gunicorn ships no types
    """One worker; forgets what was loaded once the worker has its copy."""

    def init_signals(self) -> None:
        super().init_signals()
        # They would start a second worker, with a state of its own, or end the only one.
        for number in (signal.SIGTTIN, signal.SIGTTOU):
            signal.signal(number, signal.SIG_IGN)

    def spawn_worker(self) -> Any:
        # A signal that the new process got before it has handlers of its own would be lost to the
        # queue of ours; so it waits until then.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            pid = super().spawn_worker()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        self.app.forget()
        gc.collect()
        give_back_freed_memory()
        return pid


#: A worker is ended by SIGTERM; a person's Ctrl-C reaches it too, and ends it the same way.
_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


class _Worker(Worker):  # type: ignore[misc]  # gunicorn ships no types
    """gunicorn's worker process: an event loop that serves the application's listener.

    It uses what gunicorn documents for worker classes of one's own: the base class, `notify` and
    `ppid` (gunicorn's settings, worker_class).
    """

    def init_signals(self) -> None:
        """The event loop handles the signals that end it; other usual ones are ignored."""
        for number in (signal.SIGUSR1, signal.SIGWINCH, signal.SIGTTIN, signal.SIGTTOU):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGABRT, signal.SIG_DFL)
        for number in _ENDING:
            signal.signal(number, self._end_early)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)

    def _end_early(self, *_: object) -> None:
        """A signal to stop before there is a loop, while the worker still reads its manifests."""
        self.alive = False

    def run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        application, running = self.app, self.wsgi
        assert isinstance(application, Application)
        assert isinstance(running, Running)
        loop = asyncio.get_running_loop()
        end = asyncio.Event()
        # gunicorn has a copy of the listening socket, and has closed ours. A stop closes that copy.
        listener = socket.socket(fileno=os.dup(self.sockets[0].fileno()))

        def stop() -> None:
            if not end.is_set():
                _LOG.info("stopping: answering what was sent already")
                running.on_stopping()
                for each in self.sockets:
                    each.close()
                end.set()

        for number in _ENDING:
            loop.add_signal_handler(number, stop)
        if not self.alive:
            stop()
        connections = Connections(running.app, application.limits, loop)
        running.threads.allowance.clients = connections.__len__
        notified = -math.inf

        def tick() -> None:
            nonlocal notified
            if loop.time() - notified >= NOTIFY_SECONDS:
                notified = loop.time()
                self.notify()
                if os.getppid() != self.ppid:
                    stop()
            if connections.has_released:
                loop.run_in_executor(running.threads.large, give_back_freed_memory)

        await Listener(listener, connections, application.tls).serve(end, tick)
        running.threads.stop()


def serve_ops(listener: socket.socket, app: exchange.Application) -> None:
    """Probes and metrics over plain HTTP, on an event loop and a thread of their own.

    So a probe is answered however busy the main listener is, and needs no client certificate.
    """

    async def serve() -> None:
        connections = Connections(app, OPS_LIMITS, asyncio.get_running_loop())
        await Listener(listener, connections).serve(asyncio.Event())

    def run() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve())

    threading.Thread(target=run, name="ops", daemon=True).start()


class Application(BaseApplication):  # type: ignore[misc]  # gunicorn ships no types
    """gunicorn configured in code: one worker process with an event loop, our listening socket."""

    def __init__(
        self,
        options: ListenOptions,
        listener: socket.socket,
        ops_listener: socket.socket | None,
        start: Callable[[], Running],
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        """start is called in the worker, forget in the first process once there is a worker."""
        self._options = options
        self._listener = listener
        self._ops_listener = ops_listener
        self._start = start
        self.forget = forget
        self.tls: Callable[[], ssl.SSLContext] | None = None
        super().__init__()

    @property
    def limits(self) -> Limits:
        most = self._options.max_body_bytes
        return Limits(most, max(most * 5 // 4, HELD_AT_LEAST), graceful_seconds=GRACEFUL_SECONDS)

    def load_config(self) -> None:
        options = self._options
        settings = {
            "bind": f"fd://{self._listener.fileno()}",
            "workers": 1,
            "worker_class": _Worker,
            # The time that the worker takes to stop, and some more.
            "graceful_timeout": 2 * GRACEFUL_SECONDS,
            # The event loop only moves bytes and answers; silence for so long means it is stuck.
            "timeout": WORKER_SECONDS,
            "logger_class": _Logger,
            "loglevel": "debug" if options.verbosity > 1 else "warning",
            "control_socket_disable": True,
            # The worker notifies by a file; with a read-only root this folder in memory can be
            # written.
            "worker_tmp_dir": SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None,
            "proc_name": PROGRAM,
        }
        for name, value in settings.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> Running:
        """Called in the worker: wire the parts together and start what feeds them."""
        keep_freed_memory()
        sys.setswitchinterval(SWITCH_SECONDS)
        options = self._options
        running = self._start()
        gc.collect()
        give_back_freed_memory()
        if options.tls_cert_file:
            tls = TlsContext(
                options.tls_cert_file, options.tls_private_key_file, options.client_ca_file, _LOG
            )
            self.tls = tls.current
        if self._ops_listener is not None:
            serve_ops(self._ops_listener, running.ops_app)
        return running

    def run(self) -> None:
        _Arbiter(self).run()
