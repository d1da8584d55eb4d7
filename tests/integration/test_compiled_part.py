"""The compiled part: in use where it could be built, under sanitizers, and done without."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Final

import pytest

from extender.model import names
from tests.processes import ROOT, called

_COMPILER: Final = (sysconfig.get_config_var("CC") or "cc").split()

_FLAGS: Final = (
    *("-shared", "-fPIC", "-g", "-O1", "-Wall", "-Wextra", "-Werror"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
    f"-I{sysconfig.get_paths()['include']}",
)

_WITHOUT: Final = """
import sys
sys.modules["extender.model._names"] = None  # import raises ImportError
from extender.model import names
assert not names.IS_COMPILED
"""

#: Loads this library in place of the installed one, before anything imports that one.
_SANITIZED: Final = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("extender.model._names", {library!r})
sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[spec.name])
import extender.model
assert "extender.model.names" not in sys.modules
extender.model._names = sys.modules[spec.name]
"""


def _pass(folder: Path, plugin: str, *words: str, **environment: str) -> None:
    """Runs tests in a process of their own that begins with this code; no test is skipped."""
    (folder / "beginning.py").write_text(plugin)
    options = ("-q", "-p", "beginning", "-p", "no:cacheprovider", *words)
    env = {
        "PYTHONPATH": f"{folder}:{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
        **environment,
    }
    result = called(sys.executable, "-m", "pytest", *options, env=env, seconds=1800)
    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout
    assert "skipped" not in result.stdout


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.skipif(
    bool(os.environ.get("RUNTIMECLASS_EXTENDER_PURE_PYTHON")), reason="it is switched off"
)
def test_the_compiled_part_is_in_use_where_there_is_a_compiler() -> None:
    """The compiled part is optional: a failed build says nothing, but every answer takes longer."""
    assert names.IS_COMPILED


def test_where_it_cannot_be_loaded_the_answers_are_the_same(tmp_path: Path) -> None:
    """Where it can, the laws of tests/property compare both halves."""
    suites = ("tests/conformance/test_wire.py", "tests/unit/test_filter_route.py")
    _pass(tmp_path, _WITHOUT, *suites, "-k", "not (memory or seen)")


def _sanitizer() -> str:
    """The sanitizer's library, which must be loaded first; "" if the compiler has none."""
    if not shutil.which(_COMPILER[0]):
        return ""
    found = called(*_COMPILER, "-print-file-name=libasan.so").stdout.strip()
    return found if Path(found).is_absolute() else ""


@pytest.mark.deep
@pytest.mark.parametrize(
    "without",
    [
        pytest.param((), id="as it is built"),
        # No SSE2 either, and char has no sign.
        pytest.param(("-U__SSE2__", "-funsigned-char"), id="as aarch64 has it"),
    ],
)
def test_the_laws_of_names_hold_and_no_byte_out_of_bounds_is_touched(
    without: tuple[str, ...], tmp_path: Path
) -> None:
    preloaded = _sanitizer()
    if not preloaded:
        pytest.skip("the compiler has no address sanitizer")
    library = tmp_path / "_names.so"
    source = ROOT / "extender" / "model" / "_names.c"
    built = called(*_COMPILER, *_FLAGS, *without, source, "-o", library)
    assert built.returncode == 0, built.stderr
    # Lookups are timed without the sanitizer. The sanitizer ends the process: its report would be
    # lost if pytest captured stderr itself.
    chosen = ("-k", "compiled and not as_fast_as", "tests/property/test_names.py")
    _pass(
        tmp_path,
        _SANITIZED.format(library=str(library)),
        *("--capture=sys", *chosen),
        LD_PRELOAD=preloaded,
        # The interpreter's own allocator hides from the sanitizer where a small object ends.
        PYTHONMALLOC="malloc",
        # The interpreter itself does not free all memory when it ends.
        ASAN_OPTIONS="detect_leaks=0",
    )
