"""The files under scheduler-config/ that an operator applies, read as they are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.processes import ROOT

FOLDER: Final = ROOT / "scheduler-config"

Json = dict[str, Any]

SCHEDULER_CONFIGURATION: Final = "kubescheduler.config.k8s.io/v1"

IMAGE: Final = "registry.example.com/runtimeclass-extender"


def yaml_files() -> list[Path]:
    """All but the samples, what a script has made, and what no API server of its own takes."""
    found = (*FOLDER.rglob("*.yaml"), *FOLDER.rglob("*.yml"))
    left_out = {"samples", "generated", "monitoring"}
    return sorted(
        file for file in found if not left_out.intersection(file.relative_to(FOLDER).parts)
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


def objects(kind: str, folder: str = "") -> list[tuple[Path, Json]]:
    """The objects of a kind, with their files."""
    under = FOLDER / folder
    return [
        (file, document)
        for file, document in every_object()
        if document["kind"] == kind and file.is_relative_to(under)
    ]


def the_object(kind: str, path: str) -> Json:
    """The only one of a kind in a file."""
    (document,) = (each for each in documents(FOLDER / path) if each["kind"] == kind)
    found: Json = document
    return found


def scheduler_configurations() -> list[Path]:
    return [file for file, _ in objects("KubeSchedulerConfiguration")]


def name_of(file: Path) -> str:
    """For test ids."""
    return str(file.relative_to(FOLDER))


def pod_specs() -> list[tuple[str, Json]]:
    """The pods that any of the files makes, named by file."""
    return [(name_of(file), pod["spec"]) for file, pod in objects("Pod")] + [
        (name_of(file), each["spec"]["template"]["spec"]) for file, each in objects("Deployment")
    ]


def containers(spec: Json) -> list[Json]:
    return [*spec.get("initContainers", ()), *spec["containers"]]
