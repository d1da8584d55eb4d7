"""Server processes to measure: started on a free loopback port, watched in /proc, then stopped."""

import contextlib
import http.client
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
OUT: Final = Path(__file__).resolve().parent / "out"

#: A cluster of 150,000 nodes is read in some ten seconds.
START_SECONDS: Final = 180.0
STOP_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.01

_LISTENING: Final = re.compile(r"listening on http://(127\.0\.0\.1):(\d+)")
_OPS: Final = re.compile(r"probes and metrics on http://(127\.0\.0\.1):(\d+)")

_PROPORTIONAL: Final = re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE)
_PEAK: Final = re.compile(r"VmHWM:\s+(\d+) kB")

#: The variable that runs the service without its compiled part.
_PURE_PYTHON: Final = "RUNTIMECLASS_EXTENDER_PURE_PYTHON"

Address = tuple[str, int]


class ServerError(Exception):
    """A server did not start, or gave a wrong answer."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources of a process, from /proc; memory in bytes."""

    rss: int
    threads: int
    descriptors: int

    @classmethod
    def of(cls, pid: int) -> "Usage":
        """Raises OSError once the process is gone."""
        status = Path(f"/proc/{pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        return cls(
            int(fields["VmRSS"].split()[0]) * 1024,
            int(fields["Threads"]),
            len(os.listdir(f"/proc/{pid}/fd")),
        )


def memory_of(*pids: int) -> int:
    """The memory of all processes together, in bytes. Shared memory counts once (Pss)."""
    return _bytes(pids, "smaps_rollup", _PROPORTIONAL)


def peak_of(*pids: int) -> int:
    """The sum of the processes' peaks of memory so far, in bytes."""
    return _bytes(pids, "status", _PEAK)


def _bytes(pids: Sequence[int], file: str, pattern: re.Pattern[str]) -> int:
    """The sum of the amounts that match in this file of each process in /proc, in bytes."""
    texts = (Path(f"/proc/{pid}/{file}").read_text() for pid in pids)
    return sum(1024 * int(size) for text in texts for size in pattern.findall(text))


def seconds_of(*pids: int) -> float:
    """Processor seconds of the processes since their start, of all threads that still run.

    From the kernel's scheduler (schedstat, nanoseconds), not in ticks of 10 ms. Raises OSError once
    a process is gone.
    """
    nanoseconds = 0
    for task in (task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: a process, or a gunicorn master and its one worker.

    ops_address is that of the service's --ops-bind, if it was given.
    """

    name: str
    address: Address
    ops_address: Address | None
    process: subprocess.Popen[bytes]
    started_in: float

    @property
    def worker(self) -> int:
        """The worker's process id: gunicorn's master has one child."""
        return self._children()[0]

    @property
    def answering(self) -> int:
        """The id of the process that answers: the worker, or the process itself without one."""
        return next(iter(self._children()), self.process.pid)

    def _children(self) -> list[int]:
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        return [int(pid) for pid in Path(children).read_text().split()]


def set_apart(servers: Iterable[Server], stack: contextlib.ExitStack) -> None:
    """Pin the servers to one processor, and this process, the client, to another.

    kube-scheduler and its extender run like this on a machine with idle processors. Without it the
    kernel puts a quick server on its client's processor and a slower one on another, and the slower
    server's time then includes wake-ups across processors. With one processor nothing is pinned.
    """
    before = os.sched_getaffinity(0)
    first, *_, last = sorted(before) * 2
    if first == last:
        return
    for server in servers:
        for task in Path(f"/proc/{server.answering}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):  # the thread has just ended
                os.sched_setaffinity(int(task.name), {last})
    os.sched_setaffinity(0, {first})
    stack.callback(os.sched_setaffinity, 0, before)


def program() -> str:
    """The path of the service's program in this Python environment."""
    return str(Path(sys.executable).with_name("runtimeclass-extender"))


def command(name: str, manifests: Path, *flags: str) -> list[str]:
    """The command line of serve or webhook in this Python environment."""
    return [program(), name, "--bind", "127.0.0.1:0", "--manifests", str(manifests), *flags]


def floor_command() -> list[str]:
    return [sys.executable, "-m", "loadtest.floor"]


def _environment() -> dict[str, str]:
    """This process's environment, without the variables that set flags of the service."""
    return {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("RUNTIMECLASS_EXTENDER_", "GUNICORN_")) or key == _PURE_PYTHON
    }


@contextlib.contextmanager
def running(name: str, words: Sequence[str], out: Path = OUT) -> Iterator[Server]:
    """Start a server, wait until it is ready, stop it at the end. Raises ServerError."""
    log = out / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as stderr:
        began = time.monotonic()
        process = subprocess.Popen(
            words, cwd=ROOT, env=_environment(), stdout=stderr, stderr=stderr
        )
        try:
            address = _await_ready(process, log, began + START_SECONDS)
            started_in = time.monotonic() - began
            yield Server(name, address, _address(_OPS, log), process, started_in)
        finally:
            _stop(process)


def _await_ready(process: subprocess.Popen[bytes], log: Path, deadline: float) -> Address:
    address: Address | None = None
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServerError(f"{log}: ended with exit code {process.returncode}: {tail(log)}")
        if address is None:
            address = _address(_LISTENING, log)
        elif is_ready(address):
            return address
        time.sleep(_POLL_SECONDS)
    raise ServerError(f"{log}: not ready in time: {tail(log)}")


def _address(pattern: re.Pattern[str], log: Path) -> Address | None:
    match = pattern.search(log.read_text(errors="replace"))
    return (match[1], int(match[2])) if match else None


def url(address: Address) -> str:
    return f"http://{address[0]}:{address[1]}"


def tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "(no output)"


def is_ready(address: Address) -> bool:
    connection = http.client.HTTPConnection(*address, timeout=1)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
