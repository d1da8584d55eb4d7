"""Runs commands in real processes that begin with the program imported already.

Importing it takes a command four fifths of its time, and the tests run a thousand of them. One
process imports it once and forks for each command: the fork is given the command's words,
environment and streams, and goes on as `python -m extender` does.
"""

import atexit
import contextlib
import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Final

#: Environment that Python or the program reads before it runs a command: `is_for` is False then.
_READ_AT_START: Final = ("PYTHON", "LANG", "LC_", "TZ", "RUNTIMECLASS_EXTENDER_PURE_PYTHON")

_LENGTH_BYTES: Final = 8


def is_for(env: Mapping[str, str]) -> bool:
    """Whether a fork takes such an environment as a new process would."""
    names = {*env, *os.environ}
    return not any(
        env.get(each, "") != os.environ.get(each, "")
        for each in names
        if each.startswith(_READ_AT_START)
    )


class Template:
    """The process that forks; one command at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def run(
        self, arguments: Sequence[str], env: Mapping[str, str], cwd: str, seconds: float
    ) -> subprocess.CompletedProcess[str]:
        """Raises TimeoutExpired."""
        with (
            self._lock,
            open(os.devnull, "rb") as nothing,
            tempfile.TemporaryFile("w+") as stdout,
            tempfile.TemporaryFile("w+") as stderr,
        ):
            connection = self._started()
            connection.settimeout(seconds)
            try:
                code = _ask(connection, (arguments, dict(env), cwd), (nothing, stdout, stderr))
            except TimeoutError:
                self.close()
                raise subprocess.TimeoutExpired([*arguments], seconds) from None
            stdout.seek(0)
            stderr.seek(0)
            return subprocess.CompletedProcess([*arguments], code, stdout.read(), stderr.read())

    def _started(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tests.warm", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
        return self._socket

    def close(self) -> None:
        if self._process is not None and self._socket is not None:
            self._socket.close()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, 9)
            self._process.wait()
            self._process = self._socket = None


def _ask(connection: socket.socket, command: object, streams: Sequence[IO[str] | IO[bytes]]) -> int:
    """The exit code of a command."""
    body = json.dumps(command).encode()
    length = len(body).to_bytes(_LENGTH_BYTES, "big")
    socket.send_fds(connection, [length], [each.fileno() for each in streams])
    connection.sendall(body)
    return int(connection.recv(16))


def _become_next(connection: socket.socket) -> None:
    """Fork for each command; returns in the process that is to run one."""
    while True:
        length, streams, _, _ = socket.recv_fds(connection, _LENGTH_BYTES, 3)
        if not length:
            os._exit(0)
        left = int.from_bytes(length, "big")
        body = b""
        while len(body) < left:
            body += connection.recv(left - len(body))
        arguments, env, cwd = json.loads(body)
        child = os.fork()
        if not child:
            connection.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            os.chdir(cwd)
            os.environ.clear()
            os.environ.update(env)
            sys.argv[1:] = arguments
            return
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


TEMPLATE: Final = Template()
atexit.register(TEMPLATE.close)


if __name__ == "__main__":
    from extender.cli import COMMANDS, main

    for _each in COMMANDS.values():
        _each.load()
    # Or each fork would copy all of these objects as soon as it collects garbage.
    gc.freeze()
    _become_next(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(main())
