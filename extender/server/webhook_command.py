"""The webhook command: its flags, and the wiring: source → store → snapshot, reviewer → routes."""

from dataclasses import replace
from functools import partial
from typing import Final

from extender.admission.endpoint import DEFAULT_MAX_REVIEW_BYTES, WebhookService
from extender.admission.merging import Merge
from extender.admission.render_command import merging_flags
from extender.admission.review import Reviewer, RulesOfNamespaces, Unsupported
from extender.cli.commands import source_flags
from extender.cli.flags import Command, Flags, boolean, choice
from extender.cluster.api.config import ClusterConfig
from extender.cluster.following_manifests import ManifestFollower
from extender.cluster.live_cluster import LiveCluster
from extender.cluster.pod_and_namespace_feeds import NamespaceFeed, PodFeed
from extender.cluster.snapshot_store import SnapshotStore
from extender.http.health import Health
from extender.inventory.impact import ImpactWarning
from extender.kubernetes.kinds import NAMESPACES, PODS
from extender.model.errors import UsageError
from extender.model.objects import MARK
from extender.server import starting
from extender.server.app import create_ops_app, create_webhook_app
from extender.server.gunicorn_worker import Running
from extender.verbs.metrics import CacheCollector, Metrics


def _webhook(_: str, flags: Flags) -> int:
    if not flags.tls_cert_file and not flags.bind.is_loopback:
        raise UsageError(
            f"--bind {flags.bind} needs --tls-cert-file and --tls-private-key-file:"
            " only a loopback address may do without TLS"
        )
    return starting.run(flags, partial(_start, flags), uses=flags.warn_impact)


def _start(flags: Flags, preloaded: starting.Preloaded) -> Running:
    """Called in the worker: make the parts and start the source."""
    store, metrics = SnapshotStore(), Metrics()
    needs_namespaces = flags.default_class or flags.fit
    health = Health(lambda: store.snapshot, needs_nodes=flags.fit)
    reviewer = Reviewer(
        store,
        Merge(flags.merge),
        marks_pods=flags.mark_pods,
        unsupported=Unsupported(flags.unsupported),
        fits=flags.fit,
        gives_default=flags.default_class,
    )
    source: starting.Source
    rules_of_namespace: RulesOfNamespaces
    if isinstance(preloaded, ClusterConfig):
        namespaces, pods = NamespaceFeed(), PodFeed(lambda: store.snapshot.runtime_classes)
        source = cluster = LiveCluster(
            preloaded,
            store,
            metrics,
            watch_list=flags.watch_list,
            nodes=flags.fit or flags.warn_impact,
            others={
                NAMESPACES: [namespaces] if needs_namespaces else [],
                PODS: [pods] if flags.warn_impact else [],
            },
        )
        rules_of_namespace, groups = namespaces.rules_of, pods.groups
        reviewer = replace(reviewer, lookup=cluster.lookup)
        if needs_namespaces:
            health.also_synced["namespaces-synced"] = lambda: namespaces.synced
    else:
        source = follower = ManifestFollower(
            tuple(flags.manifests), store, preloaded, uses=flags.warn_impact
        )
        rules_of_namespace, groups = follower.rules_of_namespace, follower.groups
    if needs_namespaces:
        reviewer = replace(reviewer, namespace_rules=rules_of_namespace)
    if flags.warn_impact:
        reviewer = replace(reviewer, warns_of_impact=ImpactWarning(store, groups))
    service = WebhookService(reviewer, metrics, health, serve_metrics=flags.ops_bind is None)
    metrics.registry.register(CacheCollector(lambda: store.snapshot, nodes=flags.fit))
    app = create_webhook_app(service, flags.max_body_bytes, flags.threads)
    return starting.start_worker(source, store, health, app, create_ops_app(service))


WEBHOOK: Final = Command(
    "webhook",
    "The RuntimeClass admission webhook: answers kube-apiserver.",
    _webhook,
    [
        *starting.listener_flags(
            "127.0.0.1:8443",
            DEFAULT_MAX_REVIEW_BYTES,
            "reviews answered at a time, of /mutate and of /validate each",
        ),
        *merging_flags(),
        boolean(
            "--warn-impact",
            "when a user updates a RuntimeClass, warn about pods that could not start again and"
            " about nodes that no longer match; watches Nodes and Pods too",
        ),
        boolean(
            "--mark-pods",
            f"add {MARK} to the requests of pods with a RuntimeClass, so that kube-scheduler can"
            " ask the extender about these pods only (managedResources)",
        ),
        choice(
            "--unsupported",
            "warn the author of a pod that uses a feature its class lists as unsupported, or deny"
            " the pod",
            values=Unsupported,
            default=Unsupported.WARN,
        ),
        boolean(
            "--fit",
            "give a pod that asks for an isolation by annotation and names no RuntimeClass the"
            " class that fits best; watches Nodes and Namespaces too",
        ),
    ],
    source_flags(),
    examples=[
        "--manifests cluster.yaml",
        "--bind :8443 --tls-cert-file tls.crt --tls-private-key-file tls.key",
    ],
)
