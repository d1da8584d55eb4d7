"""The serve command: wires sources → store → snapshot and routes → verbs together, then runs.

The wiring takes place in gunicorn's worker, after the fork: threads do not survive one.
"""

import gc
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Final

from extender import logs
from extender.cluster.cluster_config import ClusterConfig, ConfigError
from extender.cluster.following_manifests import ManifestFollower
from extender.cluster.live import LiveCluster
from extender.cluster.live_pods import LivePods
from extender.cluster.manifests import (
    ManifestError,
    Manifests,
    Signature,
    load_manifests,
    signature,
)
from extender.cluster.node_wait import NodeWait
from extender.cluster.store import SnapshotStore, Swap
from extender.flags import UsageError
from extender.http.app import create_app, create_ops_app
from extender.http.health import Health
from extender.http.service import Service
from extender.http.wire import encode
from extender.metrics import CacheCollector, Metrics, RefusedPodsCollector, SupportCollector
from extender.objects import Pod
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

#: What was read to be checked before the worker begins: manifests, or how to reach a cluster.
Preloaded = tuple[Signature, Manifests] | ClusterConfig


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The flags of serve."""

    listen: ListenOptions
    manifests: tuple[str, ...] = ()
    kubeconfig: str | None = None
    context: str | None = None
    watch_list: bool = True
    requeue_pods: bool = False
    policy: Policy = field(default_factory=Policy)


def serve(options: ServeOptions) -> int:
    """Run until told to stop. Raises UsageError for what a person can mend."""
    listen = options.listen
    logs.configure(listen.log_format, listen.verbosity)
    check_tls_files(listen)
    preloaded = _load(options)
    listener = listen_on(listen.bind, "--bind")
    ops_listener = listen_on(listen.ops_bind, "--ops-bind") if listen.ops_bind else None
    url = announce(listener, bool(listen.tls_cert_file))
    print(
        f"listening on {url} (Ctrl-C stops); try:\n  {_line_to_try(url, preloaded)}",
        file=sys.stderr,
        flush=True,
    )
    if ops_listener is not None:
        ops_url = announce(ops_listener, tls=False)
        print(f"probes and metrics on {ops_url}", file=sys.stderr, flush=True)
    application = Application(
        listen, listener, ops_listener, lambda loaded: _start(options, loaded), preloaded
    )
    # The application lets go of it once the worker has what it needs; so must this frame.
    del preloaded
    application.run()
    return 0


def _line_to_try(url: str, preloaded: Preloaded) -> str:
    """A curl line that asks about a class and some nodes that are there."""
    if isinstance(preloaded, ClusterConfig):
        return f"curl -s '{url}/readyz?verbose'"
    _, manifests = preloaded
    names = [*manifests.nodes][:: max(1, len(manifests.nodes) // 3)][:4]
    if not manifests.runtime_classes or not names:
        return f"curl -s '{url}/readyz?verbose'"
    pod = {"spec": {"runtimeClassName": next(iter(manifests.runtime_classes))}}
    return f"curl -s {url}/filter -d '{encode({'Pod': pod, 'NodeNames': names}).decode().strip()}'"


def _load(options: ServeOptions) -> Preloaded:
    """Read the manifests or the kubeconfig, to tell at once what is wrong. Raises UsageError."""
    if options.manifests and (options.kubeconfig or options.context):
        raise UsageError("--manifests and --kubeconfig or --context exclude each other")
    if options.manifests and options.requeue_pods:
        raise UsageError("--requeue-pods needs a cluster, and --manifests is none")
    try:
        if options.manifests:
            return signature(options.manifests), load_manifests(options.manifests)
        return ClusterConfig(options.kubeconfig, options.context)
    except (ManifestError, ConfigError) as error:
        raise UsageError(str(error)) from None


def _start(options: ServeOptions, preloaded: Preloaded | None) -> Running:
    """Called in the worker: make the parts and start the source."""
    store = SnapshotStore()
    health = Health(lambda: store.snapshot)
    refused = RefusedPods(time.monotonic, keep_requirements=options.requeue_pods)
    metrics = Metrics()
    metrics.registry.register(CacheCollector(lambda: store.snapshot))
    metrics.registry.register(RefusedPodsCollector(refused, lambda: store.snapshot))
    service = Service(
        source=store,
        metrics=metrics,
        health=health,
        refused=refused,
        policy=options.policy,
        max_body_bytes=options.listen.max_body_bytes,
        serve_metrics=options.listen.ops_bind is None,
    )
    preloaded = preloaded or _load(options)
    if isinstance(preloaded, ClusterConfig):
        service, stop_source = _follow_cluster(options, preloaded, store, service)
    else:
        service, stop_source = _follow_manifests(options, preloaded, store, service)
    metrics.registry.register(SupportCollector(service.support, lambda: store.snapshot))

    def stop() -> None:
        health.stopping.set()
        stop_source()

    def refused_early(status: HTTPStatus) -> None:
        metrics.requests.labels("<none>", str(status.value)).inc()

    return Running(create_app(service), create_ops_app(service), stop, refused_early)


def _follow_manifests(
    options: ServeOptions,
    preloaded: tuple[Signature, Manifests],
    store: SnapshotStore,
    service: Service,
) -> tuple[Service, Callable[[], None]]:
    """The service with the pods of the manifests, and what stops it."""
    source = ManifestFollower(options.manifests, store)
    service.health.sources["manifests"] = source.describe

    def find_pod(namespace: str, name: str) -> Pod | None:
        return source.manifests.pods.get(f"{namespace}/{name}")

    source.start(preloaded)
    _freeze()
    _LOG.info("serving", extra=_size(store.snapshot))
    return replace(service, find_pod=find_pod), source.stop


def _follow_cluster(
    options: ServeOptions, config: ClusterConfig, store: SnapshotStore, service: Service
) -> tuple[Service, Callable[[], None]]:
    """The service with what only a live cluster can do, and what stops it."""
    cluster = LiveCluster(config, store, service.metrics, watch_list=options.watch_list)
    service.health.sources.update(cluster.descriptions())
    service = replace(
        service,
        lookup=cluster.lookup,
        node_events=NodeWait(store),
        find_pod=LivePods(config),
    )
    stops = [cluster.stop]
    if options.requeue_pods:
        requeue = cluster.requeue(service.refused, options.policy, service.metrics)
        requeue.start()
        stops.append(requeue.stop)
    store.subscribe(_FreezeOnceSynced())
    cluster.start()
    _LOG.info("following the cluster", extra={"host": cluster.host})

    def stop() -> None:
        for each in stops:
            each()

    return service, stop


class _FreezeOnceSynced:
    """Freezes what the first full sync has brought."""

    def __init__(self) -> None:
        self._done = False

    def __call__(self, swap: Swap) -> None:
        snapshot = swap.new
        if not self._done and snapshot.nodes_synced and snapshot.runtime_classes_synced:
            self._done = True
            _freeze()
            _LOG.info("serving", extra=_size(snapshot))


def _freeze() -> None:
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
