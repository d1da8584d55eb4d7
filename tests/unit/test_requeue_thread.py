"""The thread that wakes pods: when it asks, when it rests, and what it does about a 401."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import pytest

from extender.cluster.api_objects import Response
from extender.cluster.requeue import Requeue
from extender.cluster.snapshot_store import SnapshotStore
from extender.objects import Node, Pod, RuntimeClass
from extender.predicates.node_checks import Policy
from extender.refused_pods import RefusedPods
from tests.processes import until

GVISOR = RuntimeClass("gvisor", "runsc", (("sandbox", "gvisor"),))
WAITING = '0/9 nodes are available: 9 nodes don\'t match RuntimeClass "gvisor".'


class Answer:
    """What the API server answers."""

    retry_after = None

    def __init__(self, status: int, document: object) -> None:
        self.status = status
        self._body = orjson.dumps(document)

    def read_all(self, silence: float, limit: int = 0) -> bytes:
        return self._body

    def read_some(self, silence: float) -> bytes:
        body, self._body = self._body, b""
        return body

    def is_idle(self) -> bool:
        return True

    def close(self) -> None:
        pass


class Api:
    """An API server in so far as it is asked: the waiting pods, and patches with their answers."""

    def __init__(self, *pods: object, refusing: int = 0, lists: bool = True) -> None:
        self._pods = pods
        self._refusing = refusing
        self._lists = lists
        self.listed = 0
        self.patched: list[str] = []
        self.credentials_read = 0

    def get(self, path: str, query: dict[str, str], *, silence: float) -> Response:
        self.listed += 1
        if not self._lists:
            return Answer(503, {"kind": "Status", "message": "too busy"})
        items = list(self._pods)
        return Answer(
            200, {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": items}
        )

    def merge_patch(self, path: str, body: bytes, *, silence: float) -> Response:
        if self._refusing:
            self._refusing -= 1
            return Answer(401, {"kind": "Status", "message": "Unauthorized"})
        self.patched.append(path.rpartition("/")[2])
        return Answer(200, {})

    def rejected(self) -> None:
        self.credentials_read += 1

    def interrupt(self) -> None:
        pass


class ReadStore(SnapshotStore):
    """A store that counts how often the thread has read its snapshot."""

    reads = 0

    def __getattribute__(self, name: str) -> Any:
        if name == "snapshot" and threading.current_thread().name == "requeue":
            self.reads += 1
        return super().__getattribute__(name)


@contextmanager
def requeueing(
    store: SnapshotStore,
    api: Api,
    refused: RefusedPods | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[RefusedPods]:
    if refused is None:  # one without pods is false
        refused = RefusedPods(time.monotonic, keep_requirements=True)
    requeue = Requeue(store, refused, Policy(), api, lambda: None, clock=clock)
    requeue.start()
    try:
        yield refused
    finally:
        requeue.stop()


def pod(name: str, message: str = "") -> object:
    """A Pending pod of the class gvisor; message is what a scheduler has said of it."""
    said = {"type": "PodScheduled", "status": "False", "message": message}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"runtimeClassName": "gvisor"},
        "status": {"conditions": [said] if message else []},
    }


def test_waiting_pods_are_listed_once_all_is_known_and_not_before() -> None:
    """Before, every pod would look like one that fits nowhere, or of no class."""
    store, api = ReadStore(), Api()
    with requeueing(store, api):
        until(lambda: store.reads >= 1)
        store.replace_runtime_classes([GVISOR])
        until(lambda: store.reads >= 2)
        assert api.listed == 0
        store.replace_all([Node("n1")], [GVISOR])
        until(lambda: api.listed == 1)


def test_pods_that_were_refused_before_are_woken_by_what_comes() -> None:
    store = SnapshotStore()
    store.replace_all([Node("n1")], [GVISOR])
    fewer = WAITING.replace("9 nodes don't", "8 nodes don't")
    api = Api(pod("fits-nowhere", WAITING), pod("never-judged"), pod("fewer", fewer))
    with requeueing(store, api) as refused:
        until(lambda: len(refused) == 3)
        store.replace_all([Node("n1", {"sandbox": "gvisor"})], [GVISOR])
        until(lambda: len(api.patched) == 3)
    assert api.listed == 1


def test_nobody_is_woken_at_the_start_for_whom_no_node_has_come() -> None:
    """Fewer nodes refuse it, since there are fewer; a pod that fits shows that all are through."""
    store = SnapshotStore()
    store.replace_all([Node("n1")], [GVISOR, RuntimeClass("runc", "runc")])
    other = orjson.loads(orjson.dumps(pod("fits", WAITING.replace("gvisor", "runc"))))
    other["spec"]["runtimeClassName"] = "runc"
    api = Api(pod("fits-nowhere", WAITING), other)
    with requeueing(store, api):
        until(lambda: bool(api.patched))
        until(lambda: len(api.patched) == 1)
    assert api.patched == ["fits"]


def test_a_pod_that_nobody_has_tried_and_that_fits_is_not_remembered() -> None:
    """A scheduler will come to it by itself."""
    store = SnapshotStore()
    store.replace_all([Node("n1", {"sandbox": "gvisor"})], [GVISOR])
    missing = orjson.loads(orjson.dumps(pod("of-no-class")))
    missing["spec"]["runtimeClassName"] = "missing"
    with requeueing(store, Api(pod("new"), missing)) as refused:
        until(lambda: refused.get("uid-of-no-class") is not None)
        assert refused.get("uid-new") is None


def test_a_401_has_the_credentials_read_again_before_the_next_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("extender.cluster.requeue.RETRY_SECONDS", 0.001)
    store, refused = SnapshotStore(), RefusedPods(time.monotonic, keep_requirements=True)
    store.replace_all([Node("n1", {"sandbox": "gvisor"})], [])
    refused.refuse(Pod("default", "web", "uid-web", "gvisor"))
    api = Api(refusing=1)
    with requeueing(store, api, refused):
        until(lambda: api.listed == 1)
        store.replace_runtime_classes([GVISOR])
        until(lambda: api.patched == ["web"])
    assert api.credentials_read == 1


def test_while_waiting_pods_can_t_be_listed_others_are_woken() -> None:
    """A list of all pods may be refused for long where a patch is not."""
    store, api = SnapshotStore(), Api(lists=False)
    store.replace_all([Node("n1", {"sandbox": "gvisor"})], [])
    with requeueing(store, api) as refused:
        until(lambda: api.listed == 1)
        refused.refuse(Pod("default", "web", "uid-web", "gvisor"))
        store.replace_runtime_classes([GVISOR])
        until(lambda: api.patched == ["web"])
        until(lambda: api.listed == 2)


def test_a_thread_with_nothing_to_do_does_nothing() -> None:
    """Each round reads the clock; a thread that spins does so 100,000 times a second."""
    rounds = [0]

    def clock() -> float:
        rounds[0] += threading.current_thread().name == "requeue"
        return time.monotonic()

    store, api = SnapshotStore(), Api()
    store.replace_all([Node("n1", {"sandbox": "gvisor"})], [])
    with requeueing(store, api, clock=clock) as refused:
        until(lambda: api.listed == 1)
        refused.refuse(Pod("default", "web", "uid-web", "gvisor"))
        for number in range(1, 4):
            store.replace_runtime_classes([replace(GVISOR, overhead={"cpu": str(number)})])
            # Looked at 50 times a second: time enough to spin.
            until(partial(_has_patched, api, number))
    assert rounds[0] < 300


def _has_patched(api: Api, times: int) -> bool:
    return len(api.patched) == times
