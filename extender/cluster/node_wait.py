"""Waits briefly for the watch event that made kube-scheduler try a pod again.

kube-scheduler and this service receive the same watch events, one of them first. A pod that is
tried because of an event that has not arrived here yet would be refused by the old state, and
nothing would try it again.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from extender.cluster.snapshot_store import SnapshotStore, Swap
from extender.snapshot import Snapshot

#: How much later than at kube-scheduler an event may arrive here. Measured with the real one:
#: without a wait 7 of 25 pods were left Pending, with this none of 25.
WAIT_SECONDS: Final = 0.03

#: Pods are scheduled one after the other: 10 waits of 30 ms are a third of the time.
WAITS_PER_SECOND: Final = 10

#: How many of these are for pods that are seen for the first time. These were just created, while a
#: pod that was refused before is tried again because of an event, which may be missing here.
FIRST_WAITS_PER_SECOND: Final = 7


class NodeWait:
    """Yields snapshots newer than the one that was judged, as they come; for request threads."""

    def __init__(self, store: SnapshotStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._news = threading.Condition()
        #: The start of each wait of the last second, and the group of pods that it was for.
        self.waits: deque[tuple[float, str]] = deque()
        store.subscribe(self._swapped)

    def _swapped(self, swap: Swap) -> None:
        with self._news:
            self._news.notify_all()

    def __call__(
        self, judged: Snapshot, *, tried_before: bool, group: str = ""
    ) -> Iterator[Snapshot]:
        """Each newer snapshot within WAIT_SECONDS; one that is there already costs no wait.

        A caller that stops before the end has found what it waited for: that wait is not counted.
        """
        deadline = self._clock() + WAIT_SECONDS
        waited_from: tuple[float, str] | None = None
        try:
            while True:
                left = deadline - self._clock()
                if self._store.snapshot is judged:
                    waited_from = waited_from or self._begin(tried_before, group)
                    if waited_from is None:
                        return
                    if not self._wait(judged, left):
                        return
                judged = self._store.snapshot
                yield judged
                if left <= 0:
                    return
        except GeneratorExit:
            self._give_back(waited_from)
            raise

    def _wait(self, judged: Snapshot, seconds: float) -> bool:
        with self._news:
            return self._news.wait_for(
                lambda: self._store.snapshot is not judged, max(0.0, seconds)
            )

    def _begin(self, tried_before: bool, group: str) -> tuple[float, str] | None:
        """Count a wait and return its entry; None when there were too many.

        Of a group of pods kube-scheduler asks about each member in one go, and about all of them
        again for each placement: the event that woke them has arrived by the time the first wait is
        over.
        """
        now = self._clock()
        with self._news:
            while self.waits and now - self.waits[0][0] >= 1.0:
                self.waits.popleft()
            limit = WAITS_PER_SECOND if tried_before else FIRST_WAITS_PER_SECOND
            if len(self.waits) >= limit:
                return None
            if group and any(each == group for _, each in self.waits):
                return None
            self.waits.append((now, group))
            return now, group

    def _give_back(self, began_at: tuple[float, str] | None) -> None:
        with self._news, contextlib.suppress(ValueError):
            if began_at is not None:
                self.waits.remove(began_at)
