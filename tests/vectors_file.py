"""Reads the vectors: facts about Kubernetes as data, see vectors/PROVENANCE.md."""

import json
from pathlib import Path
from typing import Any

import pytest

VECTORS = Path(__file__).parent / "vectors"
RECORDED = Path(__file__).parent / "recorded"


def raw_vectors(file: str) -> dict[str, Any]:
    """A whole file of vectors."""
    document = json.loads((VECTORS / f"{file}.json").read_text())
    assert isinstance(document, dict)
    return document


def vectors(file: str, section: str) -> list[Any]:
    """The cases of one list, as pytest parameters with their id and name as test id."""
    cases = raw_vectors(file)[section]
    return [pytest.param(case, id=f"{case['id']} {case['name']}") for case in cases]


def recorded(folder: str, verb: str) -> list[Any]:
    """The bodies kube-scheduler sent for one verb, as pytest parameters."""
    files = sorted((RECORDED / folder).glob(f"*-{verb}.json"))
    assert files, f"no {verb} recorded in {folder}"
    return [pytest.param(file.read_bytes(), id=f"{folder}/{file.name}") for file in files]
