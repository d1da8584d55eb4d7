"""How many pods a second the admission webhook stands: more and more, until it does not keep up."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from loadtest.processes import Effort, Server
from loadtest.timing import Times
from loadtest.webhook import BOTH, LEAD_SECONDS, reviews_of, times_of

#: What the slowest pod of a hundred may wait for both answers, milliseconds.
LIMIT_MS: Final = 100.0

#: Fewer than this share of the pods asked for is not keeping up.
_LEAST_SHARE: Final = 0.95

#: A rate is given up once it has failed so often: a machine has other things to do, too.
_TRIES: Final = 2

#: Halvings between the highest rate that was kept and the lowest that was not.
REFINEMENTS: Final = 3

RATES: Final = (50, 100, 200, 400, 800, 1_600, 3_200, 6_400)


@dataclass(frozen=True, slots=True)
class Step:
    """One rate. placed: pods a second; p50, p99: ms from when a pod was due until both answers.

    share is the webhook's processor time, 1 being a core all of the time.
    """

    rate: int
    placed: float
    p50: float
    p99: float
    share: float

    @property
    def is_kept(self) -> bool:
        return self.p99 <= LIMIT_MS and self.placed >= _LEAST_SHARE * self.rate

    @property
    def a_core(self) -> float:
        """Pods a second that would fill one core at what a pod has cost here."""
        return self.placed / self.share if self.share else 0.0


@dataclass(frozen=True, slots=True)
class Limit:
    """The steps by rate, and the memory of both processes after them; peak as in Run."""

    steps: list[Step]
    memory: int
    peak: int

    @property
    def kept(self) -> Step | None:
        """The highest rate that was kept, with none below it that was not."""
        kept = None
        for step in self.steps:
            if not step.is_kept:
                break
            kept = step
        return kept

    @property
    def too_many(self) -> int | None:
        """The lowest rate that was not kept."""
        return next((step.rate for step in self.steps if not step.is_kept), None)


def at_rate(server: Server, rate: int, seconds: float) -> Step:
    """Create pods at a rate. Raises ServerError, OSError."""
    pods = reviews_of(server.address, max(1, round(rate * seconds)))
    before, began = Effort.of(server.answering), time.monotonic()
    times = Times.of(times_of(server.address, rate, pods)[BOTH])
    elapsed = time.monotonic() - began
    spent = Effort.of(server.answering).seconds - before.seconds
    # The last pod is due a pod's time before the end.
    placed = len(pods) / max(elapsed - LEAD_SECONDS, len(pods) / rate)
    return Step(rate, placed, times.p50, times.p99, spent / elapsed)


def search(
    measure: Callable[[int], Step], rates: Sequence[int] = RATES, refinements: int = REFINEMENTS
) -> list[Step]:
    """The steps by rate, of each rate the last try: up to the first that fails, then in between."""

    def tried(rate: int) -> Step:
        step = measure(rate)
        for _ in range(_TRIES - 1):
            step = step if step.is_kept else measure(rate)
        return step

    steps: list[Step] = []
    for rate in rates:
        steps.append(tried(rate))
        if not steps[-1].is_kept:
            break
    for _ in range(refinements):
        between = [(a.rate, b.rate) for a, b in pairwise(steps) if a.is_kept and not b.is_kept]
        middle = sum(between[0]) // 2 if between else 0
        if not between or middle in between[0]:
            break
        steps = sorted([*steps, tried(middle)], key=lambda step: step.rate)
    return steps
