"""The connection to kube-apiserver: raw bytes over urllib3, set up by the kubernetes package."""

import contextlib
import fcntl
import logging
import re
import socket
import ssl
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

import urllib3
from msgspec import Raw
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util import Timeout
from urllib3.util.ssl_ import create_urllib3_context

from extender import __version__
from extender.cluster.api.config import ClusterConfig, CredentialsError, one_line
from extender.cluster.api.objects import PAGE_LIMIT, page_of, status_of
from extender.kubernetes.decoder import DecodeError
from extender.kubernetes.kinds import Kind

_LOG: Final = logging.getLogger(__name__)

#: Time to connect to the API server, TLS handshake included.
CONNECT_SECONDS: Final = 10.0

#: The most bytes that are read from an answer at a time.
PIECE_BYTES: Final = 256 * 1024

#: Fewer waiting bytes may be only the framing of a chunk or TLS record: a read would then block.
_CHUNK_HEAD_BYTES: Final = 64

#: The object at the beginning of urllib3's error texts.
_OBJECT: Final = re.compile(r"^(<[^>]*>|\w+\([^)]*\)): ")

_CONTENT_TYPES: Final = {"POST": "application/json", "PATCH": "application/merge-patch+json"}


class ConnectionFaultError(Exception):
    """The API server could not be asked, answered with an error, or broke off its answer.

    status: the HTTP status of an error answer, else 0.
    """

    status = 0


class UnreachableError(ConnectionFaultError):
    """No connection that is trusted can be made, or the credentials can't be read."""


class ResetError(ConnectionFaultError):
    """The connection broke off."""


class SilentError(ConnectionFaultError):
    """Nothing has arrived for too long."""


class StatusError(ConnectionFaultError):
    """The API server has answered with an error."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.message = status_of(body).message
        super().__init__(f"HTTP {status} {self.message}".rstrip())


class ApiResponse:
    """An answer whose body is read piece by piece, by one thread."""

    def __init__(self, response: urllib3.BaseHTTPResponse, sock: socket.socket | None) -> None:
        self._response = response
        self._sock = sock
        self.status = response.status

    @property
    def retry_after(self) -> float | None:
        """Retry-After in seconds; None without one, or if it is a date."""
        text = self._response.headers.get("Retry-After", "").strip()
        return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None

    @property
    def has_more(self) -> bool:
        """Whether a further `read_some` returns at once, as far as the socket can tell."""
        if self._sock is None or self._sock.fileno() < 0:
            return False
        waiting = bytearray(4)
        fcntl.ioctl(self._sock, termios.FIONREAD, waiting)
        return int.from_bytes(waiting, sys.byteorder) >= _CHUNK_HEAD_BYTES

    def read_some(self, silence: float) -> bytes:
        """The bytes that have arrived; empty only at the end. Raises ConnectionFaultError."""
        with faults():
            if self._sock is not None:
                self._sock.settimeout(silence)
            return self._response.read1(PIECE_BYTES)

    def read_all(self, silence: float) -> bytes:
        """The whole body; closes the response. Raises ConnectionFaultError."""
        try:
            return b"".join(iter(partial(self.read_some, silence), b""))
        finally:
            self.close()

    def close(self) -> None:
        with contextlib.suppress(Exception):  # nothing more is read from it
            self._response.close()


@contextlib.contextmanager
def faults() -> Iterator[None]:
    """Turns the errors of urllib3 into ConnectionFaultErrors."""
    try:
        yield
    except (urllib3.exceptions.ConnectTimeoutError, urllib3.exceptions.NewConnectionError) as error:
        raise UnreachableError(_cause(error)) from None
    except (urllib3.exceptions.TimeoutError, TimeoutError) as error:
        raise SilentError(_cause(error)) from None
    except (urllib3.exceptions.SSLError, urllib3.exceptions.ProxyError) as error:
        raise UnreachableError(_cause(error)) from None
    except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
        # ValueError and AttributeError come from a socket that another thread has shut down.
        raise ResetError(_cause(error)) from None


def _cause(error: BaseException) -> str:
    """The text of an error without the object that urllib3 prints before it."""
    inner = error.args[-1] if error.args else None
    return _OBJECT.sub("", one_line(inner if isinstance(inner, Exception) else error))


class ApiConnection:
    """A connection to the API server for one thread; other threads may `interrupt` it.

    After a 401 the next request reads the credentials again.
    """

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._generation = -1
        self._pools: urllib3.PoolManager | None = None
        self._sock: socket.socket | None = None
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
        """Send a GET, and wait for the head of the answer. Raises ConnectionFaultError."""
        return self._request("GET", path, query or {}, None, Timeout(connect=connect, read=silence))

    def send(self, method: str, path: str, body: bytes, *, silence: float) -> ApiResponse:
        """Send a POST or a merge PATCH. Raises ConnectionFaultError."""
        return self._request(method, path, {}, body, Timeout(connect=CONNECT_SECONDS, read=silence))

    def interrupt(self) -> None:
        """Cut off the connection, from any thread. It can't be used again."""
        with self._lock:
            self._interrupted = True
            if self._sock is not None:
                # Not SSLSocket.shutdown: it drops the TLS state that the reading thread is using.
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def _request(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None, timeout: Timeout
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
                **({"Content-Type": _CONTENT_TYPES[method]} if body is not None else {}),
            }
        )
        for name, value in self._config.impersonation:
            sent.add(name, value)
        with faults():
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
        if response.status == HTTPStatus.UNAUTHORIZED:
            self._config.rejected()
        return ApiResponse(response, self._sock)

    def _current_pools(self) -> urllib3.PoolManager:
        configuration, generation = self._config.current()
        if self._pools is None or generation != self._generation:
            from kubernetes.client.rest import RESTClientObject

            configuration.connection_pool_maxsize = 1
            try:
                rest: Any = RESTClientObject(configuration)
            except Exception as error:  # any type: certificates that don't load
                raise UnreachableError(f"configuration: {one_line(error)}") from None
            if self._pools is not None:
                self._pools.clear()
            # urllib3 would warn of insecure-skip-tls-verify with each request.
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            self._pools, self._generation = rest.pool_manager, generation
            assert self._pools is not None
            self._pools.connection_pool_kw["ssl_context"] = _lenient_context(configuration)
            self._pools.pool_classes_by_scheme = _tracked_pools(self._keep)
        return self._pools

    def _keep(self, sock: socket.socket) -> None:
        with self._lock:
            self._sock = sock
            if self._interrupted:
                raise OSError("interrupted")


def _lenient_context(configuration: Any) -> ssl.SSLContext:
    """TLS as kubectl does it: certificates are verified, but not as strictly as RFC 5280 asks.

    Python 3.13 and later reject CAs without key identifiers. Long-lived clusters have such CAs,
    managed clusters too (kubernetes-client/python#2394).
    """
    verify = ssl.CERT_REQUIRED if configuration.verify_ssl else ssl.CERT_NONE
    context = create_urllib3_context(cert_reqs=verify)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not (configuration.ssl_ca_cert or configuration.ca_cert_data):
        context.load_default_certs()
    return context


def _tracked_pools(keep: Callable[[socket.socket], None]) -> dict[str, type[HTTPConnectionPool]]:
    """Connection pools of urllib3 that call `keep` with each socket as soon as it is connected."""

    class Tracked(HTTPConnection):
        def connect(self) -> None:
            super().connect()
            keep(self.sock)

    class TrackedSecure(Tracked, HTTPSConnection):
        pass

    class Pool(HTTPConnectionPool):
        ConnectionCls = Tracked

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = TrackedSecure

    return {"http": Pool, "https": SecurePool}


def fetched(
    connection: ApiConnection, path: str, query: Mapping[str, str], silence: float
) -> bytes:
    """GET the body of a 200; retried once after a 401. Raises ConnectionFaultError."""
    response = connection.get(path, query, silence=silence)
    if response.status == HTTPStatus.UNAUTHORIZED:
        response.close()
        response = connection.get(path, query, silence=silence)
    body = response.read_all(silence)
    _LOG.debug("asked", extra={"path": path, "status": response.status, "bytes": len(body)})
    if response.status != HTTPStatus.OK:
        raise StatusError(response.status, body)
    return body


def listed(
    connection: ApiConnection, kind: Kind, query: Mapping[str, str], silence: float
) -> Iterator[Raw]:
    """All objects of a list, page by page. Raises ConnectionFaultError."""
    asked = {**query, "limit": str(PAGE_LIMIT)}
    while True:
        try:
            page = page_of(fetched(connection, kind.path, asked, silence), kind.name)
        except DecodeError as error:
            raise ConnectionFaultError(f"{kind.path}: {error}") from None
        yield from page.items
        if not page.continue_token:
            return
        asked["continue"] = page.continue_token
