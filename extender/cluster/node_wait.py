"""Waits briefly for the watch event that made kube-scheduler try a pod again.

kube-scheduler may see an event before this service does, and try a pod again because of it. The
pod would then be refused by the old state, and nothing would try it once more.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Final

from extender.cluster.snapshot_store import SnapshotStore
from extender.rules.snapshot import Snapshot

#: How much later than at kube-scheduler an event may arrive here. Measured with a real
#: kube-scheduler: without a wait 7 of 25 pods stayed Pending, with this wait none of 25.
WAIT_SECONDS: Final = 0.03

#: kube-scheduler tries one pod at a time: 10 waits of 30 ms are a third of its time.
WAITS_PER_SECOND: Final = 10

#: The limit for pods that are tried for the first time. Further waits are reserved for pods that
#: were refused before: an event made kube-scheduler try them again, and may be missing here.
FIRST_WAITS_PER_SECOND: Final = 7

#: The pause between two looks for the event.
_POLL_SECONDS: Final = 0.002


class NodeWait:
    """Yields snapshots newer than the one that was judged, as they come; for one event loop."""

    def __init__(self, store: SnapshotStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        #: The start of each wait of the last second.
        self.waits: deque[float] = deque()

    async def __call__(
        self, judged: Snapshot, *, tried_before: bool
    ) -> AsyncGenerator[Snapshot, None]:
        """Each newer snapshot within WAIT_SECONDS. No wait is counted if one is there already."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + WAIT_SECONDS
        is_counted = False
        while loop.time() < deadline:
            if self._store.snapshot is judged and not is_counted:
                if not self._count(tried_before):
                    return
                is_counted = True
            while self._store.snapshot is judged:
                if loop.time() >= deadline:
                    return
                await asyncio.sleep(_POLL_SECONDS)
            judged = self._store.snapshot
            yield judged

    def _count(self, tried_before: bool) -> bool:
        """Count a wait. Returns False if the limit is reached."""
        now = self._clock()
        while self.waits and now - self.waits[0] >= 1.0:
            self.waits.popleft()
        if len(self.waits) >= (WAITS_PER_SECOND if tried_before else FIRST_WAITS_PER_SECOND):
            return False
        self.waits.append(now)
        return True
