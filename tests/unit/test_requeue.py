"""Which remembered pods a change wakes, and the thread that wakes them."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extender.cluster.requeue import Requeue, _Changes, woken
from extender.cluster.snapshot_store import SnapshotStore
from extender.model.objects import Node, Pod, RuntimeClass
from extender.model.pod_needs import MAX_FEW, Toleration
from extender.rules.node_checks import Policy
from extender.verbs.outcomes import RefusedPods
from tests import naive
from tests.fakes.connections import Body, Connection, answer_of
from tests.processes import until
from tests.property import strategies as some
from tests.stores import change_nodes, store_of

GVISOR = RuntimeClass("gvisor", "runsc", (("sandbox", "gvisor"),))


def a_pod(name: str = "web", runtime_class: str = "gvisor", **more: object) -> Pod:
    return Pod("default", name, f"uid-{name}", runtime_class, **more)  # type: ignore[arg-type]


def remembered(*pods: Pod) -> RefusedPods:
    refused = RefusedPods(lambda: 0.0, keep_needs=True)
    for pod in pods:
        refused.refuse(pod)
    return refused


class Following:
    """A store whose changes are noted."""

    def __init__(self, *nodes: Node, classes: Sequence[RuntimeClass] = (GVISOR,)) -> None:
        self.store = store_of(nodes, classes)
        self.changes = _Changes()
        self.store.subscribe(self.changes.add)

    def woken(self, refused: RefusedPods) -> list[str]:
        changes, self.changes.classes = self.changes, set(self.changes.classes)
        found = woken(refused.pods(), changes, self.store.snapshot, Policy())
        return [pod.name for pod in found]


SELECTED = Node("n1", {"sandbox": "gvisor"})
COSTLY = replace(GVISOR, overhead={"cpu": "1"})
KATA = RuntimeClass("kata", "kata", (("sandbox", "gvisor"),))


@given(
    *[some.node_lists] * 2,
    *[some.class_lists] * 2,
    st.lists(some.pods, max_size=3),
    st.sets(st.sampled_from(some.NODE_NAMES)),
    st.booleans(),
)
@example([SELECTED], [], [KATA], [KATA, GVISOR], [a_pod(), a_pod("b", "kata")], set(), True)
@example([SELECTED], [], [GVISOR, KATA], [COSTLY], [a_pod(), a_pod("b", "kata")], set(), True)
@example([SELECTED, Node("n2")], [], [GVISOR], [COSTLY], [a_pod()], {"n1"}, True)
def test_a_change_wakes_the_pods_that_may_go_where_they_might_not_before(
    nodes: list[Node],
    changed: list[Node],
    classes: list[RuntimeClass],
    others: list[RuntimeClass],
    pods: list[Pod],
    deleted: set[str],
    are_replaced: bool,
) -> None:
    """They may go to a changed node, or to any node if their class has changed."""
    following = Following(*nodes, classes=classes)
    before, now = ({each.name: each for each in found} for found in (nodes, changed))
    gone = (deleted & before.keys()) - now.keys()
    change_nodes(following.store, changed, gone)
    there = [each for name, each in (before | now).items() if name not in gone]
    known = {each.name: each for each in classes}
    found = {each.name: each for each in (others if are_replaced else classes)}
    found = {name: known[name] if known.get(name) == each else each for name, each in found.items()}
    following.store.replace_runtime_classes(found.values())

    def passes(pod: Pod, node: Node | None) -> bool:
        return node is not None and naive.reasons(pod, found, [node], Policy()) == [None]

    def is_woken(pod: Pod) -> bool:
        name = pod.runtime_class_name
        if name and found.get(name) is not known.get(name):
            return any(passes(pod, each) for each in there)
        return any(passes(pod, each) and not passes(pod, before.get(each.name)) for each in changed)

    named = [replace(pod, name=f"p{number}", uid=f"{number}") for number, pod in enumerate(pods)]
    assert following.woken(remembered(*named)) == [pod.name for pod in named if is_woken(pod)]


def test_a_pod_of_too_many_tolerations_to_keep_is_woken_by_any_change_of_shape() -> None:
    forgotten = a_pod(tolerations=(Toleration("t", "Exists"),) * (MAX_FEW + 1))
    for labels, found in (({"x": "y"}, []), ({"sandbox": "gvisor"}, ["web"])):
        following = Following(Node("n1"))
        change_nodes(following.store, [Node("n1", labels)])
        assert following.woken(remembered(forgotten)) == found


# The thread: when it asks, when it rests, and what it does about a patch that fails

WEB = a_pod()
WAITING = '0/9 nodes are available: 9 nodes don\'t match RuntimeClass "gvisor".'


def refusal(status: int) -> Body:
    return answer_of(status, {"kind": "Status", "message": f"said with {status}"})


class Api(Connection):
    """Lists the waiting pods, and answers patches with 200 once the answers are used up."""

    def __init__(self, *pods: object, lists: bool = True) -> None:
        listed = {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": pods}
        self.answers = deque[Callable[[], Body]]()
        self.successes = 0
        super().__init__(lambda: answer_of(200, listed) if lists else refusal(503), self._next)

    def _next(self) -> Body:
        if self.answers:
            self.patched.pop()
            return self.answers.popleft()()
        return answer_of(200, {})

    def count(self) -> None:
        self.successes += 1

    @property
    def listed(self) -> int:
        return len(self.paths)


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
    if refused is None:  # a RefusedPods without pods is false
        refused = RefusedPods(time.monotonic, keep_needs=True)
    requeue = Requeue(store, refused, Policy(), api, api.count, clock=clock)
    requeue.start()
    try:
        yield refused
    finally:
        requeue.stop()


def pod(name: str, message: str = "", runtime_class: str = "gvisor") -> object:
    """A Pending pod; message is what a scheduler has said of it."""
    said = {"type": "PodScheduled", "status": "False", "message": message}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"runtimeClassName": runtime_class},
        "status": {"conditions": [said] if message else []},
    }


def test_waiting_pods_are_listed_once_all_is_known_and_not_before() -> None:
    """Before that every pod would seem to fit nowhere, or to have no class."""
    store, api = ReadStore(), Api()
    with requeueing(store, api):
        until(lambda: store.reads >= 1)
        store.replace_runtime_classes([GVISOR])
        until(lambda: store.reads >= 2)
        assert api.listed == 0
        store.replace_all([Node("n1")], [GVISOR])
        until(lambda: api.listed == 1)


def test_nobody_is_woken_at_the_start_for_whom_no_node_has_come() -> None:
    """Fewer nodes refuse the pod: there are fewer. The pod that fits shows that all were judged."""
    store = store_of([Node("n1")], [GVISOR, RuntimeClass("runc", "runc")])
    fits = pod("fits", WAITING.replace("gvisor", "runc"), "runc")
    api = Api(pod("fits-nowhere", WAITING), fits)
    with requeueing(store, api):
        until(lambda: bool(api.patched))
    assert api.patched == ["fits"]


def woken_web() -> tuple[SnapshotStore, RefusedPods, Api]:
    """With a refused pod that passes as soon as its class is put into the store."""
    store, refused = SnapshotStore(), RefusedPods(time.monotonic, keep_needs=True)
    store.replace_all([Node("n1", {"sandbox": "gvisor"})], [])
    refused.refuse(WEB)
    return store, refused, Api()


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
@pytest.mark.parametrize("times", [2, 5])
def test_a_patch_is_tried_five_times(
    status: int, times: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("extender.cluster.requeue.RETRY_SECONDS", 0.001)
    store, refused, api = woken_web()
    api.answers.extend([partial(refusal, status)] * times)
    with requeueing(store, api, refused):
        until(lambda: api.listed == 1)
        store.replace_runtime_classes([GVISOR])
        if times < 5:
            until(lambda: api.successes == 1)
        else:
            text = "missing permission: patch pods" if status == 403 else "pod not requeued"
            until(lambda: text in caplog.text)
    assert not api.answers
    assert api.patched == (["web"] if times < 5 else [])


def test_a_pod_whose_patch_is_denied_holds_up_no_other() -> None:
    """A policy of one namespace may deny it. The pause before a retry is 2 s."""
    store, refused, api = woken_web()
    refused.refuse(replace(WEB, name="other", uid="uid-other"))
    api.answers.append(partial(refusal, 403))
    with requeueing(store, api, refused):
        store.replace_runtime_classes([GVISOR])
        until(lambda: api.successes == 1, 1.5)
    assert api.patched == ["other"]


def test_a_missing_right_is_told_though_the_pod_passes_before_the_second_try(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """kube-scheduler may try the pod again while the patch is still retried."""
    monkeypatch.setattr("extender.cluster.requeue.RETRY_SECONDS", 0.001)
    store, refused, api = woken_web()

    def refuse_and_pass() -> Body:
        refused.admit(WEB)
        return refusal(403)

    api.answers.extend([refuse_and_pass, *[partial(refusal, 403)] * 4])
    with requeueing(store, api, refused):
        store.replace_runtime_classes([GVISOR])
        until(lambda: "missing permission: patch pods" in caplog.text)


@pytest.mark.parametrize("status", [400, 404, 409, 422])
def test_a_patch_that_is_not_tried_again_says_why(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store, refused, api = woken_web()
    api.answers.append(partial(refusal, status))
    with requeueing(store, api, refused):
        store.replace_runtime_classes([GVISOR])
        until(lambda: f"HTTP {status}" in str([vars(each).get("cause") for each in caplog.records]))


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
        refused.refuse(WEB)
        for number in range(1, 4):
            store.replace_runtime_classes([replace(GVISOR, overhead={"cpu": str(number)})])
            # The condition is checked 50 times a second, which leaves time to spin.
            until(lambda: len(api.patched) == number)  # noqa: B023 (called at once)
    assert rounds[0] < 300
