"""One kind's reflector against a fake API server, with its waits counted instead of waited."""

import contextlib
import random
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extender.cluster.api.config import ClusterConfig
from extender.cluster.api.connection import ApiConnection
from extender.cluster.api.list_watch import Backoff, ListWatch, Reason
from extender.cluster.api.reflector import Reflector
from extender.cluster.node_and_class_feeds import Feed, HeldClass, NodeFeed, RuntimeClassFeed
from extender.cluster.snapshot_store import SnapshotStore
from extender.kubernetes.kinds import NODES, RUNTIME_CLASSES
from tests.fakes.apiserver import FakeApiServer, kubeconfig
from tests.fakes.connections import Counted
from tests.processes import until

#: A wait of the reflector takes this long at the most, so that a fault that lasts is no busy loop.
PAUSE = 0.002


class NotedClasses(RuntimeClassFeed):
    """RuntimeClasses, and what was handed to the store last."""

    handed: Mapping[bytes, HeldClass] = {}

    def _replace(self, held: Mapping[bytes, HeldClass]) -> None:
        self.handed = held
        super()._replace(held)


@dataclass
class Following:
    """A running reflector and what it did."""

    store: SnapshotStore
    feed: Feed[Any]
    reflector: Reflector
    list_watch: ListWatch
    restarts: list[Reason]
    events: list[str]
    pauses: list[float]

    def wait_for(self, *reasons: Reason) -> None:
        """Wait until requests have ended for these reasons, whatever else happened between."""
        until(lambda: set(reasons) <= set(self.restarts))


def config_for(server: FakeApiServer, folder: Path, **credentials: str) -> ClusterConfig:
    file = folder / "kubeconfig"
    file.write_text(kubeconfig(server.url, **credentials))
    return ClusterConfig(str(file))


@contextlib.contextmanager
def following(
    config: ClusterConfig, *, nodes: bool = False, watch_list: bool = True
) -> Iterator[Following]:
    """Follow RuntimeClasses, or nodes; on leaving, the reflector's thread must end at once."""
    store = SnapshotStore()
    feed = NodeFeed(store) if nodes else NotedClasses(store)
    chance = random.Random(1).random
    pauses: list[float] = []

    def clock() -> float:
        return time.monotonic() + sum(pauses)

    list_watch = ListWatch(Backoff(clock, chance=chance), watch_list=watch_list, chance=chance)

    def pause(event: threading.Event, seconds: float) -> bool:
        pauses.append(seconds)
        return event.wait(min(seconds, PAUSE))

    counted = Counted()
    kind, connection = NODES if nodes else RUNTIME_CLASSES, ApiConnection(config)
    reflector = Reflector(kind, [feed], connection, list_watch, counted, clock=clock, pause=pause)
    restarts, events = counted.restarts, counted.events
    run = Following(store, feed, reflector, list_watch, restarts, events, pauses)
    thread = threading.Thread(target=reflector.run, name="reflector-faked", daemon=True)
    thread.start()
    try:
        yield run
        assert thread.is_alive(), "the thread is lost"
    finally:
        reflector.stop()
        thread.join(5.0)
    assert not thread.is_alive(), "the thread does not end"
