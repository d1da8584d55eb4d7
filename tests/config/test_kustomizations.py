"""Every folder with a kustomization can be built."""

from pathlib import Path
from typing import Final

import pytest

from tests.config.kustomize import KUSTOMIZATIONS, build, needs_kustomize
from tests.config.shipped import IMAGE, name_of, yaml_files
from tests.processes import ROOT

_FILES: Final = [file for file in yaml_files() if file.name == "kustomization.yaml"]


@pytest.mark.parametrize("file", _FILES, ids=name_of)
def test_every_yaml_beside_a_kustomization_is_named_in_it(file: Path) -> None:
    """Otherwise it is shipped and never applied."""
    text = file.read_text()
    for sibling in file.parent.glob("*.yaml"):
        assert sibling == file or sibling.name in text


@needs_kustomize
@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=name_of)
def test_kubectl_builds_it(folder: Path) -> None:
    built = build(folder)
    identities = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in built
    ]
    assert len(identities) == len(set(identities))


def test_no_file_names_a_registry_but_the_placeholder_and_upstream() -> None:
    for file in (*yaml_files(), ROOT / "Dockerfile"):
        for line in file.read_text().splitlines():
            key, _, value = line.strip().lstrip("- ").partition(": ")
            if key == "image" and "/" in value:
                assert value.startswith((f"{IMAGE}:", "registry.k8s.io/kube-scheduler:")), line
