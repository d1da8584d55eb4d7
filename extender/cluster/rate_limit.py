"""A token bucket: at most a number of actions a second."""

from collections.abc import Callable


class TokenBucket:
    """`burst` at once, and `rate` a second in the long run. The caller locks."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._tokens = burst
        self._filled_at = clock()

    def take(self) -> bool:
        """Whether one more is allowed now."""
        if self.delay() > 0:
            return False
        self._tokens -= 1
        return True

    def delay(self) -> float:
        """Seconds until one more is allowed."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        return max(0.0, (1 - self._tokens) / self._rate)
