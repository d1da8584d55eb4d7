"""A live cluster as the source of the snapshot: one reflector for each kind, on its own thread."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from operator import attrgetter
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from msgspec import Raw

from extender.cluster.api.config import ClusterConfig
from extender.cluster.api.connection import ApiConnection, ConnectionFaultError, StatusError
from extender.cluster.api.list_watch import Backoff, ListWatch
from extender.cluster.api.objects import status_of
from extender.cluster.api.reflector import Reflector
from extender.cluster.distrust import Distrust, Mode, NodeEvents, SandboxFeed
from extender.cluster.node_and_class_feeds import Feed, NodeFeed, RuntimeClassFeed
from extender.cluster.rate_limit import TokenBucket
from extender.cluster.requeue import Requeue
from extender.cluster.snapshot_store import SnapshotStore
from extender.kubernetes.decoder import DecodeError
from extender.kubernetes.kinds import NODES, PODS, RUNTIME_CLASSES, Kind
from extender.kubernetes.name_rules import node_name_fault
from extender.model.errors import ERROR_PREFIX, UndecidedError
from extender.model.objects import RuntimeClass
from extender.model.reasons import shown
from extender.rules.class_nodes import Support
from extender.rules.node_checks import Policy
from extender.verbs.metrics import Metrics
from extender.verbs.outcomes import RefusedPods

_LOG: Final = logging.getLogger(__name__)

#: The longest that a request waits for a lookup, whatever the connection does.
LIMIT_SECONDS: Final = 1.0

#: How long the result of a lookup, also a failed one, is reused for the same name.
REUSE_SECONDS: Final = 1.0

#: The most lookups that begin in a second, and the most in flight, for all names together. A lookup
#: is in flight until the API server answers, whether or not a request still waits for it.
MAX_LOOKUPS: Final = 10

#: A pod's events are read up to this late. Waking up for each would take 0.1 ms of a core.
POD_REST_SECONDS: Final = 0.1


class _Question(NamedTuple):
    """The lookup of one name. Its result is a class, None or an error."""

    asked_at: float
    answer: Future[RuntimeClass | None]


class LiveLookup:
    """Looks up a missing class by one GET, for request threads. Puts the class into the store."""

    def __init__(
        self,
        connect: Callable[[], ApiConnection],
        feed: RuntimeClassFeed,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._feed = feed
        self._clock = clock
        self._lock = threading.Lock()
        self._bucket = TokenBucket(MAX_LOOKUPS, MAX_LOOKUPS, clock)
        self._questions: dict[str, _Question] = {}
        self._threads = ThreadPoolExecutor(MAX_LOOKUPS, "lookup", self._begin_thread)
        self._own = threading.local()

    def __call__(self, name: str) -> RuntimeClass | None:
        """None if the class does not exist. Raises UndecidedError without an answer in time."""
        if node_name_fault(name):
            # Names of classes follow the same rules as names of nodes.
            return None
        question = self._question(name)
        left = question.asked_at + LIMIT_SECONDS - self._clock()
        try:
            return question.answer.result(max(0.0, left))
        except TimeoutError:
            raise _undecided(name, f"no answer within {LIMIT_SECONDS:g} s") from None
        except (ConnectionFaultError, DecodeError) as error:
            raise _undecided(name, str(error)) from None

    def _question(self, name: str) -> _Question:
        now = self._clock()
        with self._lock:
            self._questions = {
                each: asked
                for each, asked in self._questions.items()
                if now - asked.asked_at < REUSE_SECONDS or not asked.answer.done()
            }
            question = self._questions.get(name)
            if question is not None:
                return question
            waiting = sum(not each.answer.done() for each in self._questions.values())
            if waiting >= MAX_LOOKUPS or not self._bucket.take():
                raise _undecided(name, f"more than {MAX_LOOKUPS} look-ups at once or a second")
            question = _Question(now, self._threads.submit(self._get, name))
            self._questions[name] = question
            return question

    def _begin_thread(self) -> None:
        self._own.connection = self._connect()

    def _get(self, name: str) -> RuntimeClass | None:
        connection: ApiConnection = self._own.connection
        path = f"{RUNTIME_CLASSES.path}/{quote(name, safe='')}"
        response = connection.get(path, {}, silence=LIMIT_SECONDS, connect=LIMIT_SECONDS)
        body = response.read_all(LIMIT_SECONDS)
        if response.status == 200:
            return self._feed.offer(Raw(body))
        if response.status == 404 and status_of(body).code == 404:
            return None
        raise StatusError(response.status, body)


def _undecided(name: str, cause: str) -> UndecidedError:
    return UndecidedError(
        f'{ERROR_PREFIX}RuntimeClass "{shown(name)}" is not in the cache, '
        f"and the API server could not be asked: {cause}"
    )


class LiveCluster:
    """Follows a cluster from `start` to `stop`: RuntimeClasses, Nodes, and other kinds if given."""

    def __init__(
        self,
        config: ClusterConfig,
        store: SnapshotStore,
        metrics: Metrics,
        *,
        watch_list: bool = True,
        nodes: bool = True,
        others: Mapping[Kind, Sequence[Feed[Any]]] | None = None,
    ) -> None:
        self._config = config
        self._store = store
        self._metrics = metrics
        self._others: list[Requeue | Distrust] = []
        self.runtime_class_feed = RuntimeClassFeed(store)
        feeds: dict[Kind, Sequence[Feed[Any]]] = {
            RUNTIME_CLASSES: [self.runtime_class_feed],
            **(others or {}),
            NODES: [NodeFeed(store)] if nodes else [],
        }
        self._reflectors = tuple(
            Reflector(
                kind,
                of_kind,
                ApiConnection(config),
                ListWatch(Backoff(time.monotonic), watch_list=watch_list),
                metrics,
                rest=POD_REST_SECONDS if kind is PODS else 0.0,
            )
            for kind, of_kind in feeds.items()
            if of_kind
        )
        for reflector in self._reflectors:
            gauge = metrics.last_contact.labels(reflector.kind.name)
            gauge.set_function(partial(attrgetter("heard_at_epoch"), reflector.contact))
        #: Finds a class that the cache does not have yet.
        self.lookup = LiveLookup(lambda: ApiConnection(config), self.runtime_class_feed)

    def start(self) -> None:
        for each in (*self._others, *self._reflectors):
            each.start()
        _LOG.info("following the cluster", extra={"host": self._config.host})

    def stop(self) -> None:
        """Cut off the watches at once. Does not wait for the threads."""
        for each in (*self._others, *self._reflectors):
            each.stop()

    def descriptions(self) -> dict[str, Callable[[], str]]:
        """What readiness shows, one line for each kind."""
        return {
            f"{reflector.kind.name.lower()}-watch": reflector.contact.describe
            for reflector in self._reflectors
        }

    def age(self) -> float:
        """Seconds since the oldest of the kinds' last contacts; since 1970 if a kind had none."""
        return time.time() - min(each.contact.heard_at_epoch for each in self._reflectors)

    def wake(self, refused: RefusedPods, policy: Policy) -> None:
        """From `start` on, requeue the remembered pods that would now pass."""
        patched = self._metrics.requeued_pods.inc
        connection = ApiConnection(self._config)
        self._others.append(Requeue(self._store, refused, policy, connection, patched))

    def distrust(self, feed: SandboxFeed, support: Support, mode: Mode, after: float) -> None:
        """From `start` on, judge the evidence of the feed, which must be one of `others`."""
        events = NodeEvents(ApiConnection(self._config))
        self._others.append(Distrust(self._store, feed, events, support, mode, after))
