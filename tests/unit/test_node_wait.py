"""The wait for news that kube-scheduler has already."""

import threading

from extender.cluster.node_wait import FIRST_WAITS_PER_SECOND, WAITS_PER_SECOND, NodeWait
from extender.cluster.snapshot_store import SnapshotStore
from extender.objects import Node
from tests.clocks import Clock
from tests.stores import replace_nodes


def a_store() -> SnapshotStore:
    store = SnapshotStore()
    replace_nodes(store, [Node("n1")])
    return store


def test_a_newer_snapshot_that_is_there_already_costs_no_wait() -> None:
    store = a_store()
    judged = store.snapshot
    replace_nodes(store, [Node("n2")])
    clock = Clock()
    wait = NodeWait(store, clock)
    for _ in range(100):
        assert next(iter(wait(judged, tried_before=False))) is store.snapshot


def test_a_snapshot_that_comes_during_the_wait_is_answered() -> None:
    store = a_store()
    judged = store.snapshot
    waiting = NodeWait(store, Clock())
    news = threading.Thread(
        target=replace_nodes,
        args=(
            store,
            [Node("n2")],
        ),
    )
    snapshots = iter(waiting(judged, tried_before=True))
    news.start()
    assert b"n2" in next(snapshots).nodes
    news.join()


def test_without_news_the_wait_ends() -> None:
    store = a_store()
    assert list(NodeWait(store)(store.snapshot, tried_before=True)) == []


def test_waits_are_few_and_fewer_for_pods_seen_for_the_first_time() -> None:
    store = a_store()
    clock = Clock()
    wait = NodeWait(store, clock)

    def ask(tried_before: bool) -> int:
        """How many waits of the last second are counted after 30 questions."""
        for _ in range(30):
            assert list(wait(store.snapshot, tried_before=tried_before)) == []
        return len(wait.waits)

    assert ask(False) == FIRST_WAITS_PER_SECOND
    assert ask(True) == WAITS_PER_SECOND
    clock.now += 1
    assert ask(False) == FIRST_WAITS_PER_SECOND


def test_a_group_of_pods_waits_once_a_second_and_leaves_the_waits_to_others() -> None:
    store = a_store()
    clock = Clock()
    wait = NodeWait(store, clock)

    def waits(group: str) -> int:
        before = len(wait.waits)
        assert list(wait(store.snapshot, tried_before=True, group=group)) == []
        return len(wait.waits) - before

    assert [waits("default/train") for _ in range(20)] == [1] + 19 * [0]
    assert [waits("default/other"), waits(""), waits("")] == [1, 1, 1]
    clock.now += 1
    assert waits("default/train") == -3


def test_a_wait_that_was_worth_it_is_not_counted() -> None:
    store = a_store()
    wait = NodeWait(store, Clock())
    for number in range(30):
        judged = store.snapshot
        news = threading.Thread(
            target=replace_nodes,
            args=(
                store,
                [Node(f"m{number}")],
            ),
        )
        news.start()
        found = False
        for _ in wait(judged, tried_before=True):
            found = True
            break
        news.join()
        assert found
