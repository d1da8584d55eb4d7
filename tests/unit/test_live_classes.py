"""The look-up of a class that the cache lacks, with connections that do what the test says."""

import json
import threading
from collections.abc import Callable, Mapping

import pytest
from msgspec import Raw

from extender.cluster.api_connection import UnreachableError
from extender.cluster.live_classes import LiveLookup
from extender.cluster.node_and_class_feeds import RuntimeClassFeed
from extender.cluster.snapshot_store import SnapshotStore
from extender.undecided_errors import UndecidedError
from tests.clocks import Clock
from tests.fakes.apiserver import status_document


class Answer:
    """A response that has arrived whole."""

    def __init__(self, status: int, document: object) -> None:
        self.status = status
        self._body = json.dumps(document).encode()

    @property
    def retry_after(self) -> float | None:
        return None

    def read_some(self, silence: float) -> bytes:
        return self._body

    def read_all(self, silence: float, limit: int = 0) -> bytes:
        return self._body

    def is_idle(self) -> bool:
        return True

    def close(self) -> None:
        pass


class Asked:
    """Answers all questions in one way, and counts them."""

    def __init__(self, answer: Callable[[], Answer]) -> None:
        self._answer = answer
        self.paths: list[str] = []
        self.rejections = 0

    def get(self, path: str, query: Mapping[str, str], *, silence: float, connect: float) -> Answer:
        self.paths.append(path)
        return self._answer()

    def rejected(self) -> None:
        self.rejections += 1


NOT_FOUND = Answer(404, status_document(404, "NotFound"))
KATA = Answer(
    200,
    {
        "kind": "RuntimeClass",
        "metadata": {"name": "kata", "resourceVersion": "12"},
        "handler": "kata",
        "scheduling": {"nodeSelector": {"k": "v"}},
    },
)


def a_feed(store: SnapshotStore) -> RuntimeClassFeed:
    """A complete list without a class, at version 10."""
    feed = RuntimeClassFeed(store)
    feed.begin()
    feed.commit()
    feed.positioned("10")
    return feed


def a_lookup(
    answer: Callable[[], Answer], clock: Clock | None = None
) -> tuple[LiveLookup, Asked, SnapshotStore]:
    store, asked = SnapshotStore(), Asked(answer)
    return LiveLookup(lambda: asked, a_feed(store), clock or Clock()), asked, store


def test_a_class_that_exists_is_put_into_the_store() -> None:
    lookup, _, store = a_lookup(lambda: KATA)
    found = lookup("kata")
    assert found is not None
    assert found.node_selector == (("k", "v"),)
    assert store.snapshot.runtime_classes == {"kata": found}


def test_a_class_noted_but_not_handed_on_yet_is_judged_with_its_labels() -> None:
    """Between an event and the fold of several, the answer must not be ahead of the store."""
    store = SnapshotStore()
    feed = a_feed(store)
    lookup = LiveLookup(lambda: Asked(lambda: KATA), feed, Clock())
    feed.change(Raw(KATA.read_all(1.0)), deleted=False)
    assert store.snapshot.runtime_classes == {}
    found = lookup("kata")
    assert found is not None
    assert store.snapshot.runtime_classes == {"kata": found}


def test_a_class_that_the_reflector_has_seen_deleted_is_not_put_back() -> None:
    store = SnapshotStore()
    feed = a_feed(store)
    lookup = LiveLookup(lambda: Asked(lambda: KATA), feed, Clock())
    feed.positioned("15")
    assert lookup("kata") is None
    assert store.snapshot.runtime_classes == {}


def test_a_class_that_does_not_exist_is_none() -> None:
    lookup, asked, _ = a_lookup(lambda: NOT_FOUND)
    assert lookup("nope") is None
    assert asked.paths == ["/apis/node.k8s.io/v1/runtimeclasses/nope"]


def test_within_a_second_an_answer_stands() -> None:
    clock = Clock()
    lookup, asked, _ = a_lookup(lambda: NOT_FOUND, clock)
    for _ in range(5):
        assert lookup("nope") is None
    clock.now += 1
    assert lookup("nope") is None
    assert len(asked.paths) == 2


def test_a_class_found_and_deleted_within_the_second_is_not_found_again() -> None:
    """What the reflector has told since is newer than the answer."""
    answers = [KATA, NOT_FOUND]
    asked, store = Asked(lambda: answers[len(asked.paths) - 1]), SnapshotStore()
    feed = a_feed(store)
    lookup = LiveLookup(lambda: asked, feed, Clock())
    assert lookup("kata") is not None
    assert lookup("kata") is not None
    assert len(asked.paths) == 1
    feed.change(Raw(KATA.read_all(1.0)), deleted=True)
    feed.flush()
    assert store.snapshot.runtime_classes == {}
    assert lookup("kata") is None
    assert len(asked.paths) == 2


def test_more_than_ten_names_a_second_are_undecided() -> None:
    clock = Clock()
    lookup, asked, _ = a_lookup(lambda: NOT_FOUND, clock)
    for number in range(10):
        assert lookup(f"nope{number}") is None
    with pytest.raises(UndecidedError, match="more than 10 look-ups a second"):
        lookup("nope10")
    assert lookup("nope3") is None, "what was asked already needs no question"
    clock.now += 1
    assert lookup("nope10") is None
    assert len(asked.paths) == 11


@pytest.mark.parametrize("name", ["../secrets", "UPPER", "a b", "x" * 300, "a/b", "é"])
def test_what_cannot_be_a_name_is_not_asked_for(name: str) -> None:
    lookup, asked, _ = a_lookup(lambda: NOT_FOUND)
    assert lookup(name) is None
    assert asked.paths == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(Answer(500, status_document(500)), "HTTP 500", id="broken"),
        pytest.param(Answer(403, status_document(403)), "ClusterRole", id="forbidden"),
        pytest.param(Answer(401, status_document(401)), "HTTP 401", id="unauthorized"),
        pytest.param(Answer(404, {"error": "a proxy's"}), "HTTP 404", id="somebody else's 404"),
        pytest.param(Answer(200, {"kind": "Node"}), "expected a RuntimeClass", id="another kind"),
        pytest.param(Answer(200, []), "expected", id="no object"),
    ],
)
def test_whatever_is_no_answer_is_undecided(answer: Answer, said: str) -> None:
    lookup, asked, _ = a_lookup(lambda: answer)
    with pytest.raises(UndecidedError, match=f"^runtimeclass-extender: .*{said}"):
        lookup("kata")
    assert asked.rejections == (answer.status == 401)


def test_no_connection_is_undecided() -> None:
    def fail() -> Answer:
        raise UnreachableError("connection refused")

    lookup, _, _ = a_lookup(fail)
    with pytest.raises(UndecidedError, match="connection refused"):
        lookup("kata")


def test_many_who_ask_for_one_name_share_one_question() -> None:
    asked_once, answers = threading.Event(), threading.Event()

    def wait() -> Answer:
        asked_once.set()
        answers.wait(5)
        return NOT_FOUND

    lookup, asked, _ = a_lookup(wait)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(lookup("nope"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert asked_once.wait(5)
    answers.set()
    for thread in threads:
        thread.join()
    assert found == [None] * 4
    assert len(asked.paths) == 1
