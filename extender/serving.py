"""The serve command: wires sources → store → snapshot and routes → verbs together, then runs.

The wiring takes place in gunicorn's worker, after the fork: threads do not survive one.
"""

import gc
import logging
import sys
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from extender import logs
from extender.cluster.following_manifests import ManifestFollower
from extender.cluster.manifests import (
    ManifestError,
    Manifests,
    Signature,
    load_manifests,
    signature,
)
from extender.cluster.store import SnapshotStore
from extender.flags import UsageError
from extender.http.app import create_app, create_ops_app
from extender.http.health import Health
from extender.http.service import Service
from extender.metrics import CacheCollector, Metrics, RefusedPodsCollector
from extender.refused import RefusedPods
from extender.server import (
    Application,
    ListenOptions,
    Running,
    announce,
    check_tls_files,
    listen_on,
)
from extender.snapshot import Snapshot
from extender.verbs.matching import Policy

_LOG: Final = logging.getLogger(__name__)

Preloaded = tuple[Signature, Manifests]


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The flags of serve."""

    listen: ListenOptions
    manifests: tuple[str, ...] = ()
    policy: Policy = field(default_factory=Policy)


def serve(options: ServeOptions) -> int:
    """Run until told to stop. Raises UsageError for what a person can mend."""
    listen = options.listen
    logs.configure(listen.log_format, listen.verbosity)
    check_tls_files(listen)
    if not options.manifests:
        raise UsageError("--manifests PATH is needed")
    listener = listen_on(listen.bind, "--bind")
    ops_listener = listen_on(listen.ops_bind, "--ops-bind") if listen.ops_bind else None
    preloaded = _load(options.manifests)
    url = announce(listener, bool(listen.tls_cert_file))
    print(
        f"listening on {url} (Ctrl-C stops); try:\n  curl -s '{url}/readyz?verbose'",
        file=sys.stderr,
        flush=True,
    )
    if ops_listener is not None:
        ops_url = announce(ops_listener, tls=False)
        print(f"probes and metrics on {ops_url}", file=sys.stderr, flush=True)
    Application(
        listen, listener, ops_listener, lambda loaded: _start(options, loaded), preloaded
    ).run()
    return 0


def _load(paths: tuple[str, ...]) -> Preloaded:
    try:
        return signature(paths), load_manifests(paths)
    except ManifestError as error:
        raise UsageError(str(error)) from None


def _start(options: ServeOptions, preloaded: Preloaded | None) -> Running:
    """Called in the worker: make the parts and start the source."""
    store = SnapshotStore()
    health = Health(lambda: store.snapshot)
    refused = RefusedPods(time.monotonic)
    metrics = Metrics()
    metrics.registry.register(CacheCollector(lambda: store.snapshot))
    metrics.registry.register(RefusedPodsCollector(refused, lambda: store.snapshot))
    source = ManifestFollower(options.manifests, store)
    health.sources["manifests"] = source.describe
    service = Service(
        source=store,
        metrics=metrics,
        health=health,
        refused=refused,
        policy=options.policy,
        max_body_bytes=options.listen.max_body_bytes,
        serve_metrics=options.listen.ops_bind is None,
    )
    source.start(preloaded)
    _freeze(store.snapshot)
    _LOG.info("serving", extra=_size(store.snapshot))

    def stop() -> None:
        health.stopping.set()
        source.stop()

    def refused_early(status: HTTPStatus) -> None:
        metrics.requests.labels("<none>", str(status.value)).inc()

    return Running(create_app(service), create_ops_app(service), stop, refused_early)


def _freeze(snapshot: Snapshot) -> None:
    """Take what lives as long as the process out of the garbage collector's sight.

    A full collection walks every container; with the nodes of a large cluster that is tens of
    milliseconds in the middle of a request.
    """
    gc.collect()
    gc.freeze()


def _size(snapshot: Snapshot) -> dict[str, int]:
    return {
        "nodes": len(snapshot.nodes),
        "shapes": len(snapshot.shapes),
        "runtimeclasses": len(snapshot.runtime_classes),
    }
