"""Follows pods, and puts runtime handlers that fail to start pods into the store as suspects.

Each change is also written as an Event about the node, which `kubectl describe node` shows.
"""

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

import orjson
from msgspec import Raw

from extender.cluster.api.connection import ApiConnection, ConnectionFaultError, StatusError
from extender.cluster.api.objects import revision
from extender.cluster.node_and_class_feeds import Feed, Held
from extender.cluster.rate_limit import LogLimit
from extender.cluster.snapshot_store import SnapshotStore
from extender.kubernetes.decoder import decode
from extender.kubernetes.kinds import PODS
from extender.kubernetes.sandboxes import StartingPod, sandbox_of
from extender.model.names import text_of
from extender.model.reasons import failed_to_start, shown
from extender.model.using_objects import Sandbox
from extender.rules.class_nodes import Support
from extender.rules.suspects import DEFAULT_HANDLER, Evidence, Pair, Suspicion, judged, judgement

_LOG: Final = logging.getLogger(__name__)

#: The pause between two looks at the evidence. After a slow look the pause is _REST times as long
#: as the look, so that looking takes at most a tenth of the time.
LOOK_SECONDS: Final = 1.0
_REST: Final = 9.0

#: The most warnings about nodes and classes logged by one look.
MAX_WARNINGS: Final = 10


class Mode(StrEnum):
    """--distrust: what a suspect handler means for its node."""

    OFF = "off"
    SCORE = "score"
    REFUSE = "refuse"


class HeldSandbox(Held):
    sandbox: Sandbox


class SandboxFeed(Feed[HeldSandbox]):
    """Keeps the pods that have a node and no sandbox. Of other pods it notes only the start.

    The reflector's thread owns the feed; the lock guards the evidence.
    """

    kind = PODS.name

    def __init__(self) -> None:
        super().__init__()
        self.evidence = Evidence()
        self.lock = threading.Lock()

    def begin(self) -> None:
        self.evidence.is_listing = True
        super().begin()

    def _decode(self, raw: Raw) -> tuple[bytes, str, HeldSandbox | None]:
        pod = decode(raw, StartingPod, self.kind)
        name = pod.name.encode()
        version, sandbox = pod.metadata.resource_version or "", sandbox_of(pod, raw)
        if sandbox is None:
            return name, version, None
        if sandbox.started is not None:
            with self.lock:
                self.evidence.start(sandbox)
            return name, version, None
        before = self._held.get(name)
        if before is not None and before.sandbox == sandbox:
            return name, version, before
        return name, version, HeldSandbox(revision(version), sandbox)

    def _replace(self, held: Mapping[bytes, HeldSandbox]) -> None:
        with self.lock:
            self.evidence.waiting = {name: each.sandbox for name, each in held.items()}
            self.evidence.is_listing = False

    def _apply(self, name: bytes, held: HeldSandbox | None, before: HeldSandbox | None) -> None:
        with self.lock:
            if held is None:
                self.evidence.waiting.pop(name, None)
            else:
                self.evidence.waiting[name] = held.sandbox


#: Events about objects without a namespace are in the namespace `default`.
_PATH: Final = "/api/v1/namespaces/default/events"

_ANSWER_SECONDS: Final = 5.0

#: Events are written one after the other. Of an outage on thousands of nodes the first say enough.
MAX_EVENTS: Final = 100


class NodeEvent(NamedTuple):
    """One change of a node's state. occasion tells it apart from changes with the same text."""

    node: str
    reason: str
    message: str
    occasion: str
    is_warning: bool

    @property
    def name(self) -> str:
        """The same in each replica of this service and after a restart; at most 253 bytes."""
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:16]
        return f"{self.node[:200].rstrip('.-')}.{digest}"


class NodeEvents:
    """Logs and writes Events, for one thread. An Event that can't be written is dropped."""

    def __init__(self, connection: ApiConnection) -> None:
        self._connection = connection
        self._limit = LogLimit(_LOG, time.monotonic)

    def write(self, events: Sequence[NodeEvent]) -> None:
        """Write the first MAX_EVENTS, until the API server fails or has taken 5 s for them."""
        if len(events) > MAX_EVENTS:
            _LOG.warning("%d runtime handlers changed; the first %d:", len(events), MAX_EVENTS)
        for event in events[:MAX_EVENTS]:
            level = logging.WARNING if event.is_warning else logging.INFO
            _LOG.log(level, event.message, extra={"node": event.node})
        end = time.monotonic() + _ANSWER_SECONDS
        try:
            for event in events[:MAX_EVENTS]:
                self._create(event)
                if time.monotonic() > end:
                    break
        except ConnectionFaultError as error:
            text = "Event of a node not written (--distrust needs the right to create events)"
            self._limit.say(logging.WARNING, "event", text, cause=str(error))

    def _create(self, event: NodeEvent) -> None:
        response = self._connection.send("POST", _PATH, _body(event), silence=_ANSWER_SECONDS)
        body = response.read_all(_ANSWER_SECONDS)
        # 409: another replica has created it.
        if response.status not in (201, 409):
            raise StatusError(response.status, body)

    def stop(self) -> None:
        self._connection.interrupt()


def _body(event: NodeEvent) -> bytes:
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    # The kubelet's Events about its node give the node's name as UID. kubectl searches for that.
    node = {"apiVersion": "v1", "kind": "Node", "name": event.node, "uid": event.node}
    about = {"reason": event.reason, "message": event.message, "involvedObject": node}
    times = {"firstTimestamp": now, "lastTimestamp": now, "count": 1}
    document = {
        "apiVersion": "v1",
        "kind": "Event",
        **about,
        **times,
        "metadata": {"name": event.name, "namespace": "default"},
        "type": "Warning" if event.is_warning else "Normal",
        "source": {"component": "runtimeclass-extender"},
        "reportingComponent": "runtimeclass-extender",
    }
    return orjson.dumps(document)


class Distrust:
    """Judges the evidence on a thread of its own, from `start` to `stop`."""

    def __init__(
        self,
        store: SnapshotStore,
        feed: SandboxFeed,
        events: NodeEvents,
        support: Support,
        mode: Mode,
        after: float,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """after: --distrust-after. clock: seconds since the epoch, comparable with API times."""
        self._store = store
        self._feed = feed
        self._events = events
        self._support = support
        self._mode = mode
        self._after = after
        self._clock = clock
        self._suspicions: dict[Pair, Suspicion] = {}
        self._told: frozenset[str] = frozenset()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="distrust", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._events.stop()

    def _run(self) -> None:
        rest = LOOK_SECONDS
        while not self._stopping.wait(rest):
            began = time.monotonic()
            try:
                changed = self.look()
                rest = max(LOOK_SECONDS, _REST * (time.monotonic() - began))
                self._events.write(changed)
            except Exception:
                _LOG.exception("judging suspect handlers failed; going on")

    def look(self) -> Sequence[NodeEvent]:
        """Judge the evidence once and update the store. Returns an Event for each change."""
        feed, snapshot, now = self._feed, self._store.snapshot, self._clock()
        if not snapshot.is_synced:
            return ()
        with feed.lock:
            attempts = feed.evidence.attempts(snapshot.runtime_classes, self._suspicions)
            found = {
                pair: judged(self._suspicions.get(pair), seen, feed.evidence, now, self._after)
                for pair, seen in attempts.items()
                if pair.handler != DEFAULT_HANDLER
            }
            default_fails = {
                pair.node
                for pair, seen in attempts.items()
                if pair.handler == DEFAULT_HANDLER and seen.failed(now, self._after)
            }
        before, refuses = self._suspicions, self._mode is Mode.REFUSE
        # A deleted node loses its suspicions.
        self._suspicions = {
            pair: each for pair, each in found.items() if each and snapshot.nodes[pair.node]
        }
        suspects, outages = judgement(
            self._suspicions, default_fails, snapshot, self._support, refuses=refuses
        )
        self._store.replace_suspects(suspects)
        for where in sorted(outages.keys() - self._told)[:MAX_WARNINGS]:
            _LOG.warning(outages[where])
        self._told = frozenset(outages)
        return [*changes(before, self._suspicions, refuses=refuses)]


def changes(
    before: Mapping[Pair, Suspicion], after: Mapping[Pair, Suspicion], *, refuses: bool
) -> Iterator[NodeEvent]:
    """An Event for each suspicion that changed. refuses: the start of a trial is an Event too."""
    for pair in sorted(before.keys() | after.keys()):
        old, new = before.get(pair), after.get(pair)
        node, handler = text_of(pair.node), shown(pair.handler)
        latest = new or old
        assert latest is not None
        occasion = f"{latest.since} {latest.failures}"
        if new is None:
            text = f'runtime handler "{handler}" is trusted again'
            yield NodeEvent(node, "RuntimeHandlerTrusted", text, occasion, is_warning=False)
        elif old is None or new.failures > old.failures:
            text = f"{failed_to_start(pair.handler, new.pods)}: their events say why"
            yield NodeEvent(node, "RuntimeHandlerSuspect", text, occasion, is_warning=True)
        elif refuses and new.may_try and not old.may_try:
            text = f'one pod of runtime handler "{handler}" may try again'
            yield NodeEvent(node, "RuntimeHandlerOnTrial", text, occasion, is_warning=False)
