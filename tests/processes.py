"""Starts the real commands as processes, and talks to them over sockets."""

import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import orjson

from tests import warm

START_SECONDS = 30.0
_COMMAND_SECONDS = 60
#: Below ip_local_port_range.
_PORTS = range(15_000, 32_000)
ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "scheduler-config" / "samples"
#: The environment of a machine that knows no cluster.
NOWHERE = {"HOME": "/nonexistent", "KUBECONFIG": ""}

_LISTENING = re.compile(r'listening on (https?://[^\s"]+)')


class Server:
    """A running `runtimeclass-extender COMMAND`; its log is collected line by line."""

    def __init__(
        self, *arguments: str, constants: Mapping[str, Mapping[str, object]] | None = None
    ) -> None:
        """constants: those of modules that differ (tests.hurried)."""
        program = ["-m", "extender"]
        if constants is not None:
            program = ["-m", "tests.hurried", json.dumps(constants)]
        self.process = subprocess.Popen(
            [sys.executable, *program, *arguments],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._collector = threading.Thread(target=self._collect, daemon=True)
        self._collector.start()
        self.url = self.wait_for_line(_LISTENING)[1]

    def _collect(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self._lines.append(line)
                self._news.notify_all()
        with self._news:
            self._lines.append("")
            self._news.notify_all()

    @property
    def log(self) -> str:
        return "".join(self._lines)

    def wait_for_line(self, pattern: re.Pattern[str] | str) -> re.Match[str]:
        """Wait until a line of the log has the pattern."""
        compiled = re.compile(pattern)

        def found() -> re.Match[str] | None:
            if self._lines and self._lines[-1] == "":
                raise AssertionError(f"the server ended:\n{self.log}")
            matches = (compiled.search(line) for line in self._lines)
            return next((match for match in matches if match), None)

        with self._news:
            match = self._news.wait_for(found, START_SECONDS)
        assert match, f"no line has {compiled.pattern!r}:\n{self.log}"
        return match

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        assert parts.hostname
        assert parts.port
        return parts.hostname, parts.port

    def connect(self, timeout: float = 20.0) -> http.client.HTTPConnection:
        host, port = self.address
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def request(
        self, method: str, path: str, body: bytes | None = None
    ) -> tuple[int, bytes, http.client.HTTPMessage]:
        """One request on a connection of its own: status, body, headers."""
        connection = self.connect()
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, response.read(), response.headers
        finally:
            connection.close()

    def post(self, path: str, body: bytes) -> object:
        """The JSON of an answer that must be a 200."""
        status, answer, _ = self.request("POST", path, body)
        assert status == 200, (status, answer[:500])
        return orjson.loads(answer)

    def stop(self, timeout: float = 15.0) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(timeout)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self._collector.join()
            assert self.process.stderr is not None
            self.process.stderr.close()


@contextlib.contextmanager
def running(
    *arguments: str, constants: Mapping[str, Mapping[str, object]] | None = None
) -> Iterator[Server]:
    server = Server(*arguments, constants=constants)
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def ready(
    command: str, *flags: str, constants: Mapping[str, Mapping[str, object]] | None = None
) -> Iterator[Server]:
    """A service on a free port of 127.0.0.1, ready."""
    with running(command, "--bind", "127.0.0.1:0", *flags, constants=constants) as server:
        until(lambda: server.request("GET", "/readyz")[0] == 200)
        yield server


@contextlib.contextmanager
def serving(*manifests: Path, flags: tuple[str, ...] = ()) -> Iterator[Server]:
    """`serve` of these manifests, ready."""
    paths = [word for path in manifests for word in ("--manifests", str(path))]
    with ready("serve", *paths, *flags) as server:
        yield server


def run(
    *arguments: str,
    env: dict[str, str] | None = None,
    stdin: str | None = None,
    program: str = "runtimeclass-extender",
) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself."""
    whole = {**os.environ, **(env or {})}
    if warm.is_for(whole):
        return warm.TEMPLATE.run(
            program, arguments, whole, cwd=str(ROOT), stdin=stdin or "", seconds=_COMMAND_SECONDS
        )
    return called(Path(sys.executable).parent / program, *arguments, env=whole, stdin=stdin or "")


def called(
    *words: object,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    seconds: float = _COMMAND_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """What another program that ends by itself has written."""
    return subprocess.run(
        [*map(str, words)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=cwd,
        env=env,
        check=False,
    )


def listener(port: int = 0) -> socket.socket:
    """Listens on that port of 127.0.0.1, or on one that no outgoing connection is given by chance.

    Of the system's own choice a port may be taken before it is listened at again.
    """
    draw = random.SystemRandom()
    for _ in range(100):
        with contextlib.suppress(OSError):
            return socket.create_server(("127.0.0.1", port or draw.choice(_PORTS)), backlog=128)
    raise AssertionError(f"port {port or 'of any number'} is in use")


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for a condition, looking 50 times a second; fails after the deadline."""
    pause = threading.Event()
    for _ in range(int(seconds * 50)):
        if condition():
            return
        pause.wait(0.02)
    raise AssertionError(f"not within {seconds:g} s: {condition}")
