"""Verdicts: which limits a run kept, and which it broke."""

import os
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


def environment_line() -> str:
    """The environment that the figures depend on. A high load of the machine distorts them."""
    return (
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs, "
        f"load {os.getloadavg()[0]:.2f}, {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}"
    )


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that a run must keep."""

    text: str
    kept: bool


def told(out: Path, name: str, parts: Sequence[str], limits: Sequence[Limit] = ()) -> int:
    """Write the results into NAME.md, print them with the verdicts, and return the exit code."""
    written = "\n\n".join([*parts, environment_line()])
    (out / f"{name}.md").write_text(f"{written}\n")
    print("\n".join([written, *([""] if limits else ()), *lines(limits)]))
    return exit_code(limits)


def lines(limits: Sequence[Limit]) -> Iterator[str]:
    for each in limits:
        yield f"{'ok' if each.kept else 'BROKEN':<6}  {each.text}"


def exit_code(limits: Sequence[Limit]) -> int:
    return int(not all(each.kept for each in limits))
