"""Runs the commands that a document shows and compares what it says they print.

A block begins with ```console; a line that begins with "$ " is a command, and what follows is its
output. `python -m tests.documented FILE` writes the real output into the file.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.processes import ROOT, SAMPLES, Server, run, running, serving, until

_BLOCK: Final = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROGRAM: Final = "runtimeclass-extender"

#: Where the documents' readers have their servers.
_SERVE: Final = "http://127.0.0.1:8888"
_WEBHOOK: Final = "http://127.0.0.1:8443"

#: The terminal that the documents are written for.
_TERMINAL: Final = {"COLUMNS": "100", "RUNTIMECLASS_EXTENDER_PURE_PYTHON": ""}


def commands(block: str) -> Iterator[tuple[str, str]]:
    """(command, output) of one block."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        while command.endswith("\\"):
            more, _, output = output.partition("\n")
            command = f"{command}\n{more}"
        yield command, output


def printed(command: str, server: Callable[[str], str]) -> str:
    """What a command prints on stdout and stderr, the exit code left aside."""
    words = shlex.split(command)
    if words[0] == _PROGRAM:
        result = run(*words[1:], env=_TERMINAL)
        return result.stdout + result.stderr
    assert words[0] == "curl", command
    (where,) = {each for each in (_SERVE, _WEBHOOK) if each in command}
    asked = [word.replace(where, server(where)) for word in words]
    return subprocess.run(asked, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def _serve() -> AbstractContextManager[Server]:
    return serving(SAMPLES / "cluster", SAMPLES / "pods")


@contextmanager
def _webhook() -> Iterator[Server]:
    flags = ("--bind", "127.0.0.1:0", "--manifests", str(SAMPLES / "cluster"))
    with running("webhook", *flags) as server:
        until(lambda: server.request("GET", "/readyz")[0] == 200)
        yield server


def rewritten(text: str) -> str:
    """The document as it would have to be."""
    with ExitStack() as stack:
        urls: dict[str, str] = {}

        def server(where: str) -> str:
            if where not in urls:
                started = _webhook() if where == _WEBHOOK else _serve()
                urls[where] = stack.enter_context(started).url
            return urls[where]

        def fill(match: re.Match[str]) -> str:
            parts = [
                f"$ {command}\n{_trimmed(printed(command, server))}"
                for command, _ in commands(match[1])
            ]
            return f"```console\n{chr(10).join(parts)}```"

        return _BLOCK.sub(fill, text)


def _trimmed(output: str) -> str:
    return output.rstrip("\n") + "\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        file = Path(name)
        file.write_text(rewritten(file.read_text()))
