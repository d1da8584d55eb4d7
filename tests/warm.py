"""Runs commands in real processes that begin with the program imported already.

Importing it takes a command four fifths of its time, and the tests run a thousand of them. One
process imports it once and forks for each command: the fork is given the command's words,
environment and streams, and goes on as `python -m extender` does.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final

#: Environment that Python or the program reads before it runs a command: `is_for` is False then.
_READ_AT_START: Final = ("PYTHON", "LANG", "LC_", "TZ", "RUNTIMECLASS_EXTENDER_PURE_PYTHON")

#: The function of extender.main that each script calls.
_PROGRAMS: Final = {
    "runtimeclass-extender": "main",
    "kubectl-runtimeclass": "kubectl_main",
    "kubectl_complete-runtimeclass": "kubectl_complete_main",
}

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
        self,
        program: str,
        arguments: Sequence[str],
        env: Mapping[str, str],
        *,
        cwd: str,
        stdin: str,
        seconds: float,
    ) -> subprocess.CompletedProcess[str]:
        """program is the name of one of the package's scripts. Raises TimeoutExpired."""
        with (
            self._lock,
            _pipe_of(stdin) as source,
            tempfile.TemporaryFile("w+") as stdout,
            tempfile.TemporaryFile("w+") as stderr,
        ):
            connection = self._started()
            connection.settimeout(seconds)
            try:
                command = _PROGRAMS[program], arguments, dict(env), cwd
                code = _ask(connection, command, (source, stdout, stderr))
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
                    cwd=Path(__file__).parent.parent,
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


@contextlib.contextmanager
def _pipe_of(text: str) -> Iterator[IO[bytes]]:
    """The end of a pipe from which the text can be read."""
    source, sink = os.pipe()

    def write() -> None:
        with contextlib.suppress(BrokenPipeError), open(sink, "w") as file:
            file.write(text)

    writer = threading.Thread(target=write)
    with open(source, "rb") as file:
        writer.start()
        yield file
    writer.join()


def _ask(connection: socket.socket, command: object, streams: Sequence[IO[str] | IO[bytes]]) -> int:
    """The exit code of a command."""
    body = json.dumps(command).encode()
    length = len(body).to_bytes(_LENGTH_BYTES, "big")
    socket.send_fds(connection, [length], [each.fileno() for each in streams])
    connection.sendall(body)
    answer = connection.recv(16)
    assert answer, "the process that forks has ended"
    return int(answer)


def _become_next(connection: socket.socket) -> str:
    """Fork for each command; returns, in the process that is to run one, its program."""
    while True:
        length, streams, _, _ = socket.recv_fds(connection, _LENGTH_BYTES, 3)
        if not length:
            os._exit(0)
        left = int.from_bytes(length, "big")
        body = b""
        while len(body) < left:
            body += connection.recv(left - len(body))
        program, arguments, env, cwd = json.loads(body)
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
            return str(program)
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


TEMPLATE: Final = Template()
atexit.register(TEMPLATE.close)


if __name__ == "__main__":
    from extender import main as programs
    from extender.cli.commands import COMMANDS

    # What a command imports once it asks a cluster.
    for _name in ("kubernetes.client.rest", "kubernetes.config"):
        importlib.import_module(_name)
    for _each in COMMANDS.values():
        _each.load()
    # Or each fork would copy all of these objects as soon as it collects garbage.
    gc.freeze()
    _program = _become_next(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(getattr(programs, _program)())
