"""gunicorn with one worker process, which serves with uvicorn, one event loop for each listener."""

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

#: How long a stopping server goes on answering requests; kube-scheduler itself waits 5 s.
GRACEFUL_SECONDS: Final = 10

#: gunicorn kills and replaces a worker whose event loop has not turned for so long.
WORKER_SECONDS: Final = 30

#: Connections of the main listener; those of --ops-bind's, which a kubelet and a few Prometheus
#: servers use; files that the process needs beside the main listener's.
MAX_CONNECTIONS: Final = 1000
OPS_CONNECTIONS: Final = 64
OTHER_FILES: Final = OPS_CONNECTIONS + 64

_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)

_GUNICORN: Final[dict[str, Any]] = {
    "workers": 1,
    # Go's client closes an idle connection after 90 s: before that, kube-scheduler may send on it.
    "keepalive": 120,
    # The time that the worker takes to stop, and some more.
    "graceful_timeout": 2 * GRACEFUL_SECONDS,
    "control_socket_disable": True,
    "proc_name": PROGRAM,
    # The worker notifies by a file; with a read-only root this folder in memory can be written.
    "worker_tmp_dir": "/dev/shm" if os.access("/dev/shm", os.W_OK) else None,  # noqa: S108
}

_LIBC: Final = ctypes.CDLL(None)
#: Returns what glibc keeps for later to the kernel; other C libraries keep less.
_trim: Final = getattr(_LIBC, "malloc_trim", int)
_mallopt: Final = getattr(_LIBC, "mallopt", max)

#: M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of glibc's malloc.h, in bytes: it returns nothing by
#: itself. Between two large requests it would, and the second had to take every page anew.
#: M_ARENA_MAX: threads share one heap, since malloc_trim does not shorten any other heap.
_MALLOC_OPTIONS: Final = ((-3, 32 * 2**20), (-1, 2**30), (-8, 1))


def _return_memory() -> None:
    gc.collect(0)  # At most the threshold's 100,000 objects, some milliseconds.
    _trim(0)


class Running(NamedTuple):
    """The applications of both listeners, and the end of what feeds them."""

    app: ASGIApplication
    ops_app: ASGIApplication
    on_stopping: Callable[[], None]
    ops_listener: socket.socket | None = None
    tls: TlsFiles | None = None


class _Logger(Logger):  # type: ignore[misc]  # gunicorn ships no types
    """gunicorn's own messages, in the format of ours."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True


class _Worker(UvicornWorker):  # type: ignore[misc]  # its base class is gunicorn's
    """The worker process: uvicorn for the application's listener, and another for the probes."""

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
        # Its warnings are about clients that send no HTTP, any number a second.
        log.setLevel(logging.ERROR)

        def stop() -> None:
            if not server.should_exit:
                # Before it is logged: the other listener's /readyz says so as soon as the log does.
                running.on_stopping()
                _LOG.info("stopping: answering the requests received so far")
                server.should_exit = True

        def each_second() -> None:
            self.notify()
            if os.getppid() != self.ppid:
                stop()
            # After the last large request: one that follows would have to take the memory again.
            nonlocal is_untrimmed
            is_used, running.app.room.was_used = running.app.room.was_used, False
            if is_untrimmed and not is_used:
                loop.run_in_executor(None, _return_memory)
            is_untrimmed = is_used

        files, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = min(files, MAX_CONNECTIONS + OTHER_FILES)
        # It bounds the connections that are still in their TLS handshake.
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most_files))
        tls = running.tls.rotating() if running.tls else None
        config, ops_config = copy(self.config), copy(self.config)
        config.app, ops_config.app = running.app, running.ops_app
        config.limit_concurrency = max(2, files - OTHER_FILES)
        ops_config.limit_concurrency = OPS_CONNECTIONS
        server = Server(config, tls, each_second)
        for number in _ENDING:
            loop.add_signal_handler(number, stop)
        # A loop and a thread of its own: a probe is answered however busy the main listener is.
        probes = Server(ops_config, None, lambda: None)
        thread = threading.Thread(target=probes.run, args=([running.ops_listener],), daemon=True)
        if running.ops_listener is not None:
            thread.start()
        await server.serve(sockets=self.sockets)
        probes.should_exit = True
        if running.ops_listener is not None:
            thread.join(1.0)


class Application(BaseApplication):  # type: ignore[misc]  # gunicorn ships no types
    """gunicorn configured in code: one worker process with an event loop, our listening socket."""

    def __init__(self, listener: socket.socket, start: Callable[[], Running]) -> None:
        """start is called in the worker."""
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
        # A signal would be lost between the fork and the worker's init_signals: it waits for that.
        block = partial(signal.pthread_sigmask, signal.SIG_BLOCK, _ENDING)
        unblock = partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, _ENDING)
        os.register_at_fork(before=block, after_in_parent=unblock)

    def load(self) -> Running:
        """Called in the worker: wire the parts together and start what feeds them."""
        for option, value in _MALLOC_OPTIONS:
            _mallopt(option, value)
        # How long a page that is being made keeps the interpreter while the event loop waits.
        sys.setswitchinterval(0.0002)
        # A full collection would walk the million objects of a large body, 0.2 s in which nothing
        # is answered: in practice there is none, and the others walk 100,000 objects at most.
        gc.set_threshold(100_000, 50, 1000)
        return self._start()
