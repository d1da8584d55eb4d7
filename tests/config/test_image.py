"""The image is made of what the lock files name, and of nothing else."""

import configparser
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from image.steps import copied
from tests.processes import ROOT

LOCKS: Final = (
    "image/requirements.lock",
    "image/build-requirements.lock",
    "release/requirements.lock",
)

_PIN: Final = re.compile(r"(?m)^([a-z0-9-]+)==([^ ;]+)(?: ; [^\\]+)? \\\n((?:    --hash=.*\n?)+)")


def _lock(name: str) -> str:
    return (ROOT / name).read_text()


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_file_has_a_hash_for_each_version_and_names_no_index(name: str) -> None:
    text = _lock(name)
    lines = [line for line in text.splitlines() if not line.startswith((" ", "#"))]
    assert len(_PIN.findall(text)) == len(lines) > 0
    assert not re.search(r"https?:|file:|--(?:extra-)?index-url|--find-links|/", text)


def test_the_lock_fits_what_the_package_asks_for() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    wanted = [
        Requirement(line)
        for line in setup["options"]["install_requires"].splitlines()
        if line and not line.startswith("#")
    ]
    locked = {name: version for name, version, _ in _PIN.findall(_lock("image/requirements.lock"))}
    assert wanted
    for each in wanted:
        assert each.specifier.contains(locked[each.name.lower()]), f"{each}: run make lock"


def test_the_dockerfile_copies_files_that_are_there_and_not_ignored() -> None:
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    kept = [rule[1:] for rule in rules if rule.startswith("!")]
    assert "*" in rules
    for sources, _ in copied((ROOT / "Dockerfile").read_text()):
        for source in sources:
            assert (ROOT / source).exists(), source
            assert any(fnmatch(Path(source).parts[0], rule) for rule in kept), source


def test_the_final_stage_is_slim_has_no_root_and_is_given_no_tools() -> None:
    final = re.split(r"(?m)^FROM ", (ROOT / "Dockerfile").read_text())[-1]
    assert "slim" in final.splitlines()[0]
    assert re.search(r"(?m)^USER 65532:65532$", final)
    assert not re.search(r"(?m)^RUN ", final)
