"""The --ops-bind listener: probes and metrics over plain HTTP, on threads of their own.

So a probe is answered however busy the main listener is, and needs no client certificate.
"""

import contextlib
import logging
import socket
import threading
from socketserver import BaseServer, ThreadingMixIn
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from flask import Flask

_LOG: Final = logging.getLogger(__name__)

#: A connection is cut off after that long, whatever it is doing.
CONNECTION_SECONDS: Final = 10.0

#: Connections at a time: a kubelet and some Prometheus servers. More are closed at once.
MAX_CONNECTIONS: Final = 64


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, listener: socket.socket, app: Flask) -> None:
        # Not WSGIServer's own: the socket is bound already.
        BaseServer.__init__(self, listener.getsockname()[:2], _Handler)
        self.socket = listener
        self.server_name, self.server_port = listener.getsockname()[:2]
        self.setup_environ()
        self.set_app(app)
        self._places = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        cut = threading.Timer(CONNECTION_SECONDS, _cut_off, [request])
        cut.daemon = True
        cut.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            cut.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        _LOG.debug("closing an ops connection", exc_info=True)


def _cut_off(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(WSGIRequestHandler):
    def address_string(self) -> str:
        return str(self.client_address[0])

    def log_message(self, format: str, *args: object) -> None:
        _LOG.debug("ops request", extra={"line": format % args})


def serve_ops(listener: socket.socket, app: Flask) -> None:
    """Serve the application on a bound, listening socket from now on."""
    server = _Server(listener, app)
    threading.Thread(target=server.serve_forever, name="ops", daemon=True).start()
