"""The webhook command: wires a source of RuntimeClasses and the webhook's routes together."""

from dataclasses import dataclass, field, replace
from functools import partial

from extender.admission.merging import Merge
from extender.cluster.cluster_config import ClusterConfig
from extender.cluster.following_manifests import ManifestFollower
from extender.cluster.kinds import NAMESPACES
from extender.cluster.live_cluster import LiveCluster
from extender.cluster.namespace_feed import NamespaceFeed
from extender.cluster.snapshot_store import SnapshotStore
from extender.cluster.source_options import SourceOptions
from extender.flags import UsageError
from extender.http.app import create_webhook_app
from extender.http.health import Health
from extender.http.review_routes import WebhookService
from extender.metrics import CacheCollector, Metrics
from extender.serving.gunicorn_worker import Running
from extender.serving.listeners import ListenOptions
from extender.serving.starting import Preloaded, Source, readiness_line, run, start_worker
from extender.verbs.review import RulesOfNamespaces, Unsupported


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """The flags of webhook."""

    listen: ListenOptions
    source: SourceOptions = field(default_factory=SourceOptions)
    merge: Merge = Merge.ALL
    default_class: bool = False
    mark_pods: bool = False
    unsupported: Unsupported = Unsupported.WARN
    fit: bool = False

    @property
    def needs_namespaces(self) -> bool:
        """Whether the rules of namespaces are asked for."""
        return self.default_class or self.fit


def serve_webhook(options: WebhookOptions) -> int:
    """Run until a signal ends it. Raises UsageError for what a person can correct."""
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
    service = WebhookService(
        source=store,
        metrics=metrics,
        health=Health(lambda: store.snapshot, needs_nodes=options.fit),
        merge=options.merge,
        marks_pods=options.mark_pods,
        unsupported=options.unsupported,
        fits=options.fit,
        gives_default=options.default_class,
        serve_metrics=options.listen.ops_bind is None,
    )
    source: Source
    rules_of_namespace: RulesOfNamespaces
    if isinstance(preloaded, ClusterConfig):
        namespaces = NamespaceFeed()
        source = cluster = LiveCluster(
            preloaded,
            store,
            metrics,
            watch_list=options.source.watch_list,
            nodes=options.fit,
            others=[(NAMESPACES, namespaces)] if options.needs_namespaces else [],
        )
        rules_of_namespace = namespaces.rules_of
        service = replace(service, lookup=cluster.lookup)
        if options.needs_namespaces:
            service.health.also_synced["namespaces-synced"] = lambda: namespaces.synced
    else:
        source = follower = ManifestFollower(options.source.manifests, store, preloaded)
        rules_of_namespace = follower.rules_of_namespace
    if options.needs_namespaces:
        service = replace(service, namespace_rules=rules_of_namespace)
    metrics.registry.register(CacheCollector(lambda: store.snapshot, nodes=options.fit))
    return start_worker(options.listen, source, store, service, create_webhook_app)
