"""Limits for the rate of actions and of log lines."""

import logging
from collections.abc import Callable


class TokenBucket:
    """Allows `burst` actions at once, and `rate` a second in the long run. The caller locks."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._tokens = burst
        self._filled_at = clock()

    def take(self) -> bool:
        """Take a token. Returns False if there is none."""
        if self.delay() > 0:
            return False
        self._tokens -= 1
        return True

    def delay(self) -> float:
        """Seconds until there is a token."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        return max(0.0, (1 - self._tokens) / self._rate)


class LogLimit:
    """A logger for messages that may repeat many times a second. For one thread."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float]) -> None:
        self._logger = logger
        self._clock = clock
        self._said_at: dict[str, float] = {}

    def say(self, level: int, topic: str, text: str, **fields: object) -> None:
        """Log the text, at most once a minute for each topic. Topics come from a fixed set."""
        now = self._clock()
        if now - self._said_at.get(topic, float("-inf")) >= 60:
            self._said_at[topic] = now
            self._logger.log(level, text, extra=fields)
