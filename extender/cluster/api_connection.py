"""The connection to kube-apiserver: raw bytes over urllib3, set up by the kubernetes package."""

import contextlib
import re
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util import Timeout
from urllib3.util.ssl_ import create_urllib3_context

from extender import __version__
from extender.cluster.api_objects import MAX_BODY_BYTES
from extender.cluster.cluster_config import ClusterConfig, CredentialsError, one_line

#: Time to connect to the API server, TLS handshake included.
CONNECT_SECONDS: Final = 10.0

#: The most that is read from a watch at a time.
PIECE_BYTES: Final = 256 * 1024

#: The kernel notices a dead peer after 30 + 4 * 10 s.
_KEEPALIVE: Final = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4))
        if hasattr(socket, name)
    ),
]


#: The object with which urllib3 begins the texts of its errors.
_OBJECT: Final = re.compile(r"^(<[^>]*>|\w+\([^)]*\)): ")


class ConnectionFaultError(Exception):
    """The API server could not be asked, or stopped in the middle of its answer."""


class UnreachableError(ConnectionFaultError):
    """There is no connection, or none that may be trusted."""


class ResetError(ConnectionFaultError):
    """The connection broke off."""


class SilentError(ConnectionFaultError):
    """Nothing has arrived for too long."""


class TooLargeError(ConnectionFaultError):
    """The body is over MAX_BODY_BYTES."""


class ApiResponse:
    """An answer whose body is read piece by piece, by one thread."""

    def __init__(self, response: urllib3.BaseHTTPResponse, sock: socket.socket | None) -> None:
        self._response = response
        self._sock = sock
        self.status = response.status

    @property
    def retry_after(self) -> float | None:
        """Retry-After in seconds; a date in it is not understood."""
        text = self._response.headers.get("Retry-After", "").strip()
        return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None

    def read_some(self, silence: float) -> bytes:
        """What has arrived, at least a byte; empty at the end. Raises ConnectionFaultError."""
        with _faults():
            if self._sock is not None:
                self._sock.settimeout(silence)
            return self._response.read1(PIECE_BYTES)

    def read_all(self, silence: float, limit: int = MAX_BODY_BYTES) -> bytes:
        """The whole body. Raises ConnectionFaultError."""
        pieces = []
        left = limit
        while piece := self.read_some(silence):
            pieces.append(piece)
            left -= len(piece)
            if left < 0:
                raise TooLargeError(f"a body of more than {limit} bytes")
        return b"".join(pieces)

    def is_idle(self) -> bool:
        """Whether nothing more has arrived yet, as far as is known without reading."""
        sock = self._sock
        if sock is None or sock.fileno() < 0:
            return True
        pending = getattr(sock, "pending", None)
        if pending is not None and pending():
            return False
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        with contextlib.suppress(Exception):  # it is thrown away
            self._response.close()


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except (urllib3.exceptions.ConnectTimeoutError, urllib3.exceptions.NewConnectionError) as error:
        raise UnreachableError(_cause(error)) from None
    except (urllib3.exceptions.TimeoutError, TimeoutError) as error:
        raise SilentError(_cause(error)) from None
    except (urllib3.exceptions.SSLError, urllib3.exceptions.ProxyError) as error:
        raise UnreachableError(_cause(error)) from None
    except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
        # Reading from a socket that another thread has shut down raises the last two.
        raise ResetError(_cause(error)) from None


def _cause(error: BaseException) -> str:
    """The text of an error without the objects that urllib3 prints in it."""
    inner = error.args[-1] if error.args else None
    return _OBJECT.sub("", one_line(inner if isinstance(inner, Exception) else error))


class ApiConnection:
    """One thread's connection to the API server, which `interrupt` cuts off."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._generation = -1
        self._pools: urllib3.PoolManager | None = None
        self._socks: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._interrupted = False

    def get(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        silence: float,
        connect: float = CONNECT_SECONDS,
    ) -> ApiResponse:
        """Send a request and wait for the answer's head. Raises ConnectionFaultError."""
        return self._request("GET", path, query or {}, None, {}, Timeout(connect, silence))

    def merge_patch(self, path: str, body: bytes, *, silence: float) -> ApiResponse:
        """Raises ConnectionFaultError."""
        headers = {"Content-Type": "application/merge-patch+json"}
        return self._request("PATCH", path, {}, body, headers, Timeout(CONNECT_SECONDS, silence))

    def rejected(self) -> None:
        """The API server has answered 401."""
        self._config.rejected()

    def interrupt(self) -> None:
        """Cut off whatever this connection is doing, from any thread; it can't be used again."""
        with self._lock:
            self._interrupted = True
            for sock in self._socks:
                # Not SSLSocket.shutdown: that takes the TLS state from under the reading thread.
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: Timeout,
    ) -> ApiResponse:
        pools = self._current_pools()
        try:
            authorization = self._config.authorization()
        except CredentialsError as error:
            raise UnreachableError(str(error)) from None
        # A name may come twice: each group of an impersonated user has a header of its own.
        sent = urllib3.HTTPHeaderDict(
            {
                "Accept": "application/json",
                "User-Agent": f"runtimeclass-extender/{__version__}",
                **({"Authorization": authorization} if authorization else {}),
                **headers,
            }
        )
        for name, value in self._config.impersonation:
            sent.add(name, value)
        with _faults():
            response = pools.request(
                method,
                f"{self._config.host}{path}" + (f"?{urlencode(query)}" if query else ""),
                body=body,
                headers=sent,
                timeout=timeout,
                retries=False,
                redirect=False,
                preload_content=False,
            )
        with self._lock:
            sock = next(iter(self._socks), None)
        return ApiResponse(response, sock)

    def _current_pools(self) -> urllib3.PoolManager:
        configuration, generation = self._config.current()
        if self._pools is None or generation != self._generation:
            from kubernetes.client.rest import RESTClientObject

            configuration.connection_pool_maxsize = 1
            configuration.socket_options = _KEEPALIVE
            try:
                rest: Any = RESTClientObject(configuration)
            except Exception as error:  # certificates that don't load, of whatever kind
                raise UnreachableError(f"configuration: {one_line(error)}") from None
            if self._pools is not None:
                self._pools.clear()
            # The warning is logged once, where the configuration is read; urllib3 would repeat it
            # for each request.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            self._pools, self._generation = rest.pool_manager, generation
            assert self._pools is not None
            self._pools.connection_pool_kw["ssl_context"] = _lenient_context(configuration)
            self._pools.pool_classes_by_scheme = _tracked_pools(self._keep)
        return self._pools

    def _keep(self, sock: socket.socket) -> None:
        with self._lock:
            self._socks = {sock}
            if self._interrupted:
                raise OSError("interrupted")


def _lenient_context(configuration: Any) -> ssl.SSLContext:
    """TLS as kubectl does it: verified, but not to the letter of RFC 5280.

    Python 3.13 and later turn away CAs without key identifiers, which long-lived clusters have,
    managed ones among them (kubernetes-client/python#2394).
    """
    verify = ssl.CERT_REQUIRED if configuration.verify_ssl else ssl.CERT_NONE
    context = create_urllib3_context(cert_reqs=verify)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not (configuration.ssl_ca_cert or configuration.ca_cert_data):
        context.load_default_certs()
    return context


def _tracked_pools(
    keep: Callable[[socket.socket], None],
) -> dict[str, type[HTTPConnectionPool]]:
    """urllib3's connection pools, which call `keep` with each socket as soon as it is connected."""

    class Connection(HTTPConnection):
        def connect(self) -> None:
            super().connect()
            keep(self.sock)

    class SecureConnection(HTTPSConnection):
        def connect(self) -> None:
            super().connect()
            keep(self.sock)

    class Pool(HTTPConnectionPool):
        ConnectionCls = Connection

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = SecureConnection

    return {"http": Pool, "https": SecurePool}
