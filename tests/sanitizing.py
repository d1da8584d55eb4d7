"""Builds a compiled part with the address sanitizer, and runs tests with it in a process."""

import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.processes import ROOT

_COMPILER = (sysconfig.get_config_var("CC") or "cc").split()

_FLAGS = (
    *("-shared", "-fPIC", "-g", "-O1", "-Wall", "-Wextra", "-Werror"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
    f"-I{sysconfig.get_paths()['include']}",
)

#: Loads the library in the place of the one that is installed, before anything imports that.
_PLUGIN = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("extender.{part}", {library!r})
sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[spec.name])
import extender
assert {used_by!r} not in sys.modules
extender.{part} = sys.modules[spec.name]
"""


def sanitized_run(
    part: str,
    used_by: str,
    sources: Sequence[str],
    laws: Sequence[str],
    *,
    chosen: str,
    folder: Path,
    flags: Sequence[str] = (),
    small_objects: bool = False,
) -> str:
    """Returns what pytest printed of the tests; skips without a sanitizer.

    Raises AssertionError if one failed, or a byte out of bounds was touched.

    part is the compiled module in `extender`, used_by the module that imports it, sources its
    files in `extender`, laws the files in `tests/property`, chosen what pytest's -k chooses of
    them. flags are the compiler's, beside the usual ones. The ends of small objects are watched
    with small_objects only, for it takes several times as long where most are the interpreter's.
    """
    preloaded = _sanitizer()
    if not preloaded:
        pytest.skip("the compiler has no address sanitizer")
    library, plugin = folder / f"{part}.so", f"sanitized{part}"
    files = [str(ROOT / "extender" / source) for source in sources]
    built = subprocess.run(
        [*_COMPILER, *_FLAGS, *flags, *files, "-o", str(library)], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    (folder / f"{plugin}.py").write_text(
        _PLUGIN.format(part=part, library=str(library), used_by=used_by)
    )
    # The sanitizer ends the process: what it says would be lost if pytest caught stderr itself.
    options = ("-q", "-p", plugin, "-p", "no:cacheprovider", "--capture=sys", "-k", chosen)
    tests = [str(ROOT / "tests" / "property" / law) for law in laws]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={
            "LD_PRELOAD": preloaded,
            "PYTHONPATH": f"{folder}:{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1",
            # The interpreter's own allocator hides from the sanitizer where a small object ends.
            **({"PYTHONMALLOC": "malloc"} if small_objects else {}),
            # The interpreter itself keeps memory to its end.
            "ASAN_OPTIONS": "detect_leaks=0",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
        },
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def _sanitizer() -> str:
    """The library that has to be loaded first; empty where the compiler has none."""
    try:
        found = subprocess.run(
            [*_COMPILER, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found if Path(found).is_absolute() else ""
