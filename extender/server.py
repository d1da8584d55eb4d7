"""gunicorn with one worker process, on sockets and files that were looked at beforehand.

What a person can mend (an address, a certificate) is told in one line before gunicorn starts.
"""

import contextlib
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger

from extender.flags import PROGRAM, Address, UsageError
from extender.http.ops_listener import serve_ops
from extender.http.service import DEFAULT_MAX_BODY_BYTES
from extender.http.worker import GatheringWorker
from extender.memory import give_back_freed_memory, keep_freed_memory

#: Longer than the 90 s after which Go's client closes an idle connection, so that it is never the
#: server that closes one just as kube-scheduler sends on it.
KEEPALIVE_SECONDS: Final = 120

#: What a stopping server gives requests that are being answered; kube-scheduler itself waits 5 s.
GRACEFUL_SECONDS: Final = 10

#: Open connections; a file descriptor each. One kube-scheduler needs a handful.
MAX_CONNECTIONS: Final = 1000

SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 (gunicorn makes a file of its own name there)


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """What both servers have: where to listen, and how."""

    bind: Address
    ops_bind: Address | None = None
    threads: int = 8
    tls_cert_file: str | None = None
    tls_private_key_file: str | None = None
    client_ca_file: str | None = None
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    log_format: str = "text"
    verbosity: int = 0


@dataclass(slots=True)
class Running:
    """What a worker made and must stop: the application and what feeds it."""

    app: Flask
    ops_app: Flask
    on_stopping: Callable[[], None]
    refused_early: Callable[[HTTPStatus], None]


def check_tls_files(options: ListenOptions) -> None:
    """Load the certificate once, to tell at once what is wrong. Raises UsageError."""
    cert, key, ca = options.tls_cert_file, options.tls_private_key_file, options.client_ca_file
    if bool(cert) != bool(key):
        raise UsageError("--tls-cert-file and --tls-private-key-file go together")
    if ca and not cert:
        raise UsageError("--client-ca-file needs --tls-cert-file and --tls-private-key-file")
    if not (cert and key):
        return
    for flag, path in (
        ("--tls-cert-file", cert),
        ("--tls-private-key-file", key),
        ("--client-ca-file", ca),
    ):
        with _told_as_usage(f"{flag} {path}"):
            if path:
                open(path, "rb").close()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _told_as_usage(f"--tls-cert-file {cert}, --tls-private-key-file {key}"):
        context.load_cert_chain(cert, key)
    with _told_as_usage(f"--client-ca-file {ca}"):
        if ca:
            context.load_verify_locations(ca)


@contextlib.contextmanager
def _told_as_usage(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # ssl.SSLError is one
        raise UsageError(f"{what}: {error.strerror or error}") from None


def listen_on(address: Address, flag: str) -> socket.socket:
    """Bind before gunicorn does, which would try five times. Raises UsageError."""
    try:
        family, _, _, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise UsageError(f"{flag} {address}: {error.strerror}") from None
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(where)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"{flag} {address}: {error.strerror}; choose another with {flag} HOST:PORT"
        ) from None
    return listener


class _Logger(Logger):  # type: ignore[misc]  # gunicorn ships no types
    """gunicorn's own messages, in the format of ours; no access log."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True
        # What gunicorn tells about its processes is of interest with -v only.
        self.error_log.setLevel(cfg.loglevel.upper())
        self.access_log.disabled = True


class _Arbiter(Arbiter):  # type: ignore[misc]  # gunicorn ships no types
    """Lets go of what was loaded to be checked once the worker has its copy."""

    def spawn_worker(self) -> Any:
        pid = super().spawn_worker()
        self.app.preloaded = None
        give_back_freed_memory()
        return pid


class Application(BaseApplication):  # type: ignore[misc]  # gunicorn ships no types
    """gunicorn configured in code: one worker process, threads, our listening socket."""

    def __init__(
        self,
        options: ListenOptions,
        listener: socket.socket,
        ops_listener: socket.socket | None,
        start: Callable[[Any], Running],
        preloaded: Any = None,
    ) -> None:
        self._options = options
        self._listener = listener
        self._ops_listener = ops_listener
        self._start = start
        self.preloaded = preloaded
        self._running: Running | None = None
        super().__init__()

    def load_config(self) -> None:
        options = self._options
        settings = {
            "bind": f"fd://{self._listener.fileno()}",
            "workers": 1,
            "worker_class": self._worker_class(),
            "threads": options.threads,
            "worker_connections": MAX_CONNECTIONS,
            "keepalive": KEEPALIVE_SECONDS,
            "graceful_timeout": GRACEFUL_SECONDS,
            # The worker's main thread only moves bytes; silence for so long means it is stuck.
            "timeout": 60,
            "certfile": options.tls_cert_file,
            "keyfile": options.tls_private_key_file,
            "ca_certs": options.client_ca_file,
            "cert_reqs": int(ssl.CERT_REQUIRED if options.client_ca_file else ssl.CERT_NONE),
            "logger_class": _Logger,
            "loglevel": "debug" if options.verbosity > 1 else "warning",
            "control_socket_disable": True,
            # The worker's sign of life is a file; a read-only root has memory there at least.
            "worker_tmp_dir": SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None,
            "proc_name": PROGRAM,
        }
        for name, value in settings.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def _worker_class(self) -> type[GatheringWorker]:
        application = self

        class Worker(GatheringWorker):
            max_body_bytes = application._options.max_body_bytes

            def on_stopping(self) -> None:
                if application._running is not None:
                    application._running.on_stopping()

            def on_refusal(self, status: HTTPStatus) -> None:
                if application._running is not None:
                    application._running.refused_early(status)

        return Worker

    def load(self) -> Flask:
        """Called in the worker: wire the parts together and start what feeds them."""
        keep_freed_memory()
        running = self._start(self.preloaded)
        self.preloaded = None
        give_back_freed_memory()
        self._running = running
        if self._ops_listener is not None:
            serve_ops(self._ops_listener, running.ops_app)
        return running.app

    def run(self) -> None:
        _Arbiter(self).run()


def announce(listener: socket.socket, tls: bool) -> str:
    """The URL of a listening socket, as a person on this machine would type it."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 (compared, not bound)
    return f"http{'s' if tls else ''}://{Address(host, port)}"
