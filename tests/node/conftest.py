"""One node for all tests: the one that `make node` has started, or one that ends with them."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.node.node import Node, started
from tests.node.reader import Reader, a_class

#: Beside runc and crun: `broken`, whose program is not there, and `late`, which nobody configured.
CLASSES: Final = ("runc", "crun", "broken", "late")
SCHEDULER: Final = "runtimeclass-scheduler"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "node" in item.path.parts:
            item.add_marker(pytest.mark.node)


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    yield from started()


@pytest.fixture(scope="session")
def reader(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return Reader(node, tmp_path_factory.mktemp("checkout") / "copy")


@pytest.fixture(autouse=True)
def classes(node: Node, reader: Reader) -> Iterator[None]:
    """The same RuntimeClasses before each test; afterwards its pods are gone."""
    reader.apply(*(a_class(name) for name in CLASSES))
    yield
    node.kubectl("delete", "pods", "--all", "--now", "--timeout=60s")
    node.kubectl("delete", "runtimeclasses", "--all")


@pytest.fixture(scope="session")
def second_scheduler(reader: Reader) -> Reader:
    """docs/install-second-scheduler.md, followed to its end."""
    reader.install("second-scheduler")
    return reader
