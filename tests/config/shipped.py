"""The files that an operator applies, of scheduler-config/ and install/, read as they are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.processes import ROOT

FOLDER: Final = ROOT / "scheduler-config"

#: Made from the chart, one file for each way to install.
INSTALL: Final = ROOT / "install"

Json = dict[str, Any]

SCHEDULER_CONFIGURATION: Final = "kubescheduler.config.k8s.io/v1"

IMAGE: Final = "registry.example.com/runtimeclass-extender"


def yaml_files() -> list[Path]:
    """All but the samples and the file whose kinds no API server has by itself."""
    found = (*FOLDER.rglob("*.yaml"), *INSTALL.glob("*.yaml"))
    other, samples = INSTALL / "monitoring.yaml", FOLDER / "samples"
    return sorted(file for file in found if file != other and samples not in file.parents)


def documents(file: Path) -> list[Any]:
    return [each for each in yaml.safe_load_all(file.read_text()) if each is not None]


def every_object() -> Iterator[tuple[Path, Json]]:
    """All documents that have an apiVersion and a kind."""
    for file in yaml_files():
        for document in documents(file):
            if isinstance(document, dict):
                yield file, document


def objects(kind: str, *, within: str = "") -> list[tuple[Path, Json]]:
    """The objects of a kind with their files; within: a part of the file's name."""
    return [
        (file, document)
        for file, document in every_object()
        if document["kind"] == kind and within in name_of(file)
    ]


def the_object(kind: str, path: str) -> Json:
    """The only object of a kind in a file of scheduler-config/, or of the repository."""
    file = FOLDER / path if (FOLDER / path).is_file() else ROOT / path
    (document,) = (each for each in documents(file) if each["kind"] == kind)
    found: Json = document
    return found


def scheduler_configurations() -> list[Path]:
    """The files for kube-scheduler; Cluster Autoscaler wants the opposite of some advice."""
    found = [file for file, _ in objects("KubeSchedulerConfiguration")]
    return [file for file in found if file.parent.name != "cluster-autoscaler"]


def name_of(file: Path) -> str:
    """For test ids."""
    return str(file.relative_to(FOLDER if file.is_relative_to(FOLDER) else ROOT))


def pod_specs() -> list[tuple[str, Json]]:
    """(file, spec) of each pod that the files make."""
    return [(name_of(file), pod["spec"]) for file, pod in objects("Pod")] + [
        (name_of(file), each["spec"]["template"]["spec"]) for file, each in objects("Deployment")
    ]


def containers(spec: Json) -> list[Json]:
    return [*spec.get("initContainers", ()), *spec["containers"]]
