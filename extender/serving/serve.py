"""The serve command: wires sources → store → snapshot and routes → verbs together."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from extender.cluster.cluster_config import ClusterConfig
from extender.cluster.following_manifests import ManifestFollower
from extender.cluster.kinds import PODS
from extender.cluster.live_cluster import LiveCluster
from extender.cluster.live_pods import LivePods
from extender.cluster.node_wait import NodeWait
from extender.cluster.pasted_pod import pasted_pod
from extender.cluster.pod_feed import PodFeed
from extender.cluster.snapshot_store import SnapshotStore
from extender.cluster.source_options import SourceOptions
from extender.flags import UsageError
from extender.http.app import create_app
from extender.http.health import Health
from extender.http.service import Service
from extender.metrics import (
    CacheCollector,
    Metrics,
    PodsCollector,
    RefusedPodsCollector,
    SupportCollector,
)
from extender.predicates.node_checks import Policy
from extender.refused_pods import RefusedPods
from extender.serving.gunicorn_worker import Running
from extender.serving.listeners import ListenOptions
from extender.serving.starting import Preloaded, Source, readiness_line, run, start_worker
from extender.wire.bodies import encode


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The flags of serve."""

    listen: ListenOptions
    source: SourceOptions = field(default_factory=SourceOptions)
    requeue_pods: bool = False
    policy: Policy = field(default_factory=Policy)
    pages: bool = True
    pool_labels: Sequence[str] = ()


def serve(options: ServeOptions) -> int:
    """Run until a signal ends it. Raises UsageError for what a person can correct."""
    if options.source.manifests and options.requeue_pods:
        raise UsageError("--requeue-pods needs a cluster, and --manifests is none")
    return run(options.listen, options.source, _line_to_try, partial(_start, options))


def _line_to_try(curl: str, url: str, preloaded: Preloaded | None) -> str:
    """A curl line that asks about an existing class and some of its nodes."""
    if not isinstance(preloaded, tuple):
        return readiness_line(curl, url)
    _, manifests = preloaded
    names = [*manifests.nodes][:: max(1, len(manifests.nodes) // 3)][:4]
    if not manifests.runtime_classes or not names:
        return readiness_line(curl, url)
    pod = {"spec": {"runtimeClassName": next(iter(manifests.runtime_classes))}}
    return f"{curl} {url}/filter -d '{encode({'Pod': pod, 'NodeNames': names}).decode().strip()}'"


def _start(options: ServeOptions, preloaded: Preloaded) -> Running:
    """Called in the worker: make the parts and start the source."""
    store, metrics = SnapshotStore(), Metrics()
    refused = RefusedPods(time.monotonic, keep_requirements=options.requeue_pods)
    service = Service(
        source=store,
        metrics=metrics,
        health=Health(lambda: store.snapshot),
        refused=refused,
        policy=options.policy,
        read_pod=pasted_pod,
        pages=options.pages,
        pool_labels=options.pool_labels,
        serve_metrics=options.listen.ops_bind is None,
    )
    source: Source
    if isinstance(preloaded, ClusterConfig):
        feed = PodFeed(lambda: store.snapshot.runtime_classes) if options.source.uses else None
        source = cluster = LiveCluster(
            preloaded,
            store,
            metrics,
            watch_list=options.source.watch_list,
            others=[(PODS, feed)] if feed else (),
        )
        pod_groups = feed.groups if feed else None
        if options.requeue_pods:
            cluster.wake(refused, options.policy)
        pods = LivePods(preloaded)
        service = replace(
            service,
            lookup=cluster.lookup,
            node_events=NodeWait(store),
            find_pod=pods,
            rules_of_namespace=pods.rules_of_namespace,
        )
    else:
        source = follower = ManifestFollower(
            options.source.manifests, store, preloaded, uses=options.source.uses
        )
        pod_groups = follower.pod_groups if options.source.uses else None
        service = replace(
            service,
            find_pod=follower.find_pod,
            known_pods=follower.known_pods,
            rules_of_namespace=follower.rules_of_namespace,
        )
    metrics.registry.register(CacheCollector(lambda: store.snapshot))
    metrics.registry.register(RefusedPodsCollector(refused, lambda: store.snapshot))
    metrics.registry.register(SupportCollector(service.support, lambda: store.snapshot))
    if pod_groups is not None:
        metrics.registry.register(PodsCollector(pod_groups, lambda: store.snapshot, options.policy))
    return start_worker(options.listen, source, store, service, create_app)
