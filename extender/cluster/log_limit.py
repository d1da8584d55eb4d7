"""Logs the same thing at most once a minute."""

import logging
from collections.abc import Callable
from typing import Final

SECONDS: Final = 60.0


class LogLimit:
    """A logger for what may happen many times a second. For one thread."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float]) -> None:
        self._logger = logger
        self._clock = clock
        self._said_at: dict[str, float] = {}

    def say(self, level: int, topic: str, text: str, **fields: object) -> None:
        """Log the text, unless something of this topic was said within the last minute.

        Topics are of a fixed set: each is remembered.
        """
        now = self._clock()
        if now - self._said_at.get(topic, float("-inf")) >= SECONDS:
            self._said_at[topic] = now
            self._logger.log(level, text, extra=fields)
