"""The serve command: wires sources → store → snapshot and routes → verbs together."""

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from extender.cluster.cluster_config import ClusterConfig
from extender.cluster.following_manifests import ManifestFollower
from extender.cluster.live import LiveCluster
from extender.cluster.live_pods import LivePods
from extender.cluster.manifests import Manifests, Signature
from extender.cluster.node_wait import NodeWait
from extender.cluster.store import SnapshotStore, Swap
from extender.flags import UsageError
from extender.http.app import create_app, create_ops_app
from extender.http.health import Health
from extender.http.routing import Threads
from extender.http.service import Service
from extender.metrics import CacheCollector, Metrics, RefusedPodsCollector, SupportCollector
from extender.objects import Pod
from extender.predicates.runtimeclass import Policy
from extender.refused import RefusedPods
from extender.serving.gunicorn_worker import Running
from extender.serving.listeners import ListenOptions
from extender.serving.sources import (
    Preloaded,
    SourceOptions,
    freeze,
    readiness_line,
    run,
)
from extender.snapshot import Snapshot
from extender.wire.bodies import encode

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The flags of serve."""

    listen: ListenOptions
    source: SourceOptions = field(default_factory=SourceOptions)
    requeue_pods: bool = False
    policy: Policy = field(default_factory=Policy)


def serve(options: ServeOptions) -> int:
    """Run until told to stop. Raises UsageError for what a person can mend."""
    if options.source.manifests and options.requeue_pods:
        raise UsageError("--requeue-pods needs a cluster, and --manifests is none")
    return run(options.listen, options.source, _line_to_try, partial(_start, options))


def _line_to_try(curl: str, url: str, preloaded: Preloaded) -> str:
    """A curl line that asks about a class and some nodes that are there."""
    if isinstance(preloaded, ClusterConfig):
        return readiness_line(curl, url)
    _, manifests = preloaded
    names = [*manifests.nodes][:: max(1, len(manifests.nodes) // 3)][:4]
    if not manifests.runtime_classes or not names:
        return readiness_line(curl, url)
    pod = {"spec": {"runtimeClassName": next(iter(manifests.runtime_classes))}}
    return f"{curl} {url}/filter -d '{encode({'Pod': pod, 'NodeNames': names}).decode().strip()}'"


def _start(options: ServeOptions, preloaded: Preloaded) -> Running:
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
        serve_metrics=options.listen.ops_bind is None,
    )
    if isinstance(preloaded, ClusterConfig):
        service, stop_source = _follow_cluster(options, preloaded, store, service)
    else:
        service, stop_source = _follow_manifests(options, preloaded, store, service)
    metrics.registry.register(SupportCollector(service.support, lambda: store.snapshot))

    def stop() -> None:
        health.stopping.set()
        stop_source()

    threads = Threads.of(options.listen.threads)
    return Running(create_app(service, threads), create_ops_app(service, threads), threads, stop)


def _follow_manifests(
    options: ServeOptions,
    preloaded: tuple[Signature, Manifests],
    store: SnapshotStore,
    service: Service,
) -> tuple[Service, Callable[[], None]]:
    """The service with the pods of the manifests, and what stops it."""
    source = ManifestFollower(options.source.manifests, store)
    service.health.sources["manifests"] = source.describe

    def find_pod(namespace: str, name: str) -> Pod | None:
        return source.manifests.pods.get(f"{namespace}/{name}")

    def known_pods() -> Collection[str]:
        return source.manifests.pods.keys()

    source.start(preloaded)
    freeze()
    _LOG.info("serving", extra=_size(store.snapshot))
    return replace(service, find_pod=find_pod, known_pods=known_pods), source.stop


def _follow_cluster(
    options: ServeOptions, config: ClusterConfig, store: SnapshotStore, service: Service
) -> tuple[Service, Callable[[], None]]:
    """The service with what only a live cluster can do, and what stops it."""
    cluster = LiveCluster(config, store, service.metrics, watch_list=options.source.watch_list)
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
            freeze()
            _LOG.info("serving", extra=_size(snapshot))


def _size(snapshot: Snapshot) -> dict[str, int]:
    return {
        "nodes": len(snapshot.nodes),
        "shapes": len(snapshot.shapes),
        "runtimeclasses": len(snapshot.runtime_classes),
    }
