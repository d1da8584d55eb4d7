"""Where a server listens: addresses and certificates are checked before anything starts.

A fault is reported in one line.
"""

import contextlib
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from extender.flags import Address, UsageError
from extender.http.service import DEFAULT_MAX_BODY_BYTES
from extender.input_files import FileError, check_file


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """The flags that serve and webhook share: where to listen, and how."""

    bind: Address
    ops_bind: Address | None = None
    threads: int = 8
    tls_cert_file: str | None = None
    tls_private_key_file: str | None = None
    client_ca_file: str | None = None
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES
    log_format: str = "text"
    verbosity: int = 0


def check_tls_files(options: ListenOptions) -> None:
    """Load the certificate once, so that errors are reported at once. Raises UsageError."""
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
                check_file(path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _told_as_usage(f"--tls-cert-file {cert}, --tls-private-key-file {key}"):
        context.load_cert_chain(cert, key, password=lambda: _encrypted(key))
    with _told_as_usage(f"--client-ca-file {ca}"):
        if ca:
            context.load_verify_locations(ca)


@contextlib.contextmanager
def _told_as_usage(what: str) -> Iterator[None]:
    try:
        yield
    except FileError as error:
        raise UsageError(f"{what}: {error}") from None
    except OSError as error:  # ssl.SSLError is one
        raise UsageError(f"{what}: {error.strerror or error}") from None


def _encrypted(key: str) -> str:
    """Called for a password. Raises UsageError, where OpenSSL would ask on the terminal."""
    raise UsageError(
        f"--tls-private-key-file {key}: is encrypted; decrypt it with openssl pkey -in {key}"
    )


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


#: The addresses that mean all interfaces, and the loopback address that reaches them.
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (compared, not bound)


def announce(listener: socket.socket, tls: bool) -> str:
    """The URL of a listening socket, as a person on this machine would type it."""
    host, port = listener.getsockname()[:2]
    return f"http{'s' if tls else ''}://{Address(_LOOPBACK.get(host, host), port)}"


def hears_all_addresses(listener: socket.socket) -> bool:
    return listener.getsockname()[0] in _LOOPBACK
