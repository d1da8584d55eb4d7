"""Starts serve and webhook: flags and source are checked in the first process, then gunicorn runs.

The parts are put together in gunicorn's worker, since threads do not survive the fork.
"""

import gc
import ipaddress
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import click

from extender.cli.commands import check_source
from extender.cli.flags import Flag, Flags, choice, flag
from extender.cli.streams import say
from extender.cluster.api.config import ClusterConfig
from extender.cluster.following_manifests import ManifestFollower
from extender.cluster.input_files import Signature, signatures
from extender.cluster.live_cluster import LiveCluster
from extender.cluster.manifest_objects import Manifests, Uses, load_manifests
from extender.cluster.snapshot_store import SnapshotStore, Swap
from extender.http.asgi import Application as ASGIApplication
from extender.http.health import Health
from extender.model.errors import UsageError
from extender.server import logs
from extender.server.connection import TlsFiles
from extender.server.gunicorn_worker import Application, Running

_LOG: Final = logging.getLogger(__name__)

#: The compiled part stores positions in a body in 32 bits.
_MAX_BODY_LIMIT: Final = 2**32 - 1

#: The socket buffers of a connection. The kernel doubles both and counts them as the pod's memory.
#: For each TLS connection, uvloop buffers as much as the second, encrypted and again decrypted.
SEND_BUFFER_BYTES: Final = 256 * 1024
TLS_RECEIVE_BYTES: Final = 32 * 1024

#: The addresses that mean all interfaces. Both are reached by _LOOPBACK: listen_on is dual-stack.
_ALL: Final = ("0.0.0.0", "::")  # noqa: S104 (compared, not bound)
_LOOPBACK: Final = "127.0.0.1"

#: The manifests' content, or how to reach the cluster.
Preloaded = tuple[tuple[Signature, ...], Manifests] | ClusterConfig


@dataclass(frozen=True, slots=True)
class Address:
    """HOST:PORT to listen on. An empty host means all addresses, IPv4 and IPv6."""

    host: str
    port: int

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.host

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.is_ipv6 else f"{self.host}:{self.port}"


def address(text: str) -> Address:
    """HOST:PORT, an IPv6 host in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise click.BadParameter(f"{text!r} is not HOST:PORT with a port of 0 to 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        try:
            ipaddress.IPv6Address(host.partition("%")[0])
        except ValueError:
            raise click.BadParameter(f"{host!r} is not an IPv6 address") from None
    elif ":" in host:
        raise click.BadParameter(f"{text!r}: an IPv6 address stands in brackets, [::1]:8888")
    return Address(host, int(port))


#: The source of the cluster's state. It writes the store, on its own threads.
Source = LiveCluster | ManifestFollower


def listener_flags(bind: str, max_body_bytes: int, threads_help: str) -> list[Flag]:
    return [
        flag("--bind HOST:PORT", "address to listen on", default=bind, type=address),
        flag(
            "--ops-bind HOST:PORT",
            "second listener, in plain HTTP, for /livez, /readyz and /metrics; --bind then has no"
            " /metrics",
            type=address,
        ),
        flag("--tls-cert-file FILE", "TLS certificate, PEM"),
        flag("--tls-private-key-file FILE", "private key of the certificate, PEM"),
        flag("--client-ca-file FILE", "require client certificates signed by this CA, PEM"),
        flag(
            "--max-body-bytes N",
            "largest request body; a larger one is answered with 413",
            type=click.IntRange(1, _MAX_BODY_LIMIT),
            default=max_body_bytes,
        ),
        choice("--log-format", "format of the log", values=["text", "json"], default="text"),
        flag("--threads N", threads_help, type=click.IntRange(1, 1024), default=8),
    ]


def _tls_of(flags: Flags) -> TlsFiles | None:
    """Raises UsageError for flags that don't go together, and for files that can't be loaded."""
    files = TlsFiles(flags.tls_cert_file, flags.tls_private_key_file, flags.client_ca_file)
    if files.tls_cert_file and files.tls_private_key_file:
        files.load()
        return files
    if files.tls_cert_file or files.tls_private_key_file:
        raise UsageError("--tls-cert-file and --tls-private-key-file go together")
    if files.client_ca_file:
        raise UsageError("--client-ca-file needs --tls-cert-file and --tls-private-key-file")
    return None


def listen_on(address: Address, flag: str, *, tls: bool = False) -> socket.socket:
    """Bind here, since gunicorn would try five times. Raises UsageError."""
    both = address.is_ipv6 or (not address.host and socket.has_dualstack_ipv6())
    family = socket.AF_INET6 if both else socket.AF_INET
    where = address.host, address.port
    try:
        # create_server raises a ValueError where both are impossible; the socket an OSError.
        both = both and socket.has_dualstack_ipv6()
        listener = socket.create_server(where, family=family, dualstack_ipv6=both)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise UsageError(f"{flag} {address}: {why}; choose another with {flag} HOST:PORT") from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    if tls:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, TLS_RECEIVE_BYTES)
    return listener


def announce(listener: socket.socket, tls: bool) -> tuple[str, str]:
    """The URL of a listener as a user of this machine would type it, and a phrase for the log."""
    host, port = listener.getsockname()[:2]
    url = f"http{'s' if tls else ''}://{Address(_LOOPBACK if host in _ALL else host, port)}"
    return url, f"{url} and all other addresses" if host in _ALL else url


def _preload(flags: Flags, uses: bool) -> Preloaded:
    """Raises UsageError."""
    check_source(flags)
    if flags.manifests:
        loaded = Manifests(uses=Uses() if uses else None)
        return signatures(flags.manifests), load_manifests(flags.manifests, loaded)
    return ClusterConfig(flags.kubeconfig, flags.context)


def run(flags: Flags, start: Callable[[Preloaded], Running], uses: bool = False) -> int:
    """Run until a signal comes. Raises UsageError.

    start: called in the worker. uses: also read the pods and workloads of manifests.
    """
    logs.configure(flags.log_format, flags.verbose)
    tls = _tls_of(flags)
    # For the first worker. A worker that replaces it reads the source again.
    loaded = [_preload(flags, uses)]
    os.register_at_fork(after_in_parent=loaded.clear)
    listener = listen_on(flags.bind, "--bind", tls=bool(tls))
    ops_listener = listen_on(flags.ops_bind, "--ops-bind") if flags.ops_bind else None
    if not (tls or flags.bind.is_loopback):
        _LOG.warning(
            "--bind %s without TLS: any client of this address may ask about nodes and"
            " RuntimeClasses; --tls-cert-file, --tls-private-key-file and --client-ca-file let in"
            " only clients with a certificate",
            flags.bind,
        )
    url, where = announce(listener, bool(tls))
    lines = [("listening on", where, f"{_curl(tls)} '{url}/readyz?verbose'")]
    if ops_listener is not None:
        lines.append(("probes and metrics on", announce(ops_listener, tls=False)[1], ""))
    for what, where, line in lines:
        if flags.log_format == "json":
            _LOG.info("%s %s", what, where, extra={"try": line} if line else {})
        else:
            say(f"{what} {where}" + (" (Ctrl-C stops); try:" if line else ""))
            say(*[f"  {line}"] if line else [])

    def start_in_worker() -> Running:
        preloaded = loaded.pop() if loaded else _preload(flags, uses)
        return start(preloaded)._replace(ops_listener=ops_listener, tls=tls)

    Application(listener, start_in_worker).run()
    return 0


def _curl(tls: TlsFiles | None) -> str:
    """The curl command for this machine. --insecure: the certificate may lack this host's name."""
    if tls is None:
        return "curl -sS"
    client = " --cert CLIENT.crt --key CLIENT.key" if tls.client_ca_file else ""
    return f"curl -sS --insecure{client}"


def start_worker(
    source: Source,
    store: SnapshotStore,
    health: Health,
    app: ASGIApplication,
    ops_app: ASGIApplication,
) -> Running:
    """Called in the worker when its parts are made: start to follow the source."""
    health.sources.update(source.descriptions())
    store.subscribe(partial(_once_synced, health.needs_nodes))
    source.start()

    def stop() -> None:
        health.stopping.set()
        source.stop()

    return Running(app, ops_app, stop)


def _once_synced(needs_nodes: bool, swap: Swap) -> None:
    """Exempts the objects of the first full sync from garbage collection.

    A full collection would walk them for tens of milliseconds in the middle of a request.
    """
    old, new = (
        each.runtime_classes_synced and (each.nodes_synced or not needs_nodes)
        for each in (swap.old, swap.new)
    )
    if new and not old:
        gc.collect()
        gc.freeze()
        nodes = {"nodes": len(swap.new.nodes), "shapes": len(swap.new.shapes)}
        classes = {"runtimeclasses": len(swap.new.runtime_classes)}
        _LOG.info("serving", extra=nodes | classes if needs_nodes else classes)
