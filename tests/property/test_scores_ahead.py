"""Scores that were made ahead are those that are made when they are asked for."""

import gc
import json
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.cluster.snapshot_store import SnapshotStore
from extender.http.health import Health
from extender.http.service import Service
from extender.http.verb_routes import FilterRoute, PrioritizeRoute
from extender.metrics import Metrics
from extender.objects import Node, RuntimeClass, Toleration
from extender.refused_pods import RefusedPods
from extender.wire.bodies import Chunks
from extender.wire.filter_bodies import QUICK_NAMES_BYTES

LAW = settings(max_examples=200, deadline=None)

NODES = [Node(f"node-{number}", {"pool": "ab"[number % 2]}) for number in range(6)]
CLASSES = [
    RuntimeClass("a", "runc", (("pool", "a"),)),
    RuntimeClass("a-too", "runc", (("pool", "a"),), (Toleration("a", "Exists"),)),
    RuntimeClass("b", "runc", (("pool", "b"),)),
    RuntimeClass("all", "runc"),
]


def service_of(store: SnapshotStore) -> Service:
    health = Health(lambda: store.snapshot)
    return Service(store, Metrics(), health, RefusedPods(lambda: 0.0))


def body_of(pod: str, runtime_class: str, names: Sequence[str]) -> bytes:
    """As kube-scheduler writes it."""
    spec = {"runtimeClassName": runtime_class} if runtime_class else {}
    args = {"Pod": {"metadata": {"name": pod}, "spec": spec}, "Nodes": None, "NodeNames": names}
    return json.dumps(args, separators=(",", ":")).encode()


def read(answered: tuple[Chunks, int] | None) -> tuple[Any, int]:
    assert answered is not None
    return json.loads(b"".join(answered[0])), answered[1]


class Scheduler:
    """Asks as kube-scheduler does: filters, then has scored what was left."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.filter, self.prioritize = FilterRoute(service), PrioritizeRoute(service)

    def left(self, pod: str, runtime_class: str, names: Sequence[str]) -> list[str]:
        answer, _ = read(self.filter.quickly(body_of(pod, runtime_class, names)))
        found: list[str] = answer["NodeNames"]
        return found

    def pause(self) -> None:
        """The answer is on its way."""
        work = self.service.scores_ahead.work()
        if work is not None:
            work()


CHANGES = st.one_of(
    st.none(),
    st.builds(
        lambda node, pool: Node(node.name, {"pool": pool}),
        st.sampled_from(NODES),
        st.sampled_from("abc"),
    ),
    st.sampled_from(CLASSES),
)

ASKED = st.tuples(
    st.sampled_from(["p", "q"]),
    st.sampled_from(["", "a", "b", "all", "missing"]),
    st.permutations([*(node.name for node in NODES), "unknown"]).flatmap(
        lambda names: st.integers(0, len(names)).map(lambda size: names[:size])
    ),
    st.sampled_from(["what was left", "what was left", "something else", "nothing"]),
    CHANGES,
    st.booleans(),
)


@LAW
@given(st.lists(ASKED, min_size=2, max_size=8))
def test_whatever_is_asked_the_scores_are_those_of_a_service_that_makes_none_ahead(
    turns: list[tuple[str, str, list[str], str, Node | RuntimeClass | None, bool]],
) -> None:
    store = SnapshotStore()
    store.replace_all(NODES, CLASSES)
    scheduler = Scheduler(service_of(store))
    for pod, runtime_class, names, then, change, has_paused in turns:
        left = scheduler.left(pod, runtime_class, names)
        if has_paused:
            scheduler.pause()
        if isinstance(change, Node):
            store.replace_all([change, *(n for n in NODES if n.name != change.name)], CLASSES)
        elif isinstance(change, RuntimeClass):
            store.replace_all(NODES, [each for each in CLASSES if each != change])
        if then == "nothing":
            continue
        body = body_of(pod, runtime_class, left if then == "what was left" else names[::-1])
        fresh = PrioritizeRoute(service_of(store)).quickly(body)
        assert read(scheduler.prioritize.quickly(body)) == read(fresh)


def test_scores_of_a_cluster_that_has_changed_are_made_again() -> None:
    store = SnapshotStore()
    store.replace_all(NODES, CLASSES)
    scheduler = Scheduler(service_of(store))
    names = [node.name for node in NODES]
    for pod in ("p", "q"):
        left = scheduler.left(pod, "", names)
        scheduler.pause()
        before = read(scheduler.prioritize.quickly(body_of(pod, "", left)))
    assert [each["Host"] for each in before[0]] == ["node-1", "node-3", "node-5"]
    scheduler.left("r", "", names)
    scheduler.pause()
    store.replace_all([*NODES[:5], Node("node-5", {"pool": "a"})], CLASSES)
    after = read(scheduler.prioritize.quickly(body_of("r", "", left)))
    assert [each["Host"] for each in after[0]] == ["node-1", "node-3"]


def test_only_a_scheduler_that_asks_for_scores_has_them_made_ahead() -> None:
    store = SnapshotStore()
    store.replace_all(NODES, CLASSES)
    scheduler = Scheduler(service_of(store))
    ahead, names = scheduler.service.scores_ahead, [node.name for node in NODES]
    for number in range(3):  # a scheduler without prioritizeVerb
        scheduler.left(f"p{number}", "", names)
        assert ahead.work() is None
    scheduler.prioritize.quickly(body_of("p2", "", names))
    scheduler.left("p3", "a", names)
    work = ahead.work()
    assert work is not None
    work()
    body = body_of("p3", "a", ["node-0", "node-2", "node-4"])
    assert ahead.answer(body) is not None
    assert ahead.answer(body) is None  # it is asked once, and not kept
    scheduler.left("p4", "a", names[:1])  # one node is left, which kube-scheduler does not score
    assert ahead.work() is None


@pytest.mark.parametrize("runtime_class", ["", "a"])
def test_what_takes_long_is_not_scored_ahead(runtime_class: str) -> None:
    """Few names may be long: 200,000 of them held the event loop for 70 ms."""
    long = "n" * 253
    store = SnapshotStore()
    store.replace_all([*NODES, Node(long, {"pool": "a"})], CLASSES)
    scheduler = Scheduler(service_of(store))
    for count, is_ahead in ((2, True), (QUICK_NAMES_BYTES // 253, False), (2, True)):
        scheduler.left("p", runtime_class, [long] * 2)
        scheduler.pause()
        scheduler.prioritize.quickly(body_of("p", runtime_class, [long] * 2))
        scheduler.filter(body_of("q", runtime_class, [long] * count))
        assert (scheduler.service.scores_ahead.work() is not None) is is_ahead


@pytest.mark.parametrize("runtime_class", ["", "a"])
def test_no_body_is_kept_of_a_client_that_goes_before_its_answer(runtime_class: str) -> None:
    """One of 62 MB that had left two nodes stayed until the next pod was filtered."""
    store = SnapshotStore()
    store.replace_all(NODES, CLASSES)
    scheduler = Scheduler(service_of(store))
    unknown = [f"{number:0250}" for number in range(QUICK_NAMES_BYTES // 253 + 1)]
    usual = body_of("p", runtime_class, ["node-0", "node-2", *unknown])
    for body in (usual, usual.replace(b'"Nodes":null', b'"Nodes": null')):
        gc.collect()
        tracemalloc.start()
        try:
            scheduler.filter(body)  # and its answer is not sent
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert kept < len(body) / 4
