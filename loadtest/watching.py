"""The resources that a server process holds at rest, and the faults that it has counted."""

import re
import time
from typing import Final

from loadtest.processes import Address, ServerError, Usage
from loadtest.timing import Client

_EVERY_SECONDS: Final = 0.5

#: Hostile connections are cut off after 10 s, and memory is returned every 10 s.
_REST_SECONDS: Final = 22.0

_REQUESTS: Final = re.compile(
    r'^runtimeclass_extender_requests_total\{[^}]*code="(\d+)"[^}]*\} (\S+)$', re.MULTILINE
)
_REFUSED_PODS: Final = re.compile(r"^runtimeclass_extender_refused_pods\{.* (\S+)$", re.MULTILINE)


def at_rest(pid: int, seconds: float = _REST_SECONDS) -> Usage:
    """The minimum of each resource that a process holds while nobody sends requests."""
    deadline = time.monotonic() + seconds
    found = [Usage.of(pid)]
    while time.monotonic() < deadline:
        time.sleep(_EVERY_SECONDS)
        found.append(Usage.of(pid))
    return Usage(
        min(each.rss for each in found),
        min(each.threads for each in found),
        min(each.descriptors for each in found),
    )


def faults_and_refused_pods(address: Address) -> tuple[int, int]:
    """The numbers of faulty answers and of remembered refused pods. Raises ServerError."""
    with Client(address) as client:
        text = client.ask("metrics", b"", "GET").body.decode()
    counted = _REQUESTS.findall(text)
    if not counted:
        raise ServerError("/metrics has no runtimeclass_extender_requests_total")
    faults = sum(float(count) for code, count in counted if _is_fault(code))
    return round(faults), round(sum(map(float, _REFUSED_PODS.findall(text))))


def _is_fault(code: str) -> bool:
    """501 and 505 mean that a client speaks another HTTP, 503 that clients send too much now.

    A 503 to a well-behaved client counts among the failed requests of that client.
    """
    return code.startswith("5") and code not in ("501", "503", "505")
