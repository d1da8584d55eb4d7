"""The compiled part: in use where it could be built, and done without where it can't be loaded."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from extender import names
from tests.processes import ROOT

PLUGIN = """\
import sys

sys.modules["extender._names"] = None  # import raises ImportError

from extender import names

assert not names.IS_COMPILED
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.skipif(
    bool(os.environ.get("RUNTIMECLASS_EXTENDER_PURE_PYTHON")), reason="it is switched off"
)
def test_the_compiled_part_is_in_use_where_there_is_a_compiler() -> None:
    """It is optional: a build that fails says nothing, and every answer takes longer."""
    assert names.IS_COMPILED


def test_where_it_cannot_be_loaded_the_answers_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "without_names.py").write_text(PLUGIN)
    suites = ["tests/conformance/test_wire.py", "tests/unit/test_filter_route.py"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "without_names", *suites],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={
            "PYTHONPATH": f"{tmp_path}:{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_ADDOPTS": "-p no:cacheprovider",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path / "hypothesis"),
        },
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout
