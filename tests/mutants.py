"""Changes rules/, verbs/ and admission/ in one place at a time: which changes does no test see?

    make mutants        or        python -m tests.mutants --seconds 60 --seed 7

First all tests run once that stay in one process, and some that start the commands; coverage notes
the lines that the former execute.
Then a sample of all changes (mutants) is tried until the time is over: the tests that execute the
changed line run, the quickest first, and then those that start the commands, until one fails, or
until they have taken several times as long as without a change, twice. Half of the sample is always
the same, the other half is drawn anew. Prints the mutants that survived; exit code 1 when they are
too many.
"""

import argparse
import contextlib
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import coverage
import pytest

from tests.mutations import Mutant, mutants_of

ROOT: Final = Path(__file__).resolve().parent.parent
ROOMS: Final = ("rules", "verbs", "admission")
FOLDERS: Final = ("unit", "property", "conformance")

#: Files of tests that have to do with the rooms, by what they import. Bodies of 64 MiB take a
#: minute, and find nothing that smaller ones do not.
_CONCERNED: Final = re.compile(
    r"extender\.(rules|verbs|admission)|tests\.(reviews|asking|plain_extender|property)"
)
_LEFT_OUT: Final = ("test_hostile_bodies.py",)

#: Tests that start the commands, by room and by file: those of the transcripts for all.
_TRANSCRIPTS: Final = "test_documents.py"
_BLACK_BOX: Final = {
    "rules": (_TRANSCRIPTS,),
    "class_nodes.py": (_TRANSCRIPTS, "test_usage_commands.py"),
    "pod_state.py": (_TRANSCRIPTS, "test_usage_commands.py"),
    "verbs": (_TRANSCRIPTS, "test_serve.py"),
    "metrics.py": (_TRANSCRIPTS, "test_watch_pods.py"),
    "admission": (_TRANSCRIPTS, "test_webhook.py"),
    "given_files.py": (_TRANSCRIPTS, "test_check_files.py"),
    "render_command.py": (_TRANSCRIPTS, "test_render.py"),
}

_FIXED_SEED: Final = 1
#: Tests of a mutant take at most so long when nothing is changed, and those of _BLACK_BOX about so;
#: beside the change they may take some times as long, and some seconds to start.
_MOST_SECONDS: Final = 40.0
_BLACK_BOX_SECONDS: Final = 80.0
_PATIENCE: Final = 3.0
_START_SECONDS: Final = 15.0
_RECORD_SECONDS: Final = 300.0

_PASSED: Final = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)

#: Loads one module from another file; in this process, and by PYTHONPATH in those it starts.
_HOOK: Final = """
import importlib.machinery, importlib.util, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            return importlib.util.spec_from_file_location(name, {file!r})
sys.meta_path.insert(0, Finder())
"""


class _Chosen:
    """A pytest plugin: runs the chosen tests only, in their order."""

    def __init__(self, chosen: Sequence[str]) -> None:
        self._places = {name: place for place, name in enumerate(chosen)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._places),
            key=lambda item: self._places[item.nodeid],
        )


class _Recorder:
    """A pytest plugin: has coverage note lines by test, and takes the times of those that pass."""

    def __init__(self, lines: coverage.Coverage) -> None:
        self._lines = lines
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._lines.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.seconds[report.nodeid] = report.duration


def _family(pid: int) -> Iterator[int]:
    """The process and all that it started: servers have sessions of their own."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                yield from _family(int(child))
    yield pid


def _ended(job: Sequence[object], folder: Path, seconds: float, end: float) -> int | None:
    """The exit code of a job in a process of its own; None where it takes too long.

    The machine may only have been busy: a late job runs again, with twice the time.
    """
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
        json.dump(job, file, default=str)
    for patience in (1, 2):
        with subprocess.Popen(
            [sys.executable, "-m", "tests.mutants", "--job", file.name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
        ) as process:
            try:
                left = min(patience * seconds, end - time.monotonic())
                return process.wait(max(0.0, left))
            except subprocess.TimeoutExpired:
                for each in list(_family(process.pid)):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(each, signal.SIGKILL)
    return None


def _record(test: str, name: str) -> int:
    """Runs one file of tests; leaves the lines and the times in files of that name."""
    sources = [str(ROOT / "extender" / room) for room in ROOMS]
    lines = coverage.Coverage(f"{name}.lines", source=sources, config_file=False, messages=False)
    recorder = _Recorder(lines)
    lines.start()
    # No -x: a test that fails without any change is left out.
    code = int(pytest.main(["-q", "-p", "no:cacheprovider", test], plugins=[recorder]))
    lines.stop()
    lines.save()
    Path(f"{name}.seconds").write_text(json.dumps(recorder.seconds))
    return code


class Tests:
    """The tests that execute a line, and how long each takes."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._of_line: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._of_file: dict[str, set[str]] = defaultdict(set)

    def add(self, folder: Path) -> None:
        """All that _record has left."""
        for file in folder.glob("*.seconds"):
            self._seconds |= json.loads(file.read_bytes())
        for file in folder.glob("*.lines"):
            data = coverage.CoverageData(str(file))
            data.read()
            for source in data.measured_files():
                for line, tests in data.contexts_by_lineno(source).items():
                    self._of_line[source, line] |= set(tests)
                    self._of_file[source] |= set(tests)

    def of(self, mutant: Mutant) -> list[str]:
        """The quickest first, and no more than what takes _MOST_SECONDS.

        A line that an import executes is tested by all that execute anything of its file.
        """
        file = str(mutant.file)
        found = set[str]().union(*(self._of_line[file, line] for line in mutant.lines))
        if not self._seconds.keys() & found and "" in found:
            found = self._of_file[file]
        files = _BLACK_BOX.get(mutant.file.name) or _BLACK_BOX[mutant.file.parent.name]
        own = tuple(f"tests/integration/{name}::" for name in files)
        starting = [name for name in self._seconds if name.startswith(own)]
        inside = (self._seconds.keys() & found) - set(starting)
        return [
            *self._quickest(inside, _MOST_SECONDS),
            *self._quickest(starting, _BLACK_BOX_SECONDS),
        ]

    def _quickest(self, names: Iterable[str], most: float) -> list[str]:
        chosen, taken = [], 0.0
        for each in sorted(names, key=lambda name: (self._seconds[name], name)):
            taken += self._seconds[each]
            if taken > most:
                break
            chosen.append(each)
        return chosen

    def seconds_for(self, chosen: Sequence[str]) -> float:
        """How long they may take beside a change."""
        return _START_SECONDS + _PATIENCE * sum(self._seconds[each] for each in chosen)


def _hooked(mutant: Mutant, folder: Path) -> str:
    """A folder in which Python finds the changed module, for PYTHONPATH."""
    own = Path(tempfile.mkdtemp(dir=folder))
    changed = own / mutant.file.name
    changed.write_text(mutant.source())
    (own / "sitecustomize.py").write_text(_HOOK.format(module=mutant.module, file=str(changed)))
    return str(own)


def _try(own: str, chosen: Sequence[str]) -> int:
    """The exit code of pytest with the changed module."""
    os.environ["PYTHONPATH"] = f"{own}:{ROOT}"
    exec(compile(Path(own, "sitecustomize.py").read_text(), "sitecustomize.py", "exec"), {})
    files = sorted({name.partition("::")[0] for name in chosen})
    options = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist")
    return int(pytest.main([*options, *files], plugins=[_Chosen(chosen)]))


def _sample(mutants: Sequence[Mutant], seeds: Sequence[int]) -> Iterator[Mutant]:
    """All of them in the end; each seed draws in turn."""
    orders = [random.Random(seed).sample(mutants, len(mutants)) for seed in seeds]
    return iter(dict.fromkeys(each for drawn in zip(*orders, strict=True) for each in drawn))


def _flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description="Which changes does no test see?")
    add = parser.add_argument
    add("modules", nargs="*", metavar="FILE", help="of extender/ (default: all of the three rooms)")
    add("--seconds", type=float, default=600.0, help="in all (600)")
    add("--seed", type=int, help="draw by this one only (default: a fixed and a random one)")
    add("--least", type=float, default=92.0, metavar="PER_CENT", help="of the score (92)")
    add("--workers", type=int, default=os.cpu_count() or 1, help="processes (the processors)")
    return parser.parse_args()


def _tests(folder: Path, workers: int) -> Tests:
    found = (file for each in FOLDERS for file in (ROOT / "tests" / each).glob("test_*.py"))
    files = sorted(
        file for file in found if file.name not in _LEFT_OUT and _CONCERNED.search(file.read_text())
    )
    starting = {name for names in _BLACK_BOX.values() for name in names}
    files += [ROOT / "tests" / "integration" / name for name in sorted(starting)]

    def code_of(file: Path) -> int | None:
        job = ("_record", file, folder / f"{file.parent.name}-{file.stem}")
        return _ended(job, folder, _RECORD_SECONDS, math.inf)

    with ThreadPoolExecutor(workers) as pool:
        for file, code in zip(files, pool.map(code_of, files), strict=True):
            if code not in _PASSED:
                print(f"{file.relative_to(ROOT)} fails without any change", flush=True)
    tests = Tests()
    tests.add(folder)
    return tests


def main() -> int:
    if sys.argv[1:2] == ["--job"]:
        work, *words = json.loads(Path(sys.argv[2]).read_text())
        return {"_record": _record, "_try": _try}[work](*words)
    flags, began = _flags(), time.monotonic()
    end = began + flags.seconds
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    files: Iterable[Path] = map(Path.resolve, map(Path, flags.modules))
    if not flags.modules:
        files = (each for room in ROOMS for each in sorted((ROOT / "extender" / room).glob("*.py")))
    mutants = [mutant for file in files for mutant in mutants_of(file)]
    seeds = [_FIXED_SEED, random.randrange(10**6)] if flags.seed is None else [flags.seed]
    print(f"{len(mutants)} mutants; seeds {' and '.join(map(str, seeds))}", flush=True)
    print("every test runs once ...", flush=True)
    killed, late, survived = 0, 0, 0
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(flags.workers) as pool:
        folder = Path(name)
        tests = _tests(folder, flags.workers)
        print(f"{time.monotonic() - began:.0f} s: every test has run once", flush=True)

        def tried(mutant: Mutant) -> tuple[Mutant, int | None] | None:
            """None of one that the end cuts off."""
            code, chosen = None, tests.of(mutant)
            if time.monotonic() < end:
                job = ("_try", _hooked(mutant, folder), chosen)
                code = _ended(job, folder, tests.seconds_for(chosen), end)
            return (mutant, code) if time.monotonic() < end else None

        for mutant, code in filter(None, pool.map(tried, _sample(mutants, seeds))):
            if code in _PASSED:
                survived += 1
                print(f"survived  {mutant}", flush=True)
            else:
                killed += 1
                late += code is None
            if not (killed + survived) % 25:
                print(f"{killed + survived} tried, {survived} survived", flush=True)
    score = 100 * killed / max(1, killed + survived)
    print(f"{killed} of {killed + survived} mutants killed, {late} by time: {score:.1f} %")
    return int(score < flags.least)


if __name__ == "__main__":
    sys.exit(main())
