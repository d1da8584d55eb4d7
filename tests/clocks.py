"""A clock that a test sets."""


class Clock:
    """Seconds; they pass only where the test says so."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
