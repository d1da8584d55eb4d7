"""The serve command: its flags, and the wiring: source → store → snapshot, routes → verbs."""

import time
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Final

import click

from extender.cli.commands import policy_flags, policy_of, pool_label_flag, source_flags
from extender.cli.flags import Command, Flags, boolean, choice, flag
from extender.cluster.api.config import ClusterConfig
from extender.cluster.distrust import Mode, SandboxFeed
from extender.cluster.following_manifests import ManifestFollower
from extender.cluster.live_cluster import LiveCluster
from extender.cluster.manifest_objects import pasted_pods
from extender.cluster.node_wait import NodeWait
from extender.cluster.pod_and_namespace_feeds import PodFeed
from extender.cluster.reading_once import LivePods
from extender.cluster.snapshot_store import SnapshotStore
from extender.http.health import Health
from extender.http.limits import DEFAULT_MAX_BODY_BYTES
from extender.inventory.headroom import HeadroomCollector
from extender.kubernetes.kinds import PODS
from extender.model.errors import UsageError
from extender.server import starting
from extender.server.app import create_app, create_ops_app
from extender.server.gunicorn_worker import Running
from extender.verbs.filter import Reasons
from extender.verbs.metrics import (
    CacheCollector,
    Metrics,
    PodsCollector,
    RefusedPodsCollector,
    SupportCollector,
)
from extender.verbs.outcomes import RefusedPods
from extender.verbs.service import Service


def _serve(_: str, flags: Flags) -> int:
    if flags.manifests and flags.requeue_pods:
        raise UsageError("--requeue-pods needs a cluster: it can't be used with --manifests")
    return starting.run(flags, partial(_start, flags), flags.watch_pods)


def _start(flags: Flags, preloaded: starting.Preloaded) -> Running:
    """Called in the worker: make the parts and start the source."""
    store, metrics, policy = SnapshotStore(), Metrics(), policy_of(flags)
    refused = RefusedPods(time.monotonic, keep_needs=flags.requeue_pods)
    service = Service(
        source=store,
        metrics=metrics,
        health=Health(lambda: store.snapshot),
        refused=refused,
        policy=policy,
        reasons=Reasons(flags.reasons),
        read_pods=pasted_pods,
        pages=flags.pages,
        pool_labels=tuple(flags.pool_label),
        serve_metrics=flags.ops_bind is None,
    )
    source: starting.Source
    watched: PodFeed | ManifestFollower | None
    if isinstance(preloaded, ClusterConfig):
        feed = (
            PodFeed(lambda: store.snapshot.runtime_classes, room=True) if flags.watch_pods else None
        )
        mode = Mode(flags.distrust)
        sandboxes = SandboxFeed() if mode is not Mode.OFF else None
        source = cluster = LiveCluster(
            preloaded,
            store,
            metrics,
            watch_list=flags.watch_list,
            others={PODS: [each for each in (feed, sandboxes) if each]},
        )
        if sandboxes is not None:
            cluster.distrust(sandboxes, service.support, mode, flags.distrust_after)
        watched = feed
        if flags.requeue_pods:
            cluster.wake(refused, policy)
        pods = LivePods(preloaded)
        service = replace(
            service,
            lookup=cluster.lookup,
            node_events=NodeWait(store),
            find_pod=pods,
            find_node=pods.node,
            origin=preloaded.host,
            age=cluster.age,
            waiting_pods=feed.waiting if feed else service.waiting_pods,
            known_pods=feed.names if feed else service.known_pods,
            rules_of_namespace=pods.rules_of_namespace,
            kubernetes_version=pods.kubernetes_version,
            pods_beside=pods.pods_beside,
        )
    else:
        source = follower = ManifestFollower(
            tuple(flags.manifests), store, preloaded, uses=flags.watch_pods
        )
        watched = follower if flags.watch_pods else None
        service = replace(
            service,
            find_pod=follower.find_pod,
            find_node=lambda name: follower.manifests.nodes.get(name),
            known_pods=lambda: follower.manifests.pods,
            origin=f"manifests in {', '.join(Path(path).name for path in flags.manifests)}",
            age=follower.age,
            waiting_pods=lambda: follower.waiting,
            rules_of_namespace=follower.rules_of_namespace,
            pods_beside=follower.pods_beside,
        )
    metrics.registry.register(CacheCollector(lambda: store.snapshot))
    metrics.registry.register(RefusedPodsCollector(refused, lambda: store.snapshot))
    metrics.registry.register(SupportCollector(service.support, lambda: store.snapshot))
    if watched is not None:
        metrics.registry.register(PodsCollector(watched.groups, lambda: store.snapshot, policy))
        loads = partial(attrgetter("loads"), watched)
        metrics.registry.register(HeadroomCollector(loads, lambda: store.snapshot, policy))
    app = create_app(service, flags.max_body_bytes, flags.threads)
    return starting.start_worker(source, store, service.health, app, create_ops_app(service))


SERVE: Final = Command(
    "serve",
    "The scheduler extender: answers kube-scheduler over HTTP.",
    _serve,
    [
        *starting.listener_flags(
            "127.0.0.1:8888",
            DEFAULT_MAX_BODY_BYTES,
            "threads for pages and debug endpoints such as /explain; kube-scheduler's calls need"
            " none",
        ),
        choice(
            "--reasons",
            "always: send the reason of each rejected node; unplaced: only if no node is left, as"
            " kube-scheduler drops them otherwise (docs/scheduler-cost.md)",
            values=Reasons,
            default=Reasons.ALWAYS,
        ),
        boolean(
            "--requeue-pods",
            "annotate Pending pods that would now fit, so that kube-scheduler tries them again",
        ),
        boolean("--pages", "serve HTML pages to browsers", default=True),
        pool_label_flag(),
        boolean(
            "--watch-pods",
            "watch all pods, for the metrics pods, overhead and headroom_pods: how many pods of"
            " each class are in which state, the overhead they reserve, and how many more fit",
        ),
        choice(
            "--distrust",
            "what becomes of a node whose runtime handler fails to start pods. score: it scores"
            " lowest; refuse: it is refused for a time; off: no pods are watched for it",
            values=Mode,
            default=Mode.SCORE,
        ),
        flag(
            "--distrust-after SECONDS",
            "how long a pod must have had no sandbox on its node to have failed there",
            type=click.FloatRange(1, 86_400),
            default=90.0,
        ),
    ],
    [*policy_flags(), *source_flags()],
    examples=[
        "--manifests cluster.yaml",
        "--bind :8888 --tls-cert-file tls.crt --tls-private-key-file tls.key",
    ],
)
