"""The lookup of a class that the cache lacks, over a connection that the test scripts."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from extender.cluster.live_cluster import LiveLookup
from extender.cluster.node_and_class_feeds import RuntimeClassFeed
from extender.cluster.snapshot_store import SnapshotStore
from extender.model.errors import UndecidedError
from tests.cases_file import cases
from tests.clocks import Clock
from tests.fakes.apiserver import status_document
from tests.fakes.connections import Body, Connection, answer_of
from tests.processes import until
from tests.stores import raw

KATA = {
    "kind": "RuntimeClass",
    "metadata": {"name": "kata", "resourceVersion": "12"},
    "handler": "kata",
    "scheduling": {"nodeSelector": {"k": "v"}},
}


def kata() -> Body:
    return answer_of(200, KATA)


def not_found() -> Body:
    return answer_of(404, status_document(404, "NotFound"))


class LookingUp:
    """The lookup over a feed with a complete, empty list of version 10; the clock stands still."""

    def __init__(self, answer: Callable[[], Body]) -> None:
        self.store, self.clock = SnapshotStore(), Clock()
        self.feed = RuntimeClassFeed(self.store)
        self.feed.begin()
        self.feed.commit()
        self.feed.positioned("10")
        self.asked = Connection(answer)
        self.find = LiveLookup(lambda: self.asked, self.feed, self.clock)


def test_a_class_that_exists_is_put_into_the_store() -> None:
    lookup = LookingUp(kata)
    found = lookup.find("kata")
    assert found is not None
    assert found.node_selector == (("k", "v"),)
    assert lookup.store.snapshot.runtime_classes == {"kata": found}


def test_what_the_reflector_has_told_is_newer_than_an_answer() -> None:
    lookup = LookingUp(kata)
    lookup.feed.change(raw(KATA), deleted=False)
    told = lookup.store.snapshot
    assert lookup.find("kata") is told.runtime_classes["kata"]
    assert lookup.store.snapshot is told
    lookup = LookingUp(kata)
    lookup.feed.positioned("15")  # by then it had been deleted
    assert lookup.find("kata") is None
    assert lookup.store.snapshot.runtime_classes == {}


def test_within_a_second_an_answer_stands() -> None:
    lookup = LookingUp(not_found)
    assert [lookup.find("nope") for _ in range(5)] == [None] * 5
    assert lookup.asked.paths == ["/apis/node.k8s.io/v1/runtimeclasses/nope"]
    lookup.clock.now += 1
    assert lookup.find("nope") is None
    assert len(lookup.asked.paths) == 2


def test_more_than_ten_names_a_second_are_undecided() -> None:
    lookup = LookingUp(not_found)
    for number in range(10):
        assert lookup.find(f"nope{number}") is None
    with pytest.raises(UndecidedError, match="more than 10 look-ups at once or a second"):
        lookup.find("nope10")
    assert lookup.find("nope3") is None, "what was asked already needs no question"
    lookup.clock.now += 1
    assert lookup.find("nope10") is None
    assert len(lookup.asked.paths) == 11


@pytest.mark.parametrize("name", ["../secrets", "UPPER", "a b", "x" * 300, "a/b", "é"])
def test_what_cannot_be_a_name_is_not_asked_for(name: str) -> None:
    lookup = LookingUp(not_found)
    assert lookup.find(name) is None
    assert lookup.asked.paths == []


@cases
def test_whatever_is_no_answer_is_undecided(status: int, document: object, said: str) -> None:
    lookup = LookingUp(lambda: answer_of(status, document))
    with pytest.raises(UndecidedError, match=f"^runtimeclass-extender: .*{said}"):
        lookup.find("kata")


def test_many_who_ask_for_one_name_share_one_question() -> None:
    asked_once, answers = threading.Event(), threading.Event()

    def wait() -> Body:
        asked_once.set()
        answers.wait(5)
        return not_found()

    lookup = LookingUp(wait)
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(lookup.find, "nope") for _ in range(4)]
        assert asked_once.wait(5)
        answers.set()
    assert [each.result() for each in found] == [None] * 4
    assert len(lookup.asked.paths) == 1


def test_look_ups_do_not_pile_up_while_the_api_server_is_silent() -> None:
    answers = threading.Event()

    def wait() -> Body:
        answers.wait(20)
        return not_found()

    def now() -> float:
        """A second later each time while the API server is silent, so that nobody waits."""
        lookup.clock.now += not answers.is_set()
        return lookup.clock.now

    lookup = LookingUp(wait)
    find = LiveLookup(lambda: lookup.asked, lookup.feed, now)
    for number in range(10):
        with pytest.raises(UndecidedError, match="no answer within 1 s"):
            find(f"nope{number}")
    with pytest.raises(UndecidedError, match="more than 10 look-ups at once"):
        find("nope10")
    answers.set()
    until(lambda: not isinstance(tried(find, "nope10"), UndecidedError))


def tried(find: LiveLookup, name: str) -> object:
    try:
        return find(name)
    except UndecidedError as error:
        return error
