"""Commands on a terminal of their own, as a person has it."""

import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.processes import ROOT

#: A command that waits for a password would wait for ever.
_SECONDS: Final = 30.0


class Terminal:
    """A program with all of stdin, stdout and stderr on a terminal."""

    def __init__(self, *command: str, folder: Path = ROOT, env: dict[str, str]) -> None:
        # Both stay open: what is not read yet may be lost when the last program closes its side.
        self._ours, self._theirs = pty.openpty()
        # A wide one: what is typed must not be wrapped.
        termios.tcsetwinsize(self._theirs, (50, 300))
        self._process = subprocess.Popen(
            command,
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            cwd=folder,
            start_new_session=True,
            env={"TERM": "xterm", **env},
        )
        self._end = os.pidfd_open(self._process.pid)
        self._said = ""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def _hears(self, deadline: float) -> bool:
        """Whether there was more; not once the program has ended."""
        left = deadline - time.monotonic()
        assert left > 0, f"nothing more after:\n{self._said}"
        ready = select.select([self._ours, self._end], [], [], left)[0]
        if self._ours in ready:
            self._said += os.read(self._ours, 65536).decode(errors="replace")
        return ready != [self._end]

    def wait_for(self, pattern: str) -> re.Match[str]:
        """What is on the terminal since the last match, without what moves the cursor."""
        deadline = time.monotonic() + _SECONDS
        while True:
            plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r", "", self._said)
            if match := re.search(pattern, plain):
                self._said = ""
                return match
            assert self._hears(deadline), f"no {pattern!r} in:\n{plain}"

    def ended(self) -> tuple[int, str]:
        """(exit code, what was written), once there is no more."""
        deadline = time.monotonic() + _SECONDS
        while self._hears(deadline):
            pass
        return self._process.wait(), self._said

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for each in (self._ours, self._theirs, self._end):
            os.close(each)


@contextmanager
def terminal(*command: str, env: dict[str, str], folder: Path = ROOT) -> Iterator[Terminal]:
    found = Terminal(*command, folder=folder, env=env)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def running_on_a_terminal(*arguments: str, **env: str) -> Iterator[Terminal]:
    """A command of ours."""
    own = {**os.environ, "TERM": "xterm", **env}
    with terminal(sys.executable, "-m", "extender", *arguments, env=own) as found:
        yield found


def on_a_terminal(*arguments: str, **env: str) -> tuple[int, str]:
    """(exit code, what was written)"""
    with running_on_a_terminal(*arguments, **env) as found:
        return found.ended()
