"""What a measurement is at, on standard error: one line that changes, or a line each in a log."""

import sys
import time
from typing import Final

_WIDTH: Final = 78


class Progress:
    def __init__(self) -> None:
        self._began = time.monotonic()
        self._in_place = sys.stderr.isatty()
        self._open = False

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def say(self, text: str) -> None:
        """What is being done now; overwritten by what comes next."""
        line = f"[{time.monotonic() - self._began:4.0f} s] {text}"
        if self._in_place:
            print(f"\r{line[:_WIDTH]:<{_WIDTH}}", end="", file=sys.stderr, flush=True)
            self._open = True
        else:
            print(line, file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """A line that stays."""
        self._clear()
        print(text, file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self._open:
            print(f"\r{'':<{_WIDTH}}\r", end="", file=sys.stderr, flush=True)
            self._open = False
