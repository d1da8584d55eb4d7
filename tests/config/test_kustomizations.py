"""Every folder with a kustomization can be built."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.config.shipped import FOLDER, IMAGE, Json, documents, name_of, yaml_files
from tests.processes import ROOT

_FILES: Final = [file for file in yaml_files() if file.name == "kustomization.yaml"]

_KUSTOMIZATIONS: Final = [
    file.parent for file in _FILES if documents(file)[0]["kind"] == "Kustomization"
]


def _kubectl() -> Path | None:
    for folder in (os.environ.get("KUBEBUILDER_ASSETS"), "/usr/local/kubebuilder/bin"):
        if folder and (Path(folder) / "kubectl").is_file():
            return Path(folder) / "kubectl"
    found = shutil.which("kubectl")
    return Path(found) if found else None


KUBECTL: Final = _kubectl()

needs_kubectl = pytest.mark.skipif(
    KUBECTL is None, reason="no kubectl in KUBEBUILDER_ASSETS or PATH to build kustomizations with"
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of scheduler-config/ in which the webhook's certificate script has been run."""
    copy = tmp_path_factory.mktemp("prepared") / "scheduler-config"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("generated"))
    for script in copy.glob("webhook/components/openssl/*.sh"):
        subprocess.run([script], check=True, capture_output=True)
    return copy


def _build(folder: Path) -> list[Json]:
    built = subprocess.run(
        [str(KUBECTL), "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    assert "Warning" not in built.stderr
    return [each for each in yaml.safe_load_all(built.stdout) if each]


@pytest.mark.parametrize("file", _FILES, ids=name_of)
def test_every_file_that_is_named_exists(file: Path) -> None:
    (kustomization,) = documents(file)
    named = [*kustomization.get("resources", ()), *kustomization.get("components", ())]
    for generator in ("configMapGenerator", "secretGenerator"):
        for each in kustomization.get(generator, ()):
            named += each.get("files", ())
    named += [each["path"] for each in kustomization.get("patches", ()) if "path" in each]
    for name in named:
        if name.startswith("generated/"):
            continue  # by the script beside it
        target = file.parent / name
        assert target.exists(), name
        assert target.is_file() or (target / "kustomization.yaml").is_file(), name


@pytest.mark.parametrize("file", _FILES, ids=name_of)
def test_every_yaml_beside_a_kustomization_is_named_in_it(file: Path) -> None:
    """Else it is shipped and never applied."""
    text = file.read_text()
    for sibling in file.parent.glob("*.yaml"):
        assert sibling == file or sibling.name in text


@needs_kubectl
@pytest.mark.parametrize("folder", _KUSTOMIZATIONS, ids=name_of)
def test_kubectl_builds_it(folder: Path, prepared: Path) -> None:
    built = _build(prepared / folder.relative_to(FOLDER))
    identities = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in built
    ]
    assert len(identities) == len(set(identities))


@needs_kubectl
@pytest.mark.parametrize("variant", ["beside-plugin", "instead-of-plugin"])
def test_the_second_scheduler_gets_its_configuration(variant: str) -> None:
    built = _build(FOLDER / "second-scheduler" / variant)
    (config,) = (each for each in built if each["kind"] == "ConfigMap")
    shipped = (FOLDER / "second-scheduler" / variant / "kube-scheduler.yaml").read_text()
    assert config["data"]["kube-scheduler.yaml"] == shipped
    assert "kubeconfig.yaml" in config["data"]
    (deployment,) = (each for each in built if each["kind"] == "Deployment")
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    assert volumes == [{"name": "config", "configMap": {"name": config["metadata"]["name"]}}]


@needs_kubectl
@pytest.mark.parametrize(
    "folder", ["second-scheduler/beside-plugin", "remote/base", "remote/cert-manager"]
)
def test_an_overlay_can_name_another_image(folder: str, prepared: Path) -> None:
    overlay = prepared / "overlay" / folder.replace("/", "-")
    overlay.mkdir(parents=True)
    (overlay / "kustomization.yaml").write_text(
        f"resources: [../../{folder}]\n"
        f"images: [{{name: {IMAGE}, newName: mirror.example/extender, newTag: '9'}}]\n"
    )
    text = yaml.safe_dump_all(_build(overlay))
    assert "mirror.example/extender:9" in text
    assert IMAGE not in text


def test_no_file_names_a_registry_but_the_placeholder_and_upstream() -> None:
    for file in (*yaml_files(), ROOT / "Dockerfile"):
        for line in file.read_text().splitlines():
            key, _, value = line.strip().lstrip("- ").partition(": ")
            if key == "image" and "/" in value:
                assert value.startswith((f"{IMAGE}:", "registry.k8s.io/kube-scheduler:")), line
