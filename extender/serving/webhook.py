"""The webhook command: wires a source of RuntimeClasses and the webhook's routes together."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from extender.admission.default_class import DEFAULT_ANNOTATION
from extender.admission.merging import Merge
from extender.cluster.cluster_config import ClusterConfig
from extender.cluster.following_manifests import ManifestFollower
from extender.cluster.kinds import NAMESPACES
from extender.cluster.live import LiveCluster
from extender.cluster.manifests import Manifests, Signature
from extender.cluster.namespaces import NamespaceFeed
from extender.cluster.store import SnapshotStore
from extender.flags import UsageError
from extender.http.app import create_ops_app, create_webhook_app
from extender.http.health import Health
from extender.http.routing import Threads
from extender.http.webhook import WebhookService
from extender.metrics import CacheCollector, Metrics
from extender.serving.gunicorn_worker import Running
from extender.serving.listeners import ListenOptions
from extender.serving.sources import (
    Preloaded,
    SourceOptions,
    freeze,
    readiness_line,
    run,
)
from extender.verbs.class_lookup import RuntimeClassLookup, no_lookup
from extender.verbs.review import NamespaceAnnotation

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """The flags of webhook."""

    listen: ListenOptions
    source: SourceOptions = field(default_factory=SourceOptions)
    merge: Merge = Merge.ALL
    default_class: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """Where RuntimeClasses and Namespaces come from; it writes the store it was made with.

    start begins to follow, on threads of its own; descriptions are for readiness, as also_synced.
    """

    start: Callable[[], None]
    stop: Callable[[], None]
    descriptions: Mapping[str, Callable[[], str]]
    namespace_annotation: NamespaceAnnotation
    lookup: RuntimeClassLookup = no_lookup
    also_synced: Mapping[str, Callable[[], bool]] = field(default_factory=dict)


def serve_webhook(options: WebhookOptions) -> int:
    """Run until told to stop. Raises UsageError for what a person can mend."""
    listen = options.listen
    if not listen.tls_cert_file and not listen.bind.is_loopback:
        raise UsageError(
            f"--bind {listen.bind} needs --tls-cert-file and --tls-private-key-file:"
            " only a loopback address may do without TLS"
        )
    return run(
        listen,
        options.source,
        lambda curl, url, _: readiness_line(curl, url),
        partial(_start, options),
    )


def _start(options: WebhookOptions, preloaded: Preloaded) -> Running:
    """Called in the worker: make the parts and start the source."""
    store, metrics = SnapshotStore(), Metrics()
    if isinstance(preloaded, ClusterConfig):
        source = live_source(options, preloaded, store, metrics)
    else:
        source = manifests_source(options.source.manifests, store, preloaded)
    health = Health(lambda: store.snapshot, needs_nodes=False)
    health.sources.update(source.descriptions)
    health.also_synced.update(source.also_synced)
    metrics.registry.register(CacheCollector(lambda: store.snapshot, nodes=False))
    service = WebhookService(
        source=store,
        metrics=metrics,
        health=health,
        merge=options.merge,
        lookup=source.lookup,
        namespace_annotation=source.namespace_annotation if options.default_class else None,
        serve_metrics=options.listen.ops_bind is None,
    )
    source.start()
    freeze()
    if isinstance(preloaded, ClusterConfig):
        _LOG.info("following the cluster", extra={"host": preloaded.host})
    else:
        _LOG.info("serving", extra={"runtimeclasses": len(store.snapshot.runtime_classes)})

    def stop() -> None:
        health.stopping.set()
        source.stop()

    threads = Threads.of(options.listen.threads)
    return Running(
        create_webhook_app(service, threads), create_ops_app(service, threads), threads, stop
    )


def manifests_source(
    paths: tuple[str, ...], store: SnapshotStore, preloaded: tuple[Signature, Manifests]
) -> Source:
    """Files on disk; a class that is not in them does not exist."""
    follower = ManifestFollower(paths, store)

    def namespace_annotation(namespace: str) -> str | None:
        return follower.manifests.namespaces.get(namespace, {}).get(DEFAULT_ANNOTATION)

    return Source(
        start=lambda: follower.start(preloaded),
        stop=follower.stop,
        descriptions={"manifests": follower.describe},
        namespace_annotation=namespace_annotation,
    )


def live_source(
    options: WebhookOptions, config: ClusterConfig, store: SnapshotStore, metrics: Metrics
) -> Source:
    """A cluster: RuntimeClasses, and Namespaces where a default class may be given."""
    namespaces = NamespaceFeed(DEFAULT_ANNOTATION)
    cluster = LiveCluster(
        config,
        store,
        metrics,
        watch_list=options.source.watch_list,
        nodes=False,
        others=[(NAMESPACES, namespaces)] if options.default_class else [],
    )
    return Source(
        start=cluster.start,
        stop=cluster.stop,
        descriptions=cluster.descriptions(),
        namespace_annotation=namespaces.annotation_of,
        lookup=cluster.lookup,
        also_synced=(
            {"namespaces-synced": lambda: namespaces.synced} if options.default_class else {}
        ),
    )
