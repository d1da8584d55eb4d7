"""A worker that dies is replaced by one that knows the same, from a cluster or from manifests."""

import os
import signal

import orjson
import pytest

from tests.fakes.apiserver import NODES, RUNTIME_CLASSES, FakeApiServer, node, runtime_class
from tests.integration.test_server import worker_of
from tests.processes import SAMPLES, ready, until
from tests.reviews import review

FILTER = orjson.dumps({"Pod": {"spec": {"runtimeClassName": "kata"}}, "NodeNames": ["kata-1"]})

REVIEW = review({"metadata": {"name": "p"}, "spec": {"runtimeClassName": "kata"}})


@pytest.mark.parametrize(
    ("command", "source", "path", "question"),
    [("serve", "cluster", "/filter", FILTER), ("webhook", "manifests", "/mutate", REVIEW)],
    ids=["serve", "webhook"],
)
def test_a_killed_worker_is_replaced_by_one_that_knows_the_same(
    command: str, source: str, path: str, question: bytes, cluster: FakeApiServer, config: str
) -> None:
    cluster.put(RUNTIME_CLASSES, runtime_class("kata"))
    cluster.put(NODES, node("kata-1"))
    flags = {"cluster": f"--kubeconfig={config}", "manifests": f"--manifests={SAMPLES / 'cluster'}"}
    with ready(command, flags[source]) as server:
        first, answer = worker_of(server), server.post(path, question)
        os.kill(first, signal.SIGKILL)
        until(lambda: worker_of(server) not in (0, first))
        until(lambda: server.request("GET", "/readyz")[0] == 200)
        assert server.post(path, question) == answer
