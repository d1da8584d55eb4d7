"""Requeues Pending pods that would now pass: an annotation makes kube-scheduler try them again.

kube-scheduler itself requeues no pod when a RuntimeClass is created or a node's handlers change.
Pods that were refused before this process began are listed once at the start, and found by our
reasons: kube-scheduler writes why it found no node into the pod's condition PodScheduled.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

import orjson
from msgspec import Raw

from extender.cluster.api.connection import ApiConnection, ConnectionFaultError, StatusError, listed
from extender.cluster.api.list_watch import LIST_SILENCE_SECONDS, Backoff, Reason
from extender.cluster.rate_limit import LogLimit, TokenBucket
from extender.cluster.snapshot_store import SnapshotStore, Swap
from extender.kubernetes.decoder import DecodeError, decode, nullable
from extender.kubernetes.explained_pods import uses_in
from extender.kubernetes.kinds import PODS, WAITING, pod_path
from extender.kubernetes.pods import RawPod, RawPodSpec, pod_of, pod_status
from extender.model.objects import Pod
from extender.model.reasons import has_ours
from extender.rules.node_checks import Policy, Requirements
from extender.rules.node_shape import Shape
from extender.rules.snapshot import Snapshot
from extender.verbs.outcomes import RefusedPod, RefusedPods, key_of

_LOG: Final = logging.getLogger(__name__)

ANNOTATION: Final = "runtimeclass-extender/retry"

#: Patches a second, and in a burst. Each patch makes kube-scheduler try a pod.
RATE: Final = 20.0
BURST: Final = 50.0

#: Judging all remembered pods may take a tenth of a second. The pause after it is this many times
#: as long, up to a limit. Changes that come meanwhile are judged together.
_REST: Final = 9.0
_LONGEST_REST_SECONDS: Final = 10.0

#: The pause between two tries of a patch, the most tries, and the most tries of a forbidden list.
#: kube-apiserver refuses every client for a moment after its start, until it has read its roles.
RETRY_SECONDS: Final = 2.0
_MAX_TRIES: Final = 5
_MAX_FORBIDDEN: Final = 3

#: Answers below 500 after which another try may help.
_MAY_PASS: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)

_ANSWER_SECONDS: Final = 5.0


class _Changes:
    """The changes since pods were last judged: names of classes, and shapes of nodes."""

    def __init__(self) -> None:
        self.classes: set[str] = set()
        #: The shapes of changed nodes before and after. The shape before is None for a new node.
        self.transitions: set[tuple[Shape | None, Shape]] = set()

    def __bool__(self) -> bool:
        return bool(self.classes or self.transitions)

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


class Requeue:
    """Patches remembered pods from a thread of its own, from `start` to `stop`.

    `swapped` runs on the threads that write the store, and only notes changes.
    """

    def __init__(
        self,
        store: SnapshotStore,
        refused: RefusedPods,
        policy: Policy,
        connection: ApiConnection,
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
        self._bucket = TokenBucket(RATE, BURST, clock)
        self._limit = LogLimit(_LOG, clock)
        self._news = threading.Condition()
        self._changes = _Changes()
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
        """Note a change, unless no pod is remembered: a later pod is judged by the new snapshot."""
        with self._news:
            if len(self._refused):
                self._changes.add(swap)
            self._news.notify_all()

    def _run(self) -> None:
        step = self._recall
        while not self._stopping.is_set():
            try:
                step()
                step = self._work
            except Exception:
                _LOG.exception("requeueing failed; going on")
                self._stopping.wait(RETRY_SECONDS)

    def _recall(self) -> None:
        """After the first sync, list pods that an earlier process refused; requeue fitting pods."""
        with self._news:
            self._news.wait_for(lambda: self._stopping.is_set() or self._store.snapshot.is_synced)
        backoff, tries = Backoff(self._clock), 0
        while not self._stopping.is_set():
            tries += 1
            try:
                fitting = list(filter(self._remember, refused_pods(self._connection)))
            except ConnectionFaultError as error:
                if error.status == HTTPStatus.FORBIDDEN and tries >= _MAX_FORBIDDEN:
                    self._tell_missing("list", error)
                    return
                text = "waiting pods not listed"
                self._limit.say(logging.WARNING, "list", text, cause=str(error))
                self._stopping.wait(backoff.delay(Reason.UNREACHABLE))
            else:
                _LOG.info("waiting pods listed", extra={"remembered": len(self._refused)})
                self._patch_all(map(key_of, fitting))
                return

    def _remember(self, pod: Pod) -> bool:
        """Remember a pod as if it had just been refused. Returns whether it would now pass."""
        # Remembered before it is judged, so that a change in between requeues it too.
        self._refused.refuse(pod)
        snapshot = self._store.snapshot
        runtime_class = snapshot.runtime_classes.get(pod.runtime_class_name)
        verdicts = snapshot.shapes.verdicts(pod, runtime_class, self._policy)
        return any(verdicts.reason(shape_id) is None for shape_id, _, _ in snapshot.shapes_in_use())

    def _work(self) -> None:
        with self._news:
            self._news.wait_for(lambda: self._changes or self._stopping.is_set())
            changes, self._changes = self._changes, _Changes()
        began = self._clock()
        pods = woken(self._refused.pods(), changes, self._store.snapshot, self._policy)
        rest = min(_REST * (self._clock() - began), _LONGEST_REST_SECONDS)
        rests_until = self._clock() + rest
        self._patch_all(map(key_of, pods))
        self._stopping.wait(max(0.0, rests_until - self._clock()))

    def _patch_all(self, keys: Iterable[str]) -> None:
        """Patch the remembered pods. Failed patches are retried after all others.

        Retries ignore that a pod has passed meanwhile, so that a missing permission is logged.
        """
        pods: Iterable[RefusedPod | None] = map(self._refused.get, keys)
        for left in reversed(range(_MAX_TRIES)):
            failed = list[RefusedPod]()
            for pod in filter(None, pods):
                while not self._bucket.take():
                    if self._stopping.wait(self._bucket.delay()):
                        return
                try:
                    self._patch(pod)
                except ConnectionFaultError as error:
                    failed.append(pod)
                    self._tell_failed(pod, error, is_final=not left)
            if not failed or not left or self._stopping.wait(RETRY_SECONDS):
                return
            pods = failed

    def _tell_failed(self, pod: RefusedPod, error: ConnectionFaultError, *, is_final: bool) -> None:
        if not is_final:
            text = "pods not requeued yet"
            self._limit.say(logging.WARNING, "patch", text, cause=str(error))
        elif error.status == HTTPStatus.FORBIDDEN:
            self._tell_missing("patch", error)
        else:
            self._tell(logging.WARNING, "pod not requeued", pod, cause=str(error))

    def _tell_missing(self, verb: str, error: ConnectionFaultError) -> None:
        text = f"missing permission: {verb} pods; add it to the ClusterRole (--requeue-pods)"
        self._limit.say(logging.ERROR, f"missing {verb}", text, cause=str(error))

    def _patch(self, pod: RefusedPod) -> None:
        """Raises ConnectionFaultError if another try may help."""
        path = pod_path(pod.namespace, pod.name)
        response = self._connection.send("PATCH", path, _body(pod), silence=_ANSWER_SECONDS)
        body = response.read_all(_ANSWER_SECONDS)
        if response.status == HTTPStatus.OK:
            self._patched()
            self._tell(logging.INFO, "pod requeued", pod, runtimeclass=pod.runtime_class)
            return
        error = StatusError(response.status, body)
        if error.status not in _MAY_PASS and error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            # Such as 404 if the pod is gone, or 409 if another pod has its name.
            self._tell(logging.INFO, "pod not requeued", pod, cause=str(error))
            return
        raise error

    @staticmethod
    def _tell(level: int, text: str, pod: RefusedPod, **fields: str) -> None:
        _LOG.log(level, text, extra={"pod": f"{pod.namespace}/{pod.name}", **fields})


def _body(pod: RefusedPod) -> bytes:
    # In microseconds: writing the same text again would change nothing, and requeue nothing.
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    metadata: dict[str, object] = {"annotations": {ANNOTATION: now}}
    if pod.uid:
        # If the name belongs to another pod by now, the answer is 409.
        metadata["uid"] = pod.uid
    return orjson.dumps({"metadata": metadata})


def woken(
    pods: Iterable[RefusedPod], changes: _Changes, snapshot: Snapshot, policy: Policy
) -> list[RefusedPod]:
    """The pods that could go to at least one more node after a change."""
    decided: dict[tuple[str, int], bool] = {}
    found = []
    for pod in pods:
        key = (pod.runtime_class, id(pod.needs))
        if key not in decided:
            decided[key] = _is_woken(pod, changes, snapshot, policy)
        if decided[key]:
            found.append(pod)
    return found


def _is_woken(pod: RefusedPod, changes: _Changes, snapshot: Snapshot, policy: Policy) -> bool:
    runtime_class = snapshot.runtime_classes.get(pod.runtime_class)
    if pod.runtime_class and runtime_class is None:
        return False
    if pod.needs is None:
        # Its needs were not remembered. kube-scheduler tries it, and the filter decides.
        return pod.runtime_class in changes.classes or bool(changes.transitions)
    requirements = Requirements.of(pod.needs, runtime_class, policy)
    if pod.runtime_class in changes.classes:
        shapes = (shape for _, shape, _ in snapshot.shapes_in_use())
        return any(requirements.mismatch(shape) is None for shape in shapes)
    return any(
        requirements.mismatch(after) is None
        and (before is None or requirements.mismatch(before) is not None)
        for before, after in changes.transitions
    )


def refused_pods(connection: ApiConnection) -> Iterator[Pod]:
    """The pods without a node that we have refused. Raises ConnectionFaultError."""
    found = listed(connection, PODS, {"fieldSelector": WAITING}, LIST_SILENCE_SECONDS)
    yield from filter(None, map(_refused, found))


def _refused(raw: Raw) -> Pod | None:
    try:
        read = decode(raw, RawPod, "Pod")
        pod, spec = pod_of(read), read.spec or RawPodSpec()
        # Most pods require nothing. Their other fields are not read.
        if pod.is_unconstrained:
            return None
        pod.uses = uses_in(raw)
        gates = nullable(spec.scheduling_gates, list[Raw], "Pod.spec.schedulingGates")
        said = pod_status(read).unscheduled_message or ""
    except DecodeError:
        # Left out. If the filter can't read it either, it answers with a 400.
        return None
    return pod if has_ours(said) and not gates else None
