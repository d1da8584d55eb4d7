"""gunicorn with one worker process, in which each listener has a uvicorn server and event loop."""

import asyncio
import ctypes
import gc
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger
from uvicorn_worker import UvicornWorker

from extender.cli.flags import PROGRAM
from extender.http.asgi import Application as ASGIApplication
from extender.server.connection import Server, TlsFiles

_LOG: Final = logging.getLogger(__name__)

#: How long a stopping server goes on answering requests. kube-scheduler's default timeout is 5 s.
GRACEFUL_SECONDS: Final = 10

#: gunicorn kills and replaces a worker whose event loop has been stuck for this long.
WORKER_SECONDS: Final = 30

#: The most connections of the main listener, and of --ops-bind, which a kubelet and some Prometheus
#: servers use. The file descriptors needed besides the main listener's.
MAX_CONNECTIONS: Final = 1000
OPS_CONNECTIONS: Final = 64
OTHER_FILES: Final = OPS_CONNECTIONS + 64

_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)

_GUNICORN: Final[dict[str, Any]] = {
    "workers": 1,
    # kube-scheduler may use an idle connection for 90 s; then Go's client closes it.
    "keepalive": 120,
    # More than the worker takes to stop.
    "graceful_timeout": 2 * GRACEFUL_SECONDS,
    "control_socket_disable": True,
    "proc_name": PROGRAM,
    # The worker's heartbeat is a file. This folder in memory is writable beside a read-only root.
    "worker_tmp_dir": "/dev/shm" if os.access("/dev/shm", os.W_OK) else None,  # noqa: S108
}

_LIBC: Final = ctypes.CDLL(None)
#: Returns glibc's free memory to the kernel. Other C libraries keep less of it.
_trim: Final = getattr(_LIBC, "malloc_trim", int)
_mallopt: Final = getattr(_LIBC, "mallopt", max)

#: glibc's malloc.h. M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, in bytes: a freed block stays with the
#: process until _trim, since returning it after each large request would cost the next one time.
#: M_ARENA_MAX: all threads share the main heap, since malloc_trim shortens no other heap.
_MALLOC_OPTIONS: Final = ((-3, 32 * 2**20), (-1, 2**30), (-8, 1))


def _return_memory() -> None:
    gc.collect(0)  # At most 100,000 objects, the threshold: some milliseconds.
    _trim(0)


class Running(NamedTuple):
    """The applications of both listeners. on_stopping stops the source of their state."""

    app: ASGIApplication
    ops_app: ASGIApplication
    on_stopping: Callable[[], None]
    ops_listener: socket.socket | None = None
    tls: TlsFiles | None = None


class _Logger(Logger):  # type: ignore[misc]  # gunicorn ships no types
    """Writes gunicorn's messages in the format of our log."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True


class _Worker(UvicornWorker):  # type: ignore[misc]  # its base class is gunicorn's
    """The worker process: one uvicorn server for the main listener, and one for --ops-bind."""

    CONFIG_KWARGS: ClassVar = {
        "ws": "none",
        "lifespan": "off",
        "access_log": False,
        "proxy_headers": False,
        "server_header": False,
        "timeout_graceful_shutdown": GRACEFUL_SECONDS,
    }

    def init_signals(self) -> None:
        super().init_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)

    async def _serve(self) -> None:
        running, loop = self.wsgi, asyncio.get_running_loop()
        is_untrimmed = False
        log = logging.getLogger("uvicorn.error")
        log.propagate = True
        # uvicorn warns of each client that sends malformed HTTP, any number of times a second.
        log.setLevel(logging.ERROR)

        def stop() -> None:
            if not server.should_exit:
                # Before the log line, so that the other listener's /readyz is not behind the log.
                running.on_stopping()
                _LOG.info("stopping: answering the requests received so far")
                server.should_exit = True

        def each_second() -> None:
            self.notify()
            if os.getppid() != self.ppid:
                stop()
            # Only after the last large request: the next one would have to get the memory again.
            nonlocal is_untrimmed
            is_used, running.app.room.was_used = running.app.room.was_used, False
            if is_untrimmed and not is_used:
                loop.run_in_executor(None, _return_memory)
            is_untrimmed = is_used

        # Two of three connections may be past their TLS handshake.
        most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        files = min(most_files, MAX_CONNECTIONS * 3 // 2 + OTHER_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most_files))
        tls = running.tls.rotating() if running.tls else None
        config, ops_config = copy(self.config), copy(self.config)
        config.app, ops_config.app = running.app, running.ops_app
        config.limit_concurrency = max(2, (files - OTHER_FILES) * 2 // 3)
        ops_config.limit_concurrency = OPS_CONNECTIONS
        server = Server(config, tls, each_second)
        for number in _ENDING:
            loop.add_signal_handler(number, stop)
        # Probes have their own loop and thread, so that a busy main listener does not delay them.
        probes = Server(ops_config, None, lambda: None)
        thread = threading.Thread(target=probes.run, args=([running.ops_listener],), daemon=True)
        if running.ops_listener is not None:
            thread.start()
        await server.serve(sockets=self.sockets)
        probes.should_exit = True
        if running.ops_listener is not None:
            thread.join(1.0)


class Application(BaseApplication):  # type: ignore[misc]  # gunicorn ships no types
    """gunicorn, configured in code: one worker process with an event loop, and our listener."""

    def __init__(self, listener: socket.socket, start: Callable[[], Running]) -> None:
        """start: called in the worker."""
        self._listener, self._start = listener, start
        super().__init__()

    def load_config(self) -> None:
        settings = _GUNICORN | {
            "bind": f"fd://{self._listener.fileno()}",
            "worker_class": _Worker,
            "logger_class": _Logger,
            "loglevel": "warning",
            "timeout": WORKER_SECONDS,
        }
        for name, value in settings.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)
        # A signal between the fork and the worker's init_signals would be lost: it is blocked.
        block = partial(signal.pthread_sigmask, signal.SIG_BLOCK, _ENDING)
        unblock = partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, _ENDING)
        os.register_at_fork(before=block, after_in_parent=unblock)

    def load(self) -> Running:
        """Called in the worker: wire the parts together and start the source."""
        for option, value in _MALLOC_OPTIONS:
            _mallopt(option, value)
        # How long a thread that makes a page keeps the interpreter while the event loop waits.
        sys.setswitchinterval(0.0002)
        # A full collection would walk the million objects of a large body: 0.2 s without answers.
        # These thresholds avoid it in practice; young collections walk 100,000 objects at most.
        gc.set_threshold(100_000, 50, 1000)
        return self._start()
