"""The real programs, started once for all tests; each test begins with an empty cluster.

Two ways to run, as in docs: `beside` the in-tree RuntimeClass admission plugin, and `instead` of
it, where the filter's reasons are what a person sees.
"""

from collections.abc import Iterator

import pytest

from tests.e2e.cluster import Cluster, cluster, missing

#: There is no controller that makes service accounts.
_BESIDE = "--disable-admission-plugins=ServiceAccount"
_INSTEAD = "--disable-admission-plugins=ServiceAccount,RuntimeClass"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    absent = missing()
    for item in items:
        if "e2e" in item.path.parts:
            item.add_marker(pytest.mark.e2e)
            if absent:
                item.add_marker(pytest.mark.skip(reason=absent))


@pytest.fixture(scope="session")
def cluster_instead() -> Iterator[Cluster]:
    with cluster(_INSTEAD) as started:
        yield started


@pytest.fixture(scope="session")
def cluster_beside() -> Iterator[Cluster]:
    with cluster(_BESIDE) as started:
        yield started


@pytest.fixture
def instead(cluster_instead: Cluster) -> Iterator[Cluster]:
    """An empty cluster without the in-tree plugin."""
    cluster_instead.clear()
    yield cluster_instead
    cluster_instead.clear()


@pytest.fixture
def beside(cluster_beside: Cluster) -> Iterator[Cluster]:
    """An empty cluster with the in-tree plugin."""
    cluster_beside.clear()
    yield cluster_beside
    cluster_beside.clear()


@pytest.fixture(params=["beside", "instead"])
def either(request: pytest.FixtureRequest) -> Cluster:
    """An empty cluster with the in-tree plugin, and one without."""
    found: Cluster = request.getfixturevalue(request.param)
    return found
