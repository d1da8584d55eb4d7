"""How serve and webhook begin: everything is checked first, then gunicorn runs.

Flags, files and addresses are checked in the first process, and manifests read there; the parts are
put together in gunicorn's worker, after the fork, since threads do not survive one.
"""

import gc
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeVar

from extender.cluster.cluster_config import ClusterConfig
from extender.cluster.manifest_files import signatures
from extender.cluster.manifest_objects import Manifests, Uses
from extender.cluster.reading_manifests import load_manifests
from extender.cluster.snapshot_store import SnapshotStore, Swap
from extender.cluster.source_options import SourceOptions
from extender.http.app import create_ops_app
from extender.http.exchange import Application as HTTPApplication
from extender.http.review_routes import WebhookService
from extender.http.routing import Threads
from extender.http.service import Service
from extender.input_files import Signature
from extender.serving import logs
from extender.serving.gunicorn_worker import Application, Running
from extender.serving.listeners import (
    ListenOptions,
    announce,
    check_tls_files,
    hears_all_addresses,
    listen_on,
)
from extender.streams import say

_LOG: Final = logging.getLogger(__name__)


ServiceT = TypeVar("ServiceT", Service, WebhookService)


class Source(Protocol):
    """What writes the store, on threads of its own: a cluster or manifests that are followed."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def descriptions(self) -> Mapping[str, Callable[[], str]]:
        """What readiness shows, a line a part: empty while all is well."""


#: The manifests' content, or how to reach the cluster.
Preloaded = tuple[tuple[Signature, ...], Manifests] | ClusterConfig


class _Loaded:
    """The source's content for the first worker; a worker that replaces it reads again."""

    def __init__(self, source: SourceOptions) -> None:
        """Raises UsageError."""
        self._source = source
        self.value: Preloaded | None = _preload(source)

    def take(self) -> Preloaded:
        value = self.value or _preload(self._source)
        self.forget()
        return value

    def forget(self) -> None:
        self.value = None


def _preload(source: SourceOptions) -> Preloaded:
    """Raises UsageError."""
    if source.manifests:
        loaded = Manifests(uses=Uses() if source.uses else None)
        return signatures(source.manifests), load_manifests(source.manifests, loaded)
    config = ClusterConfig(source.kubeconfig, source.context)
    for warning in config.warnings:
        _LOG.warning(warning)
    return config


def run(
    listen: ListenOptions,
    source: SourceOptions,
    line_to_try: Callable[[str, str, Preloaded | None], str],
    start: Callable[[Preloaded], Running],
) -> int:
    """Run until a signal ends it. Raises UsageError for what a person can correct.

    line_to_try makes a line from curl with its flags and the URL; start is called in the worker.
    """
    logs.configure(listen.log_format, listen.verbosity)
    check_tls_files(listen)
    loaded = _Loaded(source)
    listener = listen_on(listen.bind, "--bind")
    ops_listener = listen_on(listen.ops_bind, "--ops-bind") if listen.ops_bind else None
    if not (listen.tls_cert_file or listen.bind.is_loopback):
        _LOG.warning(
            "--bind %s without TLS: any client of this address may ask about nodes and"
            " RuntimeClasses; --tls-cert-file, --tls-private-key-file and --client-ca-file let in"
            " only those who have a certificate",
            listen.bind,
        )
    url = announce(listener, bool(listen.tls_cert_file))
    hints = [(listener, "listening on", url, line_to_try(_curl(listen), url, loaded.value))]
    if ops_listener is not None:
        hints.append((ops_listener, "probes and metrics on", announce(ops_listener, tls=False), ""))
    for heard, what, url, line in hints:
        where = f"{url} and all other addresses" if hears_all_addresses(heard) else url
        if listen.log_format == "json":
            _LOG.info("%s %s", what, where, extra={"try": line} if line else {})
        else:
            say(f"{what} {where}" + (" (Ctrl-C stops); try:" if line else ""))
            say(*[f"  {line}"] if line else [])

    def start_in_worker() -> Running:
        return start(loaded.take())

    Application(listen, listener, ops_listener, start_in_worker, loaded.forget).run()
    return 0


def _curl(listen: ListenOptions) -> str:
    """The curl command for this machine, whose name no certificate may have."""
    if not listen.tls_cert_file:
        return "curl -sS"
    client = " --cert CLIENT.crt --key CLIENT.key" if listen.client_ca_file else ""
    return f"curl -sS --insecure{client}"


def readiness_line(curl: str, url: str) -> str:
    return f"{curl} '{url}/readyz?verbose'"


def start_worker(
    listen: ListenOptions,
    source: Source,
    store: SnapshotStore,
    service: ServiceT,
    create_app: Callable[[ServiceT, Threads], HTTPApplication],
) -> Running:
    """Called in the worker once its parts are made: begin to follow the source."""
    health = service.health
    health.sources.update(source.descriptions())
    store.subscribe(_FreezeOnceSynced(needs_nodes=health.needs_nodes))
    source.start()

    def stop() -> None:
        health.stopping.set()
        source.stop()

    threads = Threads.of(listen.threads)
    return Running(create_app(service, threads), create_ops_app(service, threads), threads, stop)


class _FreezeOnceSynced:
    """Exempts the objects of the first full sync from garbage collection.

    It lives as long as the process. A full collection walks every container; with the nodes of a
    large cluster that is tens of milliseconds in the middle of a request.
    """

    def __init__(self, *, needs_nodes: bool) -> None:
        self._needs_nodes = needs_nodes
        self._done = False

    def __call__(self, swap: Swap) -> None:
        snapshot = swap.new
        has_nodes = snapshot.nodes_synced or not self._needs_nodes
        if not self._done and has_nodes and snapshot.runtime_classes_synced:
            self._done = True
            gc.collect()
            gc.freeze()
            nodes = {"nodes": len(snapshot.nodes), "shapes": len(snapshot.shapes)}
            classes = {"runtimeclasses": len(snapshot.runtime_classes)}
            _LOG.info("serving", extra=nodes | classes if self._needs_nodes else classes)
