"""The part in C that cuts JSON, under the address sanitizer: every law of slices once more."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.integration.test_names_sanitized import COMPILER, ROOT, sanitizer

PLUGIN = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("extender._slices", {library!r})
sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[spec.name])
import extender
extender._slices = sys.modules[spec.name]
"""


def test_the_laws_of_slices_hold_and_no_byte_out_of_bounds_is_touched(tmp_path: Path) -> None:
    preloaded = sanitizer()
    if not preloaded:
        pytest.skip("the compiler has no address sanitizer")
    source, library = ROOT / "extender" / "_slices.c", tmp_path / "_slices.so"
    flags = (
        *("-shared", "-fPIC", "-g", "-O1", "-Wall", "-Wextra", "-Werror"),
        *("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
    )
    include = f"-I{sysconfig.get_paths()['include']}"
    command = [*COMPILER, *flags, include, str(source), "-o", str(library)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (tmp_path / "sanitized_cuts.py").write_text(PLUGIN.format(library=str(library)))
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "sanitized_cuts"),
            *("-p", "no:cacheprovider", "-k", "not turn"),
            str(ROOT / "tests" / "property" / "test_slices.py"),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={
            "LD_PRELOAD": preloaded,
            "PYTHONPATH": f"{tmp_path}:{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1",
            # The interpreter itself keeps memory to its end.
            "ASAN_OPTIONS": "detect_leaks=0",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path / "hypothesis"),
        },
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout
