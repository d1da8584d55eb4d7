"""Stops and starts a server again and again while it is under load, always on the same ports."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

from loadtest.processes import Address, Server, ServerError

#: gunicorn's exit code after SIGTERM.
_STOPPED: Final = 0

Starting = Callable[[], contextlib.AbstractContextManager[Server]]


def free_address() -> Address:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        return host, port


class Restarts:
    """A server that is stopped by SIGTERM each `every` seconds, and started again once it is gone.

    start begins it on the same addresses each time. server is the one that was started last, down
    has the seconds that each restart took, and error what went wrong.
    """

    def __init__(self, start: Starting, every: float | None) -> None:
        self._start = start
        self._every = every
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._running = contextlib.ExitStack()
        self.down: list[float] = []
        self.error = ""

    def __enter__(self) -> "Restarts":
        """Raises ServerError."""
        self.server = self._running.enter_context(self._start())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._running.close()

    def end(self) -> None:
        """Let the last server run on."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(self._every) and not self.error:
            began, process = time.monotonic(), self.server.process
            try:
                self._running.close()
                if process.returncode != _STOPPED:
                    self.error = f"a stop ended with exit code {process.returncode}"
                self.server = self._running.enter_context(self._start())
            except (ServerError, OSError) as error:
                self.error = str(error)
            self.down.append(time.monotonic() - began)
