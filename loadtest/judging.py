"""Verdicts: which limits were kept, which are broken."""

import os
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


def environment_line() -> str:
    """What the figures depend on beside the code; a high load of the machine spoils them."""
    return (
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs, "
        f"load {os.getloadavg()[0]:.2f}, {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}"
    )


@dataclass(frozen=True, slots=True)
class Limit:
    """Something a run must keep to."""

    text: str
    kept: bool


def told(out: Path, name: str, parts: Sequence[str], limits: Sequence[Limit] = ()) -> int:
    """Write what was measured into NAME.md and print it with the verdicts; the exit code."""
    written = "\n\n".join([*parts, environment_line()])
    (out / f"{name}.md").write_text(f"{written}\n")
    print("\n".join([written, *([""] if limits else ()), *lines(limits)]))
    return exit_code(limits)


def lines(limits: Sequence[Limit]) -> Iterator[str]:
    for each in limits:
        yield f"{'ok' if each.kept else 'BROKEN':<6}  {each.text}"


def exit_code(limits: Sequence[Limit]) -> int:
    return int(not all(each.kept for each in limits))
