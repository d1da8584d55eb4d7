"""Commands on a terminal."""

import os
import pty
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from tests.processes import ROOT

#: A command that waits for a password would wait for ever.
_SECONDS: Final = 30.0


def on_a_terminal(*arguments: str, **env: str) -> tuple[int, str]:
    """(exit code, what was written) with all of stdin, stdout and stderr on a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "extender", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", **env},
        start_new_session=True,
    ) as process:
        os.close(theirs)
        pieces = []
        deadline = threading.Timer(_SECONDS, process.kill)
        deadline.start()
        try:
            while piece := os.read(ours, 65536):
                pieces.append(piece)
        except OSError:  # that is how the end of a terminal shows
            pass
        code = process.wait()
        deadline.cancel()
    os.close(ours)
    return code, b"".join(pieces).decode()


@contextmanager
def progress_of(
    *arguments: str,
) -> Iterator[tuple["subprocess.Popen[bytes]", Callable[[bytes], None]]]:
    """A command with stderr on a terminal, and a function that waits for words there."""
    ours, theirs = pty.openpty()
    shown = b""

    def wait_for(words: bytes) -> None:
        nonlocal shown
        while words not in shown:
            assert select.select([ours], [], [], _SECONDS)[0], shown
            shown += os.read(ours, 65536)

    command = [sys.executable, "-m", "extender", *arguments]
    env = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=theirs, cwd=ROOT, env=env
    ) as process:
        os.close(theirs)
        yield process, wait_for
        process.kill()
    os.close(ours)
