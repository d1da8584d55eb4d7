"""Watches a server process while it is under load: memory, threads, descriptors over time."""

import http.client
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from loadtest.processes import Address, ServerError, Usage

_EVERY_SECONDS: Final = 0.5

_REQUESTS: Final = re.compile(
    r'^runtimeclass_extender_requests_total\{[^}]*code="(\d+)"[^}]*\} (\S+)$', re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Sample:
    """`at` is seconds since the watch began."""

    at: float
    usage: Usage


class Watch:
    """A thread that looks at a process twice a second until the block ends or the process does."""

    def __init__(self, pid: int) -> None:
        self.samples: list[Sample] = []
        self._pid = pid
        self._began = time.monotonic()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ending.is_set():
            try:
                usage = Usage.of(self._pid)
            except (OSError, KeyError):
                return
            self.samples.append(Sample(time.monotonic() - self._began, usage))
            self._ending.wait(_EVERY_SECONDS)

    def since(self, first: "Watch") -> list[Sample]:
        """The samples, at the times since the first watch began."""
        later = self._began - first._began
        return [Sample(each.at + later, each.usage) for each in self.samples]

    def settled(self, share: float) -> Usage:
        """What it used once that share of the time was over."""
        until = share * self.samples[-1].at
        return next(each.usage for each in self.samples if each.at >= until)


def await_usage(pid: int, enough: Callable[[Usage], bool], seconds: float) -> Usage:
    """The usage as soon as it is enough, or after so many seconds whatever it is."""
    deadline = time.monotonic() + seconds
    while not enough(usage := Usage.of(pid)) and time.monotonic() < deadline:
        time.sleep(_EVERY_SECONDS)
    return usage


def server_errors(address: Address) -> int:
    """How many answers that tell of a fault of the service it has counted.

    Raises ServerError if it counts none at all.
    """
    connection = http.client.HTTPConnection(*address, timeout=5)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    counted = _REQUESTS.findall(text)
    if not counted:
        raise ServerError("/metrics has no runtimeclass_extender_requests_total")
    return round(sum(float(count) for code, count in counted if _is_fault(code)))


def _is_fault(code: str) -> bool:
    """501 and 505 tell a client that it speaks another HTTP, 503 that others send too much now.

    A 503 to anybody well-behaved is a failed request of theirs.
    """
    return code.startswith("5") and code not in ("501", "503", "505")
