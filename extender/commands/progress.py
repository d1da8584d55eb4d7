"""A line on the terminal that says how far a command has come, once it takes a while."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

#: A command that takes less shows no progress.
PATIENCE_SECONDS: Final = 1.0
_REFRESH_SECONDS: Final = 0.2
_ERASE: Final = "\r\x1b[K"


@contextmanager
def showing(describe: Callable[[], str]) -> Iterator[None]:
    """While the block runs, show on the terminal what `describe` returns; a thread writes it."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_tell, args=(describe, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _tell(describe: Callable[[], str], done: threading.Event) -> None:
    started = time.monotonic()
    if done.wait(PATIENCE_SECONDS):
        return
    while True:
        seconds = time.monotonic() - started
        _write(f"{_ERASE}{describe()}, {seconds:.0f} s")
        if done.wait(_REFRESH_SECONDS):
            break
    _write(_ERASE)


def _write(text: str) -> None:
    # If the terminal is gone, the command goes on.
    with suppress(OSError):
        print(text, end="", file=sys.stderr, flush=True)
