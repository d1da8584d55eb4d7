"""Fixtures for the tests of commands and services over a cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.apiserver import FakeApiServer, kubeconfig
from tests.processes import SAMPLES, Server, serving


@pytest.fixture(scope="session")
def sample() -> Iterator[Server]:
    """`serve` of the sample cluster and its pods, for tests that change nothing."""
    with serving(SAMPLES / "cluster", SAMPLES / "pods") as server:
        yield server


@pytest.fixture
def cluster() -> Iterator[FakeApiServer]:
    """An empty cluster; a module may fill it in a fixture of the same name."""
    with FakeApiServer() as server:
        yield server


@pytest.fixture
def config(cluster: FakeApiServer, tmp_path: Path) -> str:
    """The path of a kubeconfig for the cluster."""
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig(cluster.url))
    return str(file)
