"""The wait for news that kube-scheduler already has."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from extender.cluster.node_wait import FIRST_WAITS_PER_SECOND, WAITS_PER_SECOND, NodeWait
from extender.cluster.snapshot_store import SnapshotStore
from extender.model.objects import Node
from extender.rules.snapshot import Snapshot
from tests.clocks import Clock
from tests.processes import until
from tests.stores import replace_nodes, store_of


def first(news: AsyncGenerator[Snapshot, None]) -> Snapshot | None:
    """The first newer snapshot, after which the caller stops asking; None if there is none."""

    async def ask() -> Snapshot | None:
        async with aclosing(news):
            async for snapshot in news:
                return snapshot
        return None

    return asyncio.run(ask())


@pytest.fixture
def store() -> SnapshotStore:
    return store_of([Node("n1")], [])


def after_a_change(wait: NodeWait, store: SnapshotStore, node: str) -> Snapshot | None:
    """The answer if another thread adds a node during the wait."""
    judged = store.snapshot

    def change() -> None:
        until(lambda: bool(wait.waits))
        replace_nodes(store, [Node(node)])

    news = threading.Thread(target=change)
    news.start()
    found = first(wait(judged, tried_before=True))
    news.join()
    return found


def test_a_newer_snapshot_that_is_there_already_costs_no_wait(store: SnapshotStore) -> None:
    judged = store.snapshot
    replace_nodes(store, [Node("n2")])
    wait = NodeWait(store, Clock())
    for _ in range(100):
        assert first(wait(judged, tried_before=False)) is store.snapshot


def test_a_snapshot_that_comes_during_the_wait_is_answered(
    store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait is long: on a busy machine another thread's news may take more than 30 ms."""
    monkeypatch.setattr("extender.cluster.node_wait.WAIT_SECONDS", 20.0)
    clock = Clock()
    wait = NodeWait(store, clock)
    for number in range(3):
        found = after_a_change(wait, store, f"m{number}")
        assert found is not None
        assert f"m{number}".encode() in found.nodes
        clock.now += 1


def test_without_news_the_wait_ends(store: SnapshotStore) -> None:
    assert first(NodeWait(store)(store.snapshot, tried_before=True)) is None


def test_waits_are_few_and_fewer_for_pods_seen_for_the_first_time(store: SnapshotStore) -> None:
    clock = Clock()
    wait = NodeWait(store, clock)

    def ask(tried_before: bool) -> int:
        """How many waits of the last second are counted after 30 questions."""
        for _ in range(30):
            assert first(wait(store.snapshot, tried_before=tried_before)) is None
        return len(wait.waits)

    assert ask(False) == FIRST_WAITS_PER_SECOND
    assert ask(True) == WAITS_PER_SECOND
    clock.now += 1
    assert ask(False) == FIRST_WAITS_PER_SECOND


@pytest.mark.parametrize("seconds", [0.0, 20.0])
def test_ever_new_snapshots_do_not_prolong_the_wait(
    store: SnapshotStore, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr("extender.cluster.node_wait.WAIT_SECONDS", seconds)

    async def ask() -> int:
        count = 0
        replace_nodes(store, [Node("n2")])
        async with aclosing(NodeWait(store)(judged, tried_before=True)) as news:
            async for _ in news:
                count += 1
                replace_nodes(store, [Node(f"n{count}")])
                if count == 5:
                    break
        return count

    judged = store.snapshot
    assert asyncio.run(ask()) == (5 if seconds else 0)
