"""A live cluster as the source of the snapshot: one reflector a kind, each on its own thread."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from extender.cluster.api_connection import ApiConnection
from extender.cluster.cluster_config import ClusterConfig
from extender.cluster.kinds import NODES, RUNTIME_CLASSES, Kind
from extender.cluster.list_watch import Backoff, ListWatch, Reason
from extender.cluster.live_classes import LiveLookup
from extender.cluster.node_and_class_feeds import Feed, NodeFeed, RuntimeClassFeed
from extender.cluster.reflector import Pause, Reflector
from extender.cluster.requeue import Requeue
from extender.cluster.snapshot_store import SnapshotStore
from extender.metrics import Metrics
from extender.predicates.node_checks import Policy
from extender.refused_pods import RefusedPods

_LOG: Final = logging.getLogger(__name__)


class WatchMetrics:
    """Counts the events and restarts of reflectors; the labels are from fixed sets."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._event_counters: dict[tuple[str, str], Callable[[], None]] = {}

    def event(self, kind: str, type: str) -> None:
        count = self._event_counters.get((kind, type))
        if count is None:
            count = self._metrics.watch_events.labels(kind, type).inc
            self._event_counters[kind, type] = count
        count()

    def restart(self, kind: str, reason: Reason) -> None:
        self._metrics.watch_restarts.labels(kind, reason.value).inc()


class LiveCluster:
    """Follows a cluster from `start` to `stop`: RuntimeClasses, nodes and other kinds if wanted."""

    def __init__(
        self,
        config: ClusterConfig,
        store: SnapshotStore,
        metrics: Metrics,
        *,
        watch_list: bool = True,
        nodes: bool = True,
        others: Sequence[tuple[Kind, Feed[Any]]] = (),
        pause: Pause = threading.Event.wait,
    ) -> None:
        self._config = config
        self._store = store
        self._metrics = metrics
        self._requeues: list[Requeue] = []
        self.runtime_class_feed = RuntimeClassFeed(store)
        feeds: list[tuple[Kind, Feed[Any]]] = [
            (RUNTIME_CLASSES, self.runtime_class_feed),
            *others,
        ]
        if nodes:
            feeds.append((NODES, NodeFeed(store)))
        observer = WatchMetrics(metrics)
        self._reflectors = tuple(
            Reflector(
                kind,
                feed,
                ApiConnection(config),
                ListWatch(Backoff(time.monotonic), watch_list=watch_list),
                observer,
                answers_again=partial(self._answers_again, kind),
                pause=pause,
            )
            for kind, feed in feeds
        )
        for reflector in self._reflectors:
            gauge = metrics.last_contact.labels(reflector.kind.name)
            gauge.set_function(_last_contact_of(reflector))
        #: Finds a class that the cache does not have yet.
        self.lookup = LiveLookup(lambda: ApiConnection(config), self.runtime_class_feed)

    def _answers_again(self, kind: Kind) -> None:
        """The reflector of one kind has found that the server is back: the others try now."""
        for reflector in self._reflectors:
            if reflector.kind is not kind:
                reflector.server_answers()

    def start(self) -> None:
        for each in self._threads():
            each.start()
        _LOG.info("following the cluster", extra={"host": self._config.host})

    def stop(self) -> None:
        """Cut off the watches, whatever they are doing; does not wait."""
        for each in self._threads():
            each.stop()

    def _threads(self) -> tuple[Requeue | Reflector, ...]:
        return (*self._requeues, *self._reflectors)

    def descriptions(self) -> dict[str, Callable[[], str]]:
        """What readiness shows, one line for each kind."""
        return {
            f"{reflector.kind.name.lower()}-watch": reflector.describe
            for reflector in self._reflectors
        }

    def wake(self, refused: RefusedPods, policy: Policy) -> None:
        """From `start` on, requeue the remembered pods that would now pass."""
        patched = self._metrics.requeued_pods.inc
        connection = ApiConnection(self._config)
        self._requeues.append(Requeue(self._store, refused, policy, connection, patched))


def _last_contact_of(reflector: Reflector) -> Callable[[], float]:
    return lambda: reflector.contact.heard_at_epoch
