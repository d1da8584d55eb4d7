"""A worker that dies is replaced by one that knows the same, whatever it was told at the start."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import orjson
import pytest

from tests.fakes.apiserver import NODES, RUNTIME_CLASSES, FakeApiServer, kubeconfig
from tests.fakes.apiserver import node as a_node
from tests.fakes.apiserver import runtime_class as a_class
from tests.processes import SAMPLES, Server, running, until

FILTER = orjson.dumps({"Pod": {"spec": {"runtimeClassName": "kata"}}, "NodeNames": ["kata-1"]})

REVIEW = orjson.dumps(
    {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "namespace": "default",
            "operation": "CREATE",
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "object": {
                "metadata": {"name": "p"},
                "spec": {"runtimeClassName": "kata", "containers": []},
            },
        },
    }
)


@contextmanager
def a_cluster(folder: Path) -> Iterator[tuple[str, ...]]:
    with FakeApiServer() as api:
        api.put(RUNTIME_CLASSES, a_class("kata"))
        api.put(NODES, a_node("kata-1"))
        file = folder / "kubeconfig"
        file.write_text(kubeconfig(api.url))
        yield ("--kubeconfig", str(file))


@contextmanager
def manifests(_: Path) -> Iterator[tuple[str, ...]]:
    yield ("--manifests", str(SAMPLES / "cluster"))


def worker(server: Server) -> int:
    master = server.process.pid
    children = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    return int(children[0]) if children else 0


@pytest.mark.parametrize("source", [a_cluster, manifests])
@pytest.mark.parametrize(
    ("command", "path", "question"),
    [("serve", "/filter", FILTER), ("webhook", "/mutate", REVIEW)],
)
def test_a_killed_worker_is_replaced_by_one_that_knows_the_same(
    tmp_path: Path,
    command: str,
    path: str,
    question: bytes,
    source: Callable[[Path], AbstractContextManager[tuple[str, ...]]],
) -> None:
    with (
        source(tmp_path) as flags,
        running(command, "--bind", "127.0.0.1:0", *flags) as server,
    ):

        def is_ready() -> bool:
            return server.request("GET", "/readyz")[0] == 200

        until(is_ready)
        first, answer = worker(server), server.post(path, question)
        os.kill(first, signal.SIGKILL)
        until(lambda: worker(server) not in (0, first))
        until(is_ready)
        assert server.post(path, question) == answer
