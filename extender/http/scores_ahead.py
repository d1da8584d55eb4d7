"""Scores that are worked out while kube-scheduler reads the filter's answer.

After a filter kube-scheduler has the nodes scored that were left, in the order of the answer, for
the same pod in the same bytes (findNodesThatPassFilters and prioritizeNodes in schedule_one.go,
v1.36.2). So its question is known, byte for byte, as soon as the filter is answered. Where it has
asked so before, the answer is made then, and is ready when the question comes. Another question, or
another state of the cluster, is answered as if nothing had been made.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from extender.names import NameRun
from extender.objects import Pod
from extender.snapshot import Snapshot
from extender.verbs.class_lookup import SnapshotSource
from extender.verbs.prioritize import Preferences
from extender.wire.bodies import Chunks
from extender.wire.filter_bodies import (
    QUICK_NAMES,
    QUICK_NAMES_BYTES,
    encode_scores,
    names_body,
)

#: Bytes of names; more are scored in a thread, when they are asked about.
MOST_AHEAD: Final = QUICK_NAMES_BYTES


def score_names(pod: Pod, names: NameRun, snapshot: Snapshot, preferences: Preferences) -> Chunks:
    """The answer of the prioritize verb about nodes of the snapshot."""
    if not snapshot.runtime_classes_synced:
        return encode_scores(names, None)
    # The filter has looked for a missing class a moment ago; the scores need not.
    own = snapshot.runtime_classes.get(pod.runtime_class_name)
    return encode_scores(names, preferences.scores(own, snapshot, names).above_lowest)


class _Ready(NamedTuple):
    """An answer that was made ahead."""

    body: bytes
    snapshot: Snapshot
    chunks: Chunks
    nodes: int


class ScoresAhead:
    """Owned by the service, shared by filter and prioritize and by all their threads.

    What is kept is replaced whole, and an answer is compared with the whole question.
    """

    def __init__(self, source: SnapshotSource, preferences: Preferences) -> None:
        self._source = source
        self._preferences = preferences
        self._head: bytes | None = None
        # Whether the pod that was filtered last had its nodes scored.
        self._was_scored = False
        #: The pod that was filtered last, the beginning of its request, and the names that it has
        #: left, if several: a run, or the bytes of one; of MOST_AHEAD at most. Set while the client
        #: waits; all else comes later, or never if the client has gone.
        self.filtered: tuple[Pod, bytes, NameRun | bytes] | None = None
        self._ready: _Ready | None = None

    def work(self) -> Callable[[], None] | None:
        """What makes the answer to the next question; to be asked when the filter's is sent."""
        filtered, self.filtered = self.filtered, None
        if filtered is None:
            return None
        pod, head, left = filtered
        is_usual, self._was_scored = self._was_scored, False
        self._head, self._ready = head, None
        return partial(self._work, pod, head, left) if is_usual else None

    def _work(self, pod: Pod, head: bytes, left: NameRun | bytes) -> None:
        names = NameRun.read(left, 0, len(left)) if isinstance(left, bytes) else left
        if names is None or names.count > QUICK_NAMES:
            return
        snapshot = self._source.snapshot
        if self._preferences.takes_long(snapshot):
            return
        chunks = score_names(pod, names, snapshot, self._preferences)
        self._ready = _Ready(names_body(head, names), snapshot, chunks, names.count)

    def answer(self, body: bytes) -> tuple[Chunks, int] | None:
        """The answer to this question and the number of nodes, if it was made ahead."""
        head, ready = self._head, self._ready
        if head is None or not body.startswith(head):
            return None
        self._was_scored = True
        if ready is None or ready.body != body or ready.snapshot is not self._source.snapshot:
            return None
        self._ready = None
        return ready.chunks, ready.nodes
