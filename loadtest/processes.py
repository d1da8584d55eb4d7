"""Server processes to measure: started on a free loopback port, watched in /proc, stopped again."""

import contextlib
import http.client
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
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

Address = tuple[str, int]


class ServerError(Exception):
    """A server did not start, or answered what it must not."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process holds, as /proc tells it; memory in bytes."""

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


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: a gunicorn master and its one worker."""

    name: str
    address: Address
    process: subprocess.Popen[bytes]
    started_in: float

    @property
    def url(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}"

    @property
    def worker(self) -> int:
        """The worker's process id: gunicorn's master has one child."""
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        return int(Path(children).read_text().split()[0])


def serve_command(manifests: Path, *flags: str) -> list[str]:
    """The service, as a user of this Python environment starts it."""
    program = str(Path(sys.executable).with_name("runtimeclass-extender"))
    bind = ["--bind", "127.0.0.1:0"]
    return [program, "serve", *bind, "--manifests", str(manifests), *flags]


def webhook_command(manifests: Path, *flags: str) -> list[str]:
    """The admission webhook, as a user of this Python environment starts it."""
    program = str(Path(sys.executable).with_name("runtimeclass-extender"))
    bind = ["--bind", "127.0.0.1:0"]
    return [program, "webhook", *bind, "--manifests", str(manifests), *flags]


def plain_command(manifests: Path) -> list[str]:
    return [sys.executable, "-m", "loadtest.plain", "--manifests", str(manifests)]


def floor_command() -> list[str]:
    return [sys.executable, "-m", "loadtest.floor"]


_PURE_PYTHON: Final = "RUNTIMECLASS_EXTENDER_PURE_PYTHON"


def _environment() -> dict[str, str]:
    """Ours, without what would change the flags of the service."""
    return {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("RUNTIMECLASS_EXTENDER_", "GUNICORN_")) or key == _PURE_PYTHON
    }


@contextlib.contextmanager
def running(name: str, command: Sequence[str], out: Path = OUT) -> Iterator[Server]:
    """Start a server, wait until it is ready, stop it at the end. Raises ServerError."""
    log = out / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as stderr:
        began = time.monotonic()
        process = subprocess.Popen(
            command, cwd=ROOT, env=_environment(), stdout=stderr, stderr=stderr
        )
        try:
            address = _await_ready(process, log, began + START_SECONDS)
            yield Server(name, address, process, time.monotonic() - began)
        finally:
            _stop(process)


def _await_ready(process: subprocess.Popen[bytes], log: Path, deadline: float) -> Address:
    address: Address | None = None
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServerError(f"{log}: ended with exit code {process.returncode}: {_tail(log)}")
        if address is None:
            match = _LISTENING.search(log.read_text(errors="replace"))
            address = (match[1], int(match[2])) if match else None
        elif is_ready(address):
            return address
        time.sleep(_POLL_SECONDS)
    raise ServerError(f"{log}: not ready in time: {_tail(log)}")


def _tail(log: Path) -> str:
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
