"""check --probe: whether the extenders of a configuration answer this host.

kube-scheduler may run on another host: it may reach an extender that this host can't reach.
"""

import base64
import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from tempfile import NamedTemporaryFile
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from extender.cluster.input_files import FileError, read_file
from extender.lint.lints.scheduler_config import object_in
from extender.model.finding import Finding, error
from extender.model.reasons import shown

#: The timeout for connecting, and again for the answer. kube-scheduler's is the same by default.
PROBE_SECONDS: Final = 5.0

_READINESS: Final = "/readyz"
_MAX_ANSWER: Final = 65536


class _ProbeError(Exception):
    """Why the extender could not be asked; one line."""


def probe(place: str, extender: Mapping[str, Any]) -> Iterator[Finding]:
    """Ask one extender whether it is ready, with kube-scheduler's URL and TLS settings."""
    url = str(extender.get("urlPrefix") or "")
    try:
        parts = _parsed(url)
        context = _context(extender) if parts.scheme == "https" else None
        status, text = _ask(parts, context, object_in(extender, "tlsConfig"))
        said = "" if status == HTTPStatus.OK else f"{_READINESS} answers {status} {text}"
    except _ProbeError as cause:
        said = str(cause)
    if said:
        yield error(
            "unreachable",
            f"{place}.urlPrefix {shown(url)}: {shown(said)}",
            "kube-scheduler can place no pod, or with ignorable: true asks nobody",
            f"curl -v {shown(url.rstrip('/'))}{_READINESS}",
        )


def _parsed(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError if it is not a number
    except ValueError as error:
        raise _ProbeError(f"no URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _ProbeError("no URL: expected http://HOST:PORT or https://HOST:PORT")
    return parts


def _ask(
    parts: SplitResult, context: ssl.SSLContext | None, tls: Mapping[str, Any]
) -> tuple[int, str]:
    address = parts.hostname or "", parts.port or (443 if context else 80)
    request = f"GET {parts.path.rstrip('/')}{_READINESS} HTTP/1.0\r\nHost: {parts.netloc}\r\n\r\n"
    with ExitStack() as opened:
        try:
            stream = opened.enter_context(socket.create_connection(address, PROBE_SECONDS))
            if context:
                name = str(tls.get("serverName") or parts.hostname)
                stream = opened.enter_context(context.wrap_socket(stream, server_hostname=name))
            stream.sendall(request.encode())
            answer = HTTPResponse(stream)
            answer.begin()
            text = answer.read(_MAX_ANSWER).decode(errors="replace")
        except TimeoutError:
            raise _ProbeError(f"no answer within {PROBE_SECONDS:g} s") from None
        except HTTPException:
            raise _ProbeError("the answer is not HTTP") from None
        except (OSError, ValueError) as error:
            raise _ProbeError(_cause(error)) from None
    return answer.status, " ".join(text.split())


def _cause(error: Exception) -> str:
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())


def _context(extender: Mapping[str, Any]) -> ssl.SSLContext:
    """The TLS settings, as in pkg/scheduler/extender.go makeTransport, v1.36.2."""
    tls = object_in(extender, "tlsConfig")
    try:
        ca, cert, key = (_pem(tls, part) for part in ("ca", "cert", "key"))
        context = ssl.create_default_context(cadata=ca or None)
        if tls.get("insecure") is True or (extender.get("enableHTTPS") is True and not ca):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if cert:
            # OpenSSL reads certificate and key only from a file. Only its owner can read this file.
            with NamedTemporaryFile("w") as file:
                file.write(f"{cert}\n{key}")
                file.flush()
                context.load_cert_chain(file.name, password=_encrypted)
    except (OSError, ValueError, FileError) as error:
        raise _ProbeError(f"tlsConfig: {_cause(error)}") from None
    return context


def _encrypted() -> str:
    """Called when the key needs a password. kube-scheduler has no password either."""
    raise ValueError("the key is encrypted")


def _pem(tls: Mapping[str, Any], part: str) -> str:
    """The CA, certificate or key in PEM; "" if it is not configured."""
    if tls.get(f"{part}Data"):
        return base64.b64decode(str(tls[f"{part}Data"]), validate=True).decode()
    name = tls.get(f"{part}File")
    return read_file(str(name)).decode("ascii", errors="replace") if name else ""
