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
import itertools
import json
import math
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
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


def _pytest(*words: str, plugin: object) -> int:
    options = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist")
    return int(pytest.main([*options, *words], plugins=[plugin]))


def _fork(work: Callable[[], int]) -> int:
    """The id of a process that does the work, silently, in a group of its own."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(silence, stream)
        code = work()
        if "tests.warm" in sys.modules:
            sys.modules["tests.warm"].TEMPLATE.close()
    finally:
        os._exit(code)


@dataclass
class _Job:
    """Work that a process does, in so many seconds; tries and deadline are those of its runs."""

    number: int
    work: Callable[[], int]
    seconds: float
    tries: int = 0
    deadline: float = 0.0

    def begin(self, end: float) -> int:
        self.tries += 1
        self.deadline = min(end, time.monotonic() + self.tries * self.seconds)
        return _fork(self.work)


def _family(pid: int) -> Iterator[int]:
    """The process and all that it started: servers have sessions of their own."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                yield from _family(int(child))
    yield pid


def _kill(pid: int) -> None:
    for each in list(_family(pid)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    os.waitpid(pid, 0)


def _in_turn(
    jobs: Iterable[tuple[Callable[[], int], float]], workers: int, end: float = math.inf
) -> Iterator[tuple[int, int | None]]:
    """Runs jobs, each with the seconds it may take: (number, exit code) as they end.

    The machine may only have been busy: a late job runs again, with twice the time, and has the
    exit code None when it is late again. Nothing is told of a job that `end` cuts off.
    """
    waiting = (_Job(number, *job) for number, job in enumerate(jobs))
    again, running = list[_Job](), dict[int, _Job]()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    more = True
    while more or again or running:
        while (more or again) and len(running) < workers:
            job = again.pop() if again else next(waiting, None)
            if job is None:
                more = False
            else:
                running[job.begin(end)] = job
        for pid, job in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del running[pid]
                yield job.number, os.waitstatus_to_exitcode(status)
            elif time.monotonic() > job.deadline:
                del running[pid]
                _kill(pid)
                if job.tries == 1 and job.deadline < end:
                    again.append(job)
                elif job.deadline < end:
                    yield job.number, None
        if len(running) == workers or (running and not (more or again)):
            # Until a child ends, or the next deadline.
            left = min(job.deadline for job in running.values()) - time.monotonic()
            signal.sigtimedwait({signal.SIGCHLD}, max(0.0, left))


def _record(test: Path, folder: Path) -> int:
    """Runs one file of tests; leaves the lines and the times in the folder."""
    sources = [str(ROOT / "extender" / room) for room in ROOMS]
    name = f"{test.parent.name}-{test.stem}"
    lines = coverage.Coverage(
        str(folder / f"{name}.lines"), source=sources, config_file=False, messages=False
    )
    recorder = _Recorder(lines)
    lines.start()
    # No -x: a test that fails without any change is left out.
    code = int(pytest.main(["-q", "-p", "no:cacheprovider", str(test)], plugins=[recorder]))
    lines.stop()
    lines.save()
    (folder / f"{name}.seconds").write_text(json.dumps(recorder.seconds))
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


def _try(mutant: Mutant, chosen: Sequence[str], folder: Path) -> int:
    """The exit code of pytest with the changed module."""
    own = Path(tempfile.mkdtemp(dir=folder))
    changed = own / mutant.file.name
    changed.write_text(mutant.source())
    hook = _HOOK.format(module=mutant.module, file=str(changed))
    (own / "sitecustomize.py").write_text(hook)
    os.environ["PYTHONPATH"] = f"{own}:{ROOT}"
    exec(compile(hook, "sitecustomize.py", "exec"), {})
    files = sorted({name.partition("::")[0] for name in chosen})
    return _pytest(*files, plugin=_Chosen(chosen))


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
    jobs = [(partial(_record, file, folder), _RECORD_SECONDS) for file in files]
    for number, code in _in_turn(jobs, workers):
        if code not in _PASSED:
            print(f"{files[number].relative_to(ROOT)} fails without any change", flush=True)
    tests = Tests()
    tests.add(folder)
    return tests


def main() -> int:
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
    tried: list[Mutant] = []
    killed, late, survived = 0, 0, list[Mutant]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tests = _tests(folder, flags.workers)
        print(f"{time.monotonic() - began:.0f} s: every test has run once", flush=True)

        def jobs() -> Iterator[tuple[Callable[[], int], float]]:
            in_time = itertools.takewhile(lambda _: time.monotonic() < end, _sample(mutants, seeds))
            for mutant in in_time:
                tried.append(mutant)
                chosen = tests.of(mutant)
                yield partial(_try, mutant, chosen, folder), tests.seconds_for(chosen)

        for number, code in _in_turn(jobs(), flags.workers, end):
            if code in _PASSED:
                survived.append(tried[number])
                print(f"survived  {tried[number]}", flush=True)
            else:
                killed += 1
                late += code is None
            if not (killed + len(survived)) % 25:
                print(f"{killed + len(survived)} tried, {len(survived)} survived", flush=True)
    score = 100 * killed / max(1, killed + len(survived))
    print(f"{killed} of {killed + len(survived)} mutants killed, {late} by time: {score:.1f} %")
    return int(score < flags.least)


if __name__ == "__main__":
    sys.exit(main())
