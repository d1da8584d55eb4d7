"""The compiled part under the address sanitizer: every law of names and victims once more."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER = (sysconfig.get_config_var("CC") or "cc").split()

#: Loads the library in the place of the one that is installed, before anything imports that.
PLUGIN = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("extender._names", {library!r})
sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[spec.name])
import extender
assert "extender.names" not in sys.modules
extender._names = sys.modules[spec.name]
"""


def sanitizer() -> str:
    """The library that has to be loaded first; empty where the compiler has none."""
    try:
        found = subprocess.run(
            [*COMPILER, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found if Path(found).is_absolute() else ""


@pytest.mark.parametrize(
    "without",
    [
        pytest.param((), id="as it is built"),
        pytest.param(("-U__SSE2__", "-U__SIZEOF_INT128__"), id="on a processor that lacks much"),
        # No SSE2 either, and char has no sign.
        pytest.param(("-U__SSE2__", "-funsigned-char"), id="as aarch64 has it"),
    ],
)
def test_the_laws_of_names_hold_and_no_byte_out_of_bounds_is_touched(
    without: tuple[str, ...], tmp_path: Path
) -> None:
    preloaded = sanitizer()
    if not preloaded:
        pytest.skip("the compiler has no address sanitizer")
    sources = [str(source) for source in sorted((ROOT / "extender").glob("*.c"))]
    library = tmp_path / "_names.so"
    flags = (
        *("-shared", "-fPIC", "-g", "-O1", "-Wall", "-Wextra", "-Werror"),
        *("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
    )
    include = f"-I{sysconfig.get_paths()['include']}"
    built = subprocess.run(
        [*COMPILER, *flags, *without, include, *sources, "-o", str(library)],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    (tmp_path / "sanitized_names.py").write_text(PLUGIN.format(library=str(library)))
    laws = [
        str(ROOT / "tests" / "property" / f"test_{of}.py") for of in ("names", "victim_entries")
    ]
    options = (
        *("-q", "-p", "sanitized_names", "-p", "no:cacheprovider"),
        # How long a look-up takes is measured without the sanitizer.
        *("-k", "(compiled or victim_entries) and not as_fast_as"),
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *laws],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={
            "LD_PRELOAD": preloaded,
            "PYTHONPATH": f"{tmp_path}:{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1",
            # The interpreter's own allocator hides from the sanitizer where a small object ends.
            "PYTHONMALLOC": "malloc",
            # The interpreter itself keeps memory to its end.
            "ASAN_OPTIONS": "detect_leaks=0",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path / "hypothesis"),
        },
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout
    assert "skipped" not in run.stdout
