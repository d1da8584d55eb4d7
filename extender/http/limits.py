"""How much memory all requests together may take, and which thread works on a request."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, Final

from extender.http.answers import Refusal

#: The event loop works on bodies up to this size, for 10 ms at most; 5,000 names have half of it.
#: Larger bodies share one thread. Python runs one thread at a time, and each further thread would
#: keep a body in memory meanwhile.
LOOP_BYTES: Final = 256 * 1024

#: Bodies and answers up to this size are not counted: uvicorn itself buffers as much of a body.
SMALL_BYTES: Final = 64 * 1024

#: Bodies up to this size, of 40,000 names, may use the last MEDIUM_ROOM bytes of the budget. Larger
#: bodies may not, so that there is room for kube-scheduler's requests.
MEDIUM_BYTES: Final = 2**20
MEDIUM_ROOM: Final = 16 * MEDIUM_BYTES

#: 5,000 whole Nodes of 10 KB are 50 MB, 150,000 names 7 MB. `make loadtest` compares the memory
#: that such bodies take with the limit in the shipped manifests.
DEFAULT_MAX_BODY_BYTES: Final = 64 * 2**20

_LARGE: Final = ThreadPoolExecutor(1, "large")


async def work(size: int, function: Callable[..., Any], *args: object) -> Any:
    """Call a function: on the event loop for a body of up to LOOP_BYTES, else in the thread."""
    if size <= LOOP_BYTES:
        return function(*args)
    return await asyncio.get_running_loop().run_in_executor(_LARGE, function, *args)


class Room:
    """A budget of bytes for the large requests of one event loop. The loop's thread owns it."""

    def __init__(self, max_body_bytes: int) -> None:
        #: Enough for the largest body, for some further bodies, and for medium bodies.
        self._free = max_body_bytes + 2 * MEDIUM_ROOM
        #: Set when a large request ends. The worker then returns freed memory to the kernel.
        self.was_used = False

    def take(self, size: int, held: list[int]) -> None:
        """Count a body that is about to arrive, or an answer, and add it to `held`. Raises Refusal.

        A body is freed before its answer is sent, or is part of it: the larger size counts.
        """
        body = sum(held)
        more = max(0, size - body)
        # The answer to a medium body may be large: it tells the reason of each node.
        is_large = more > MEDIUM_BYTES and not 0 < body <= MEDIUM_BYTES
        if self._free < more + (MEDIUM_ROOM if is_large else 0):
            text = "too many large requests at once, try again later"
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, text)
        self._free -= more
        held.append(more)

    def give_back(self, held: list[int]) -> None:
        if held:
            self._free += sum(held)
            self.was_used = True
