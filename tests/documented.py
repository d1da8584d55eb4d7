"""Runs the commands that a document shows and compares what it says they print.

A block begins with ```console; a line that begins with "$ " is a command, and what follows is its
output. A command may have a here-document (<<EOF) and filter what it prints (| sed ...). In a
transcript (tests/transcripts), which is for the tests alone, exit codes are shown too, as [2].
`python -m tests.documented FILE` writes the real output into the file.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.processes import NOWHERE, ROOT, SAMPLES, called, ready, run

TRANSCRIPTS: Final = ROOT / "tests" / "transcripts"

_BLOCK: Final = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INPUT: Final = " <<EOF"
_VARIABLES: Final = re.compile(r"((?:[A-Z_]+=\S* )*)(.*)", re.DOTALL)

#: By how a command begins the program that is run.
_PROGRAMS: Final = {
    "runtimeclass-extender": "runtimeclass-extender",
    "kubectl runtimeclass": "kubectl-runtimeclass",
    "kubectl_complete-runtimeclass": "kubectl_complete-runtimeclass",
}

#: Where the documents' readers have their servers.
SERVE: Final = "http://127.0.0.1:8888"
#: Address → the command and the samples that it knows beside the cluster.
_SERVICES: Final = {SERVE: ("serve", "pods"), "http://127.0.0.1:8443": ("webhook",)}

#: The terminal that the documents are written for, on a machine that no cluster is known on.
_TERMINAL: Final = {"COLUMNS": "100", "RUNTIMECLASS_EXTENDER_PURE_PYTHON": "", **NOWHERE}


def commands(block: str) -> Iterator[tuple[str, str]]:
    """(command, output) of one block."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        while command.endswith("\\"):
            more, _, output = output.partition("\n")
            command = f"{command}\n{more}"
        if _INPUT in command:
            given, _, output = output.partition("\nEOF\n")
            command = f"{command}\n{given}\nEOF"
        yield command, output


def ran(command: str, server: Callable[[str], str]) -> subprocess.CompletedProcess[str]:
    """What became of a command; server is told an address of the documents and gives the real."""
    line, _, given = command.partition("\n") if _INPUT in command else (command, "", "")
    line, _, filtering = line.replace(_INPUT, "").partition(" | ")
    stdin = given.removesuffix("EOF")
    variables, line = _VARIABLES.fullmatch(line).groups()  # type: ignore[union-attr]
    program, arguments = _program(line)
    if program:
        env = _TERMINAL | dict(each.split("=", 1) for each in variables.split())
        done = run(*shlex.split(arguments), env=env, program=program, stdin=stdin)
        if filtering:
            done.stdout = called("bash", "-c", filtering, stdin=done.stdout).stdout
        return done
    (where,) = {each for each in _SERVICES if each in line}
    asked = shlex.split(line.replace(where, server(where)))
    return called(*asked, stdin=stdin)


def _program(line: str) -> tuple[str, str]:
    """(the program of ours, its arguments), or nothing of either."""
    for begin, program in _PROGRAMS.items():
        if f"{line} ".startswith(f"{begin} "):
            return program, line.removeprefix(begin)
    assert line.startswith("curl "), line
    return "", ""


def _shown(command: str, done: subprocess.CompletedProcess[str], codes: bool) -> str:
    output = (done.stdout + done.stderr).rstrip("\n")
    lines = [f"$ {command}", output] if output or not codes else [f"$ {command}"]
    if codes and done.returncode:
        lines.append(f"[{done.returncode}]")
    return "".join(f"{line}\n" for line in lines)


def rewritten(text: str, server: Callable[[str], str], *, codes: bool = False) -> str:
    """The document as it would have to be."""

    def fill(match: re.Match[str]) -> str:
        parts = [_shown(command, ran(command, server), codes) for command, _ in commands(match[1])]
        return f"```console\n{('' if codes else chr(10)).join(parts)}```"

    return _BLOCK.sub(fill, text)


@contextmanager
def servers() -> Iterator[Callable[[str], str]]:
    """Starts what the documents' readers have, once it is asked."""
    with ExitStack() as stack:
        urls: dict[str, str] = {}

        def server(where: str) -> str:
            if where not in urls:
                command, *more = _SERVICES[where]
                paths = [f"--manifests={SAMPLES / each}" for each in ("cluster", *more)]
                started = ready(command, *paths)
                urls[where] = stack.enter_context(started).url
            return urls[where]

        yield server


def sections(file: Path) -> list[str]:
    """The parts of a transcript, each with its heading."""
    return re.split(r"^(?=## )", file.read_text(), flags=re.MULTILINE)[1:]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        document = Path(name)
        with servers() as started:
            codes = document.resolve().is_relative_to(TRANSCRIPTS)
            document.write_text(rewritten(document.read_text(), started, codes=codes))
