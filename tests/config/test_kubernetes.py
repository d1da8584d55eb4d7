"""The versions of Kubernetes: the modules that its programs are built from, and their rows."""

import re
from typing import Final

import pytest

from extender.kubernetes.versions import NEWEST, OLDEST
from tests.config.pages import section
from tests.config.test_manifests import VERSIONS
from tests.processes import ROOT

FOLDER: Final = ROOT / "tests" / "kubernetes"


def test_each_supported_version_of_kubernetes_can_be_built_and_has_a_row() -> None:
    assert (f"1.{OLDEST[1]}", f"1.{NEWEST[1]}") == (VERSIONS[0], VERSIONS[-1])
    assert tuple(sorted(folder.name for folder in FOLDER.glob("1.*"))) == VERSIONS
    page = section("upgrade-and-removal", "## Kubernetes, minor version by minor version")
    assert tuple(re.findall(r"^\| (1\.\d+) \|", page, re.MULTILINE)) == VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_the_staging_modules_are_those_of_the_version(version: str) -> None:
    """A staging module of another version mostly compiles, but no release behaves like that."""
    text = (FOLDER / version / "go.mod").read_text()
    (release,) = re.findall(r"^\tk8s\.io/kubernetes (v\S+)", text, re.MULTILINE)
    assert release.startswith(f"v{version}.")
    replaced = re.findall(r"^\t(k8s\.io/\S+) => (\S+) (\S+)$", text, re.MULTILINE)
    assert len(replaced) > 25
    staging = f"v0.{release.removeprefix('v1.')}"
    assert {each for each in replaced if each[1:] != (each[0], staging)} == set()
