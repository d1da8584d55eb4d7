"""The webhook command: wires a source of RuntimeClasses and the webhook's routes together.

The wiring takes place in gunicorn's worker, after the fork: threads do not survive one.
"""

import gc
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from extender import logs
from extender.admission.default_class import DEFAULT_ANNOTATION
from extender.admission.merging import Merge
from extender.cluster.cluster_config import ClusterConfig, ConfigError
from extender.cluster.following_manifests import ManifestFollower
from extender.cluster.live import LiveCluster
from extender.cluster.manifests import (
    ManifestError,
    Manifests,
    Signature,
    load_manifests,
    signature,
)
from extender.cluster.namespaces import NAMESPACES, NamespaceFeed
from extender.cluster.store import SnapshotStore
from extender.flags import UsageError
from extender.http.app import create_ops_app, create_webhook_app
from extender.http.health import Health
from extender.http.service import RuntimeClassLookup, no_lookup
from extender.http.webhook import NamespaceAnnotation, WebhookService
from extender.metrics import CacheCollector, Metrics
from extender.server import (
    Application,
    ListenOptions,
    Running,
    announce,
    check_tls_files,
    listen_on,
)
from extender.validation import parse_quantity

_LOG: Final = logging.getLogger(__name__)

Preloaded = tuple[Signature, Manifests]


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """The flags of webhook."""

    listen: ListenOptions
    manifests: tuple[str, ...] = ()
    kubeconfig: str | None = None
    context: str | None = None
    watch_list: bool = True
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


#: Looked at before gunicorn starts, used in its worker.
Found = Preloaded | ClusterConfig


def serve_webhook(options: WebhookOptions) -> int:
    """Run until told to stop. Raises UsageError for what a person can mend."""
    listen = options.listen
    logs.configure(listen.log_format, listen.verbosity)
    check_tls_files(listen)
    if not listen.tls_cert_file and not listen.bind.is_loopback:
        raise UsageError(
            f"--bind {listen.bind} needs --tls-cert-file and --tls-private-key-file:"
            " only a loopback address may do without TLS"
        )
    listener = listen_on(listen.bind, "--bind")
    ops_listener = listen_on(listen.ops_bind, "--ops-bind") if listen.ops_bind else None
    found = _find(options)
    url = announce(listener, bool(listen.tls_cert_file))
    print(
        f"listening on {url} (Ctrl-C stops); try:\n  curl -s '{url}/readyz?verbose'",
        file=sys.stderr,
        flush=True,
    )
    if ops_listener is not None:
        ops_url = announce(ops_listener, tls=False)
        print(f"probes and metrics on {ops_url}", file=sys.stderr, flush=True)
    Application(listen, listener, ops_listener, lambda found: _start(options, found), found).run()
    return 0


def _find(options: WebhookOptions) -> Found:
    """The manifests' content, or how to reach the cluster. Raises UsageError."""
    paths = options.manifests
    if paths and (options.kubeconfig or options.context):
        raise UsageError("--manifests goes with neither --kubeconfig nor --context")
    try:
        if paths:
            return signature(paths), load_manifests(paths)
        return ClusterConfig(options.kubeconfig, options.context)
    except (ConfigError, ManifestError) as error:
        raise UsageError(str(error)) from None


def _start(options: WebhookOptions, found: Found | None) -> Running:
    """Called in the worker: make the parts and start the source."""
    store, metrics = SnapshotStore(), Metrics()
    if isinstance(found, ClusterConfig):
        source = live_source(options, found, store, metrics)
    else:
        source = manifests_source(options.manifests, store, found)
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
        max_body_bytes=options.listen.max_body_bytes,
        serve_metrics=options.listen.ops_bind is None,
    )
    source.start()
    parse_quantity("1")  # loads its engine: half a second that no pod should wait for
    gc.collect()
    gc.freeze()
    _LOG.info("serving", extra={"runtimeclasses": len(store.snapshot.runtime_classes)})

    def stop() -> None:
        health.stopping.set()
        source.stop()

    def refused_early(status: HTTPStatus) -> None:
        metrics.requests.labels("<none>", str(status.value)).inc()

    return Running(create_webhook_app(service), create_ops_app(service), stop, refused_early)


def manifests_source(
    paths: tuple[str, ...], store: SnapshotStore, preloaded: Preloaded | None
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
        watch_list=options.watch_list,
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
