"""The server's TLS context, rebuilt when the certificate's files change.

cert-manager and the kubelet replace the files of a mounted Secret while the server runs; new
connections get the new certificate, open ones keep theirs.
"""

import logging
import ssl
import time

from extender.input_files import Signature, signature_of

# stat() of three files costs about 5 us, so they are not checked more often; a rotation may go
# unnoticed that long.
CHECK_INTERVAL = 1.0


class TlsContext:
    """Owned by the poller thread.

    `certfile` and `keyfile` are PEM files (`keyfile` None: the key is in `certfile`).
    `ca_certs` is the bundle that must have signed the client's certificate; None asks for none.
    Raises OSError or ssl.SSLError when the files can't be loaded at first.
    """

    def __init__(
        self,
        certfile: str,
        keyfile: str | None,
        ca_certs: str | None,
        log: logging.Logger,
    ) -> None:
        self._certfile = certfile
        self._keyfile = keyfile
        self._ca_certs = ca_certs
        self._log = log
        self._checked = time.monotonic()
        self._signature = self._read_signature()
        self._context = self._load()

    def current(self) -> ssl.SSLContext:
        """The context for a new connection, made of the newest files that could be loaded."""
        now = time.monotonic()
        if now - self._checked >= CHECK_INTERVAL:
            self._checked = now
            self._reload_if_changed()
        return self._context

    def _reload_if_changed(self) -> None:
        # The signature is taken before the files are read: a change while they are being read
        # is seen as another change at the next check.
        signature = self._read_signature()
        if signature == self._signature:
            return
        self._signature = signature
        try:
            self._context = self._load()
        except (OSError, ValueError) as error:
            message = "keeping the previous TLS certificate, %s can't be loaded: %s"
            self._log.warning(message, self._certfile, error)
        else:
            self._log.info("loaded the changed TLS certificate of %s", self._certfile)

    def _read_signature(self) -> tuple[Signature | None, ...]:
        """A value that differs once a file is replaced or rewritten; None for a missing file."""
        return tuple(
            _signature_of(path)
            for path in (self._certfile, self._keyfile, self._ca_certs)
            if path is not None
        )

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A renegotiation would make a send wait for bytes to receive.
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        # An empty password: an encrypted key is an error, not a prompt on the terminal.
        context.load_cert_chain(self._certfile, self._keyfile, password="")
        if self._ca_certs is not None:
            context.load_verify_locations(cafile=self._ca_certs)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _signature_of(path: str) -> Signature | None:
    try:
        return signature_of(path)
    except OSError:
        return None
