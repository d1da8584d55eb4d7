"""Waits briefly for the watch event that made kube-scheduler try a pod again.

A pod that kube-scheduler tries because of an event that has not arrived here yet would be refused
by the old state, and nothing would try it again.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Final

from extender.cluster.snapshot_store import SnapshotStore, Swap
from extender.rules.snapshot import Snapshot

#: How much later than at kube-scheduler an event may arrive here. Measured with the real one:
#: without a wait 7 of 25 pods were left Pending, with this none of 25.
WAIT_SECONDS: Final = 0.03

#: Pods are scheduled one after the other: 10 waits of 30 ms are a third of the time.
WAITS_PER_SECOND: Final = 10

#: How many of these are for pods that are seen for the first time. These were just created, while a
#: pod that was refused before is tried again because of an event, which may be missing here.
FIRST_WAITS_PER_SECOND: Final = 7


class NodeWait:
    """Yields snapshots newer than the one that was judged, as they come.

    Owned by the event loop that awaits them; the store's writer calls `_swapped` from its thread.
    """

    def __init__(self, store: SnapshotStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        #: Those who wait. Replaced whole, since another thread reads it.
        self._news: tuple[tuple[asyncio.AbstractEventLoop, asyncio.Event], ...] = ()
        #: The start of each wait of the last second, and the group of pods that it was for.
        self.waits: deque[tuple[float, str]] = deque()
        store.subscribe(self._swapped)

    def _swapped(self, swap: Swap) -> None:
        for loop, news in self._news:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(news.set)

    async def __call__(
        self, judged: Snapshot, *, tried_before: bool, group: str = ""
    ) -> AsyncGenerator[Snapshot, None]:
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
                    if waited_from is None or not await self._wait(judged, left):
                        return
                judged = self._store.snapshot
                yield judged
                if left <= 0:
                    return
        except GeneratorExit:
            with contextlib.suppress(ValueError):
                if waited_from is not None:
                    self.waits.remove(waited_from)
            raise

    async def _wait(self, judged: Snapshot, seconds: float) -> bool:
        """Whether a newer snapshot comes within these seconds."""
        entry = asyncio.get_running_loop(), asyncio.Event()
        self._news = (*self._news, entry)
        try:
            # A swap before the event stood in the tuple was not heard of.
            if self._store.snapshot is judged:
                async with asyncio.timeout(max(0.0, seconds)):
                    await entry[1].wait()
        except TimeoutError:
            pass
        finally:
            self._news = tuple(each for each in self._news if each is not entry)
        return self._store.snapshot is not judged

    def _begin(self, tried_before: bool, group: str) -> tuple[float, str] | None:
        """Count a wait and return its entry; None when there were too many.

        kube-scheduler asks about the members of a group in one go: the event that woke them has
        arrived by the end of the first wait.
        """
        now = self._clock()
        while self.waits and now - self.waits[0][0] >= 1.0:
            self.waits.popleft()
        limit = WAITS_PER_SECOND if tried_before else FIRST_WAITS_PER_SECOND
        if len(self.waits) >= limit:
            return None
        if group and any(each == group for _, each in self.waits):
            return None
        self.waits.append((now, group))
        return now, group
