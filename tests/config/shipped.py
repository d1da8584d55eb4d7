"""The files that an operator applies, of scheduler-config/ and install/, read as they are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.processes import ROOT

FOLDER: Final = ROOT / "scheduler-config"

#: Made from the chart: a file a way.
INSTALL: Final = ROOT / "install"

Json = dict[str, Any]

SCHEDULER_CONFIGURATION: Final = "kubescheduler.config.k8s.io/v1"

IMAGE: Final = "registry.example.com/runtimeclass-extender"


def yaml_files() -> list[Path]:
    """All but the samples, and what no API server of its own takes."""
    found = (*FOLDER.rglob("*.yaml"), *INSTALL.glob("*.yaml"))
    left_out = {INSTALL / "monitoring.yaml"}
    return sorted(
        file for file in found if file not in left_out and FOLDER / "samples" not in file.parents
    )


def documents(file: Path) -> list[Any]:
    return [each for each in yaml.safe_load_all(file.read_text()) if each is not None]


def every_document() -> Iterator[tuple[Path, Any]]:
    for file in yaml_files():
        for document in documents(file):
            yield file, document


def every_object() -> Iterator[tuple[Path, Json]]:
    """All documents that have an apiVersion and a kind."""
    for file, document in every_document():
        if isinstance(document, dict):
            yield file, document


def objects(kind: str, *, within: str = "") -> list[tuple[Path, Json]]:
    """The objects of a kind with their files, of those whose name has that part."""
    return [
        (file, document)
        for file, document in every_object()
        if document["kind"] == kind and within in name_of(file)
    ]


def the_object(kind: str, path: str) -> Json:
    """The only one of a kind in a file of scheduler-config/, or of the repository."""
    file = FOLDER / path if (FOLDER / path).is_file() else ROOT / path
    (document,) = (each for each in documents(file) if each["kind"] == kind)
    found: Json = document
    return found


def scheduler_configurations() -> list[Path]:
    """Those of kube-scheduler."""
    found = [file for file, _ in objects("KubeSchedulerConfiguration")]
    return [file for file in found if file.parent.name != "cluster-autoscaler"]


def name_of(file: Path) -> str:
    """For test ids."""
    return str(file.relative_to(FOLDER if file.is_relative_to(FOLDER) else ROOT))


def pod_specs() -> list[tuple[str, Json]]:
    """The pods that any of the files makes, named by file."""
    return [(name_of(file), pod["spec"]) for file, pod in objects("Pod")] + [
        (name_of(file), each["spec"]["template"]["spec"]) for file, each in objects("Deployment")
    ]


def containers(spec: Json) -> list[Json]:
    return [*spec.get("initContainers", ()), *spec["containers"]]
