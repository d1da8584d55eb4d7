"""Requeues Pending pods that would now pass: an annotation makes kube-scheduler try them again.

Creating a RuntimeClass requeues no pod in kube-scheduler, nor does a change of a node's handlers,
and a pod that was refused by an outdated state waits for minutes. The pods that were refused before
this process began are listed once at the start.
"""

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final, Protocol

import orjson

from extender.cluster.api_connection import ConnectionFaultError
from extender.cluster.api_objects import Response, refusal_text, status_of, whole_body
from extender.cluster.kinds import pod_path
from extender.cluster.list_watch import Backoff, Cause
from extender.cluster.log_limit import LogLimit
from extender.cluster.rate_limit import TokenBucket
from extender.cluster.refused_before import ForbiddenError, WaitingPod, waiting_pods
from extender.cluster.snapshot_store import SnapshotStore, Swap
from extender.objects import Pod
from extender.predicates.node_checks import Policy, Requirements, reason_for_all_nodes
from extender.refused_pods import RefusedPod, RefusedPods
from extender.shape import Shape
from extender.snapshot import Snapshot

_LOG: Final = logging.getLogger(__name__)

ANNOTATION: Final = "runtimeclass-extender/retry"

#: Patches a second, and in a burst: for each the API server writes an object and kube-scheduler
#: tries a pod.
RATE: Final = 20.0
BURST: Final = 50.0

#: After all remembered pods have been judged, the thread rests this many times as long. With
#: thousands of different requirements judging takes a tenth of a second and more, and changes come
#: by the hundred while a cluster grows; those that come meanwhile are judged together.
_REST: Final = 9.0
_LONGEST_REST_SECONDS: Final = 10.0

#: How many different changes of shape are judged one by one; with more, all nodes are.
MAX_TRANSITIONS: Final = 1024

#: The time between two tries while the API server is away, and the number of tries.
RETRY_SECONDS: Final = 2.0
_MAX_TRIES: Final = 5

_ANSWER_SECONDS: Final = 5.0
_MAX_BYTES: Final = 4 * 2**20

#: A node's shape before and after; None for one that was not known.
Transition = tuple[Shape | None, Shape]


class Connection(Protocol):
    """What requeueing needs of a connection; see api_connection.ApiConnection."""

    def get(self, path: str, query: dict[str, str], *, silence: float) -> Response: ...
    def merge_patch(self, path: str, body: bytes, *, silence: float) -> Response: ...
    def rejected(self) -> None: ...
    def interrupt(self) -> None: ...


class _Changes:
    """What has changed since pods were last judged: classes by name, and shapes of nodes."""

    def __init__(self) -> None:
        self.classes: set[str] = set()
        self.transitions: set[Transition] = set()
        self.many = False

    def __bool__(self) -> bool:
        return bool(self.classes or self.transitions or self.many)

    def add(self, swap: Swap) -> None:
        old, new = swap.old, swap.new
        if old.runtime_classes is not new.runtime_classes:
            self.classes.update(
                name
                for name, each in new.runtime_classes.items()
                if old.runtime_classes.get(name) is not each
            )
        for name in swap.changed:
            before, after = old.shape(name), new.shape(name)
            if after is not None and after != before:
                self.transitions.add((before, after))
            if len(self.transitions) > MAX_TRANSITIONS:
                self.transitions.clear()
                self.many = True
                return


class Requeue:
    """Patches remembered pods from a thread of its own, from `start` to `stop`.

    `swapped` runs on the threads that write the store, and only notes what has changed.
    """

    def __init__(
        self,
        store: SnapshotStore,
        refused: RefusedPods,
        policy: Policy,
        connection: Connection,
        patched: Callable[[], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._refused = refused
        self._policy = policy
        self._connection = connection
        self._patched = patched
        self._clock = clock
        self._next_look = clock()
        self._bucket = TokenBucket(RATE, BURST, clock)
        self._limit = LogLimit(_LOG, clock)
        self._news = threading.Condition()
        self._changes = _Changes()
        self._waiting: OrderedDict[str, int] = OrderedDict()
        self._recalled = False
        self._next_recall = self._next_look
        self._backoff = Backoff(clock)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="requeue", daemon=True)
        store.subscribe(self.swapped)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._news:
            self._news.notify_all()
        self._connection.interrupt()

    def swapped(self, swap: Swap) -> None:
        """Note a change; a pod that is refused later is judged by the new snapshot anyway."""
        if not self._recalled:
            with self._news:
                self._news.notify_all()
        if not len(self._refused):
            return
        with self._news:
            self._changes.add(swap)
            if self._changes:
                self._news.notify_all()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._recalled or self._clock() < self._next_recall:
                    self._work()
                else:
                    self._recall()
            except Exception:
                _LOG.exception("requeueing failed; going on")
                self._stopping.wait(RETRY_SECONDS)

    def _recall(self) -> None:
        """Once everything is synced, find the pods that an earlier process has refused.

        Where they can't be listed, another try follows, and changes are heeded until then.
        """
        with self._news:
            self._news.wait_for(lambda: self._stopping.is_set() or self._store.snapshot.is_synced)
        if self._stopping.is_set():
            return
        try:
            count = sum(map(self._remember, waiting_pods(self._connection)))
        except ConnectionFaultError as error:
            self._limit.say(logging.WARNING, "list", "waiting pods not listed", cause=str(error))
            self._next_recall = self._clock() + self._backoff.delay(Cause.LISTING)
            return
        except ForbiddenError as error:
            text = "missing permission: list pods; add it to the ClusterRole (--requeue-pods)"
            _LOG.error(text, extra={"cause": str(error)})
        else:
            _LOG.info("waiting pods listed", extra={"remembered": count})
        self._recalled = True

    def _remember(self, waiting: WaitingPod) -> bool:
        """Remember a pod as if it had just been refused; requeue it if it would now pass."""
        if waiting.was_judged and not waiting.refusals:
            # The scheduler that tried it did not ask us, or had no node left to ask about.
            return False
        pod = waiting.pod
        # Remembered before it is judged: a change in between requeues it as any other does.
        self._refused.refuse(pod)
        nodes = nodes_by_reason(pod, self._store.snapshot, self._policy)
        if not waiting.was_judged:
            if nodes[None]:
                self._refused.admit(pod)
                return False
        elif nodes[None] and any(nodes[text] < count for text, count in waiting.refusals.items()):
            # Some of the nodes that it was refused for would pass now.
            self._waiting.setdefault(pod.uid or f"{pod.namespace}/{pod.name}", 0)
        return True

    def _work(self) -> None:
        with self._news:
            if not (self._changes or self._waiting or self._stopping.is_set()):
                self._news.wait(self._rest_before_recall())
            rest = self._next_look - self._clock()
            if rest > 0 and not self._waiting:
                self._news.wait_for(self._stopping.is_set, rest)
                return
            changes = _Changes()
            if rest <= 0:
                changes, self._changes = self._changes, changes
        if changes:
            self._look(changes)
        if self._waiting and not self._stopping.is_set():
            delay = self._bucket.delay()
            if delay:
                with self._news:
                    self._news.wait_for(self._stopping.is_set, delay)
            elif self._bucket.take():
                self._patch_next()

    def _rest_before_recall(self) -> float | None:
        """The seconds until waiting pods are listed once more; None once they have been."""
        return None if self._recalled else max(0.0, self._next_recall - self._clock())

    def _look(self, changes: _Changes) -> None:
        began = self._clock()
        for pod in woken(self._refused.pods(), changes, self._store.snapshot, self._policy):
            self._waiting.setdefault(pod.key, 0)
        ended = self._clock()
        self._next_look = ended + min(_REST * (ended - began), _LONGEST_REST_SECONDS)

    def _patch_next(self) -> None:
        key, tries = self._waiting.popitem(last=False)
        pod = self._refused.get(key)
        if pod is None:
            return
        try:
            self._patch(pod)
        except ConnectionFaultError as error:
            self._limit.say(logging.WARNING, "fault", "pods not requeued yet", cause=str(error))
            if tries + 1 < _MAX_TRIES:
                self._waiting[key] = tries + 1
                self._stopping.wait(RETRY_SECONDS)

    def _patch(self, pod: RefusedPod) -> None:
        """Raises ConnectionFaultError where another try may help."""
        path = pod_path(pod.namespace, pod.name)
        response = self._connection.merge_patch(path, _body(pod), silence=_ANSWER_SECONDS)
        body = whole_body(response, _ANSWER_SECONDS, _MAX_BYTES)
        if response.status == 200:
            self._patched()
            _LOG.info(
                "pod requeued",
                extra={
                    "pod": f"{pod.namespace}/{pod.name}",
                    "runtimeclass": pod.runtime_class,
                },
            )
        elif response.status == 403:
            text = "missing permission: patch pods; add it to the ClusterRole (--requeue-pods)"
            self._limit.say(logging.ERROR, "403", text, cause=status_of(body).message)
        elif response.status in (401, 429) or response.status >= 500:
            if response.status == 401:
                self._connection.rejected()
            raise ConnectionFaultError(refusal_text(response, body))
        # 404 and 409: the pod is gone, or another one has its name.


def _body(pod: RefusedPod) -> bytes:
    metadata: dict[str, object] = {"annotations": {ANNOTATION: _now()}}
    if pod.uid:
        # If the name belongs to another pod by now, the answer is 409.
        metadata["uid"] = pod.uid
    return orjson.dumps({"metadata": metadata})


def _now() -> str:
    # Finer than a second: writing the same text again would be no change, and requeue nothing.
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def woken(
    pods: Iterable[RefusedPod], changes: _Changes, snapshot: Snapshot, policy: Policy
) -> list[RefusedPod]:
    """The pods that could go to at least one more node after a change."""
    decided: dict[tuple[str, int], bool] = {}
    found = []
    for pod in pods:
        key = (pod.runtime_class, id(pod.requirements))
        passes = decided.get(key)
        if passes is None:
            passes = decided[key] = _is_woken(pod, changes, snapshot, policy)
        if passes:
            found.append(pod)
    return found


def _is_woken(pod: RefusedPod, changes: _Changes, snapshot: Snapshot, policy: Policy) -> bool:
    runtime_class = snapshot.runtime_classes.get(pod.runtime_class)
    if pod.runtime_class and runtime_class is None:
        return False
    if pod.requirements is None:
        # Its requirements were not remembered; kube-scheduler may try it, and ask again.
        return pod.runtime_class in changes.classes or bool(changes.transitions or changes.many)
    if reason_for_all_nodes(pod.requirements, runtime_class):
        return False
    requirements = Requirements.of(pod.requirements, runtime_class, policy)
    if changes.many or pod.runtime_class in changes.classes:
        shapes = (shape for _, shape, _ in snapshot.shapes_in_use())
        return any(requirements.mismatch(shape) is None for shape in shapes)
    return any(
        requirements.mismatch(after) is None
        and (before is None or requirements.mismatch(before) is not None)
        for before, after in changes.transitions
    )


def nodes_by_reason(pod: Pod, snapshot: Snapshot, policy: Policy) -> Counter[str | None]:
    """The number of nodes per refusal text, plain forms included; key None: the nodes it fits on.

    A plain text counts all nodes with a reason whose short form it is.
    """
    found: Counter[str | None] = Counter()
    runtime_class = snapshot.runtime_classes.get(pod.runtime_class_name)
    of_all = reason_for_all_nodes(pod, runtime_class)
    verdicts = snapshot.shapes.verdicts(pod, runtime_class, policy)
    for shape_id, _, count in snapshot.shapes_in_use():
        reason = of_all or verdicts.reason(shape_id)
        found[reason.text if reason else None] += count
        if reason is not None and reason.is_detailed:
            found[reason.plain] += count
    return found
