"""check --probe: whether the extenders of a configuration answer from here.

This host may differ from kube-scheduler's, so an extender that is unreachable from here may be
reachable from there.
"""

import base64
import binascii
import http.client
import os
import socket
import ssl
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import urlsplit

from extender.checks.finding import Finding, Severity
from extender.input_files import FileError, check_file, read_file
from extender.reasons import shown

#: Time for a whole probe, connection and TLS handshake included; kube-scheduler waits 5 s for an
#: answer.
PROBE_SECONDS: Final = 5.0

_LATE: Final = f"no answer within {PROBE_SECONDS:g} s"
_READINESS: Final = "/readyz"
_MAX_ANSWER: Final = 65536


class _ProbeError(Exception):
    """Why the extender could not be asked; one line."""


def probe(place: str, extender: Mapping[str, Any]) -> list[Finding]:
    """Ask one extender's readiness as kube-scheduler would reach it."""
    url = str(extender.get("urlPrefix") or "")
    try:
        status, answer = _get(url, extender)
    except _ProbeError as error:
        said = str(error)
    else:
        if status == http.client.OK:
            return []
        said = f"{_READINESS} answers {status} {answer}"
    return [
        Finding(
            Severity.ERROR,
            "unreachable",
            f"{place}.urlPrefix {shown(url)}: {shown(said)}",
            "kube-scheduler can place no pod, or with ignorable: true asks nobody",
            f"curl -v {shown(url.rstrip('/'))}{_READINESS}",
        )
    ]


def _get(url: str, extender: Mapping[str, Any]) -> tuple[int, str]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _ProbeError(f"no URL: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise _ProbeError("no URL: expected http://HOST:PORT or https://HOST:PORT")
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        tls = extender.get("tlsConfig") or {}
        connection = _VerifiedAs(
            host, port, str(tls.get("serverName") or host), _context(extender, tls)
        )
    else:
        connection = http.client.HTTPConnection(host, port, timeout=PROBE_SECONDS)
    return _ask(connection, parts.path.rstrip("/") + _READINESS)


def _ask(connection: http.client.HTTPConnection, path: str) -> tuple[int, str]:
    # The socket's own timeout starts again with each byte, and a server may send them one by one.
    expired = threading.Event()
    deadline = threading.Timer(PROBE_SECONDS, _cut_off, [connection, expired])
    deadline.daemon = True
    deadline.start()
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read(_MAX_ANSWER).decode(errors="replace")
    except (OSError, http.client.HTTPException, ValueError) as error:
        if expired.is_set() or isinstance(error, TimeoutError):
            raise _ProbeError(_LATE) from None
        raise _ProbeError(_cause(error)) from None
    finally:
        deadline.cancel()
        connection.close()
    if expired.is_set():
        # http.client accepts headers that break off as complete.
        raise _ProbeError(_LATE)
    return response.status, " ".join(text.split())


def _cut_off(connection: http.client.HTTPConnection, expired: threading.Event) -> None:
    expired.set()
    sock = connection.sock
    if sock is not None:
        # Not SSLSocket.shutdown: that takes the TLS state from under the reading thread.
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _cause(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())


class _VerifiedAs(http.client.HTTPSConnection):
    """A connection to a server whose certificate is for another name than its address."""

    def __init__(self, host: str, port: int | None, name: str, context: ssl.SSLContext) -> None:
        super().__init__(host, port, timeout=PROBE_SECONDS, context=context)
        self._name = name
        self._tls = context

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def _context(extender: Mapping[str, Any], tls: Mapping[str, Any]) -> ssl.SSLContext:
    """TLS as pkg/scheduler/extender.go makeTransport sets it up, v1.36.2."""
    try:
        context = ssl.create_default_context()
        has_ca = tls.get("caFile") or tls.get("caData")
        if tls.get("insecure") is True or (extender.get("enableHTTPS") is True and not has_ca):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif has_ca:
            context = ssl.create_default_context(cadata=_ca(tls))
        with _file(tls, "cert") as cert, _file(tls, "key") as key:
            if cert:
                context.load_cert_chain(cert, key, password=_encrypted)
    except (OSError, ValueError, FileError, binascii.Error) as error:
        raise _ProbeError(f"tlsConfig: {_cause(error)}") from None
    return context


def _encrypted() -> str:
    """Called for a password; kube-scheduler has none either."""
    raise ValueError("the key is encrypted")


def _ca(tls: Mapping[str, Any]) -> str:
    if tls.get("caData"):
        return base64.b64decode(str(tls["caData"]), validate=True).decode()
    return read_file(str(tls["caFile"])).decode("ascii", errors="replace")


@contextmanager
def _file(tls: Mapping[str, Any], part: str) -> Iterator[str | None]:
    """The certificate or key as a file, since OpenSSL reads them only from files."""
    inline = tls.get(f"{part}Data")
    if not inline:
        name = str(tls[f"{part}File"]) if tls.get(f"{part}File") else None
        if name:
            check_file(name)
        yield name
        return
    # mkstemp makes it readable by the owner alone.
    handle, name = tempfile.mkstemp()
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(base64.b64decode(str(inline), validate=True))
        yield name
    finally:
        os.unlink(name)
