"""The reflector over silent and broken connections, without waiting."""

import json
import logging
from collections import deque

import pytest

from extender.cluster.api.connection import ConnectionFaultError, SilentError
from extender.cluster.api.list_watch import (
    INITIAL_EVENTS_SECONDS,
    SILENCE_SECONDS,
    Backoff,
    ListWatch,
    Reason,
)
from extender.cluster.api.reflector import Reflector
from extender.cluster.node_and_class_feeds import NodeFeed
from extender.cluster.snapshot_store import SnapshotStore
from extender.kubernetes.kinds import NODES
from tests.clocks import Clock
from tests.fakes.connections import Body, Connection, Counted

LIST = b'{"kind":"NodeList","metadata":{"resourceVersion":"10"},"items":[]}'


class Followed:
    """Runs a reflector on these answers, one after the other, and then stops it."""

    def __init__(
        self, clock: Clock, *answers: Body | Exception, watch_list: bool = False, rest: float = 0.0
    ) -> None:
        self._answers = deque(answers)
        self.pauses: list[float] = []
        self.connection, counted = Connection(self._next), Counted()
        self.reasons, self.events = counted.restarts, counted.events
        self._reflector = Reflector(
            NODES,
            [NodeFeed(SnapshotStore())],
            self.connection,
            ListWatch(Backoff(clock), watch_list=watch_list),
            counted,
            clock=clock,
            pause=lambda _, seconds: bool(self.pauses.append(seconds)),  # type: ignore[func-returns-value]
            rest=rest,
        )
        #: How readiness describes the reflector just before each request is answered.
        self.states: list[str] = []
        self._reflector.run()

    def _next(self) -> Body:
        self.states.append(self._reflector.contact.describe())
        if not self._answers:
            self._reflector.stop()
            raise SilentError("no more answers")
        answer = self._answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def asked(self) -> list[str]:
        """A word for each request."""
        words = []
        for query in self.connection.queries:
            kind = "watch" if "watch" in query else "list"
            version = query.get("resourceVersion")
            word = "stream" if "sendInitialEvents" in query else kind
            words.append(f"{word}@{version}" if version else word)
        return words


def a_list() -> Body:
    return Body(LIST)


def error(code: int, message: str) -> bytes:
    """An event of a watch."""
    status = {"kind": "Status", "code": code, "message": message}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


def added(name: str, version: int) -> bytes:
    metadata = f'{{"name":"{name}","resourceVersion":"{version}"}}'
    return f'{{"type":"ADDED","object":{{"metadata":{metadata}}}}}\n'.encode()


BOOKMARK = (
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"200",'
    b'"annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
)


@pytest.mark.parametrize(
    ("answers", "asked", "reason"),
    [
        pytest.param(
            [SilentError("no head")], ["watch@10", "watch@10"], Reason.SILENT, id="no answer"
        ),
        pytest.param(
            [Body(RuntimeError("a bug"))],
            ["watch@10", "list"],
            Reason.EXCEPTION,
            id="a fault of ours, in spite of which the thread goes on",
        ),
    ],
)
def test_after_the_end_of_a_watch_it_is_asked_again(
    answers: list[Body | Exception], asked: list[str], reason: Reason
) -> None:
    found = Followed(Clock(), a_list(), *answers)
    assert (found.asked, found.reasons) == (["list", *asked], [reason])


@pytest.mark.parametrize("watch_list", [False, True])
@pytest.mark.parametrize("rest", [0.0, 0.125])
def test_a_watch_rests_once_it_has_read_what_there_was(rest: float, watch_list: bool) -> None:
    start = [Body(added("a", 11), added("b", 12), BOOKMARK, added("c", 201))]
    if not watch_list:
        start = [a_list(), Body(added("a", 11), added("b", 12))]
    found = Followed(Clock(), *start, watch_list=watch_list, rest=rest)
    assert found.pauses.count(0.125) == (1 if rest else 0)


def test_a_silent_watch_is_begun_again_where_it_was() -> None:
    clock = Clock()
    watch = Body(added("a", 12), SilentError("90 s"), clock=clock, seconds=2)
    found = Followed(clock, a_list(), watch)
    assert (found.asked, found.reasons) == (["list", "watch@10", "watch@12"], [Reason.SILENT])


@pytest.mark.parametrize(
    ("pieces", "seconds", "asked", "reason"),
    [
        pytest.param(
            [added("a", 1), SilentError("30 s")], 0, "list", Reason.NO_INITIAL_EVENTS_END, id="end"
        ),
        pytest.param(
            [added("a", version).replace(b"ADDED", b"MODIFIED") for version in range(1, 100)],
            INITIAL_EVENTS_SECONDS / 10,
            "list",
            Reason.NO_INITIAL_EVENTS_END,
            id="nothing but heartbeats of known nodes",
        ),
        pytest.param(
            [*(added(f"n{version}", version) for version in range(1, 100)), BOOKMARK],
            INITIAL_EVENTS_SECONDS / 2,
            "watch@200",
            Reason.CLOSED,
            id="new nodes, however slowly",
        ),
    ],
)
def test_initial_events_are_waited_for_while_they_bring_new_nodes(
    pieces: list[bytes | Exception], seconds: float, asked: str, reason: Reason
) -> None:
    clock = Clock()
    found = Followed(clock, Body(*pieces, clock=clock, seconds=seconds), watch_list=True)
    assert (found.asked, found.reasons) == (["stream", asked], [reason])


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if each.levelno >= logging.WARNING]


def test_a_watch_that_has_nothing_to_say_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    """However long a watch is quiet, nothing is logged and readiness mentions nothing."""
    clock = Clock()
    quiet = [Body(SilentError("90 s"), clock=clock, seconds=SILENCE_SECONDS) for _ in range(10)]
    found = Followed(clock, a_list(), *quiet)
    assert found.reasons == [Reason.SILENT] * 10
    assert found.asked == ["list", *["watch@10"] * 11]
    assert warnings(caplog) == []
    assert found.states == [""] * len(found.asked)


def test_a_server_that_has_no_watch_lists_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    """kube-apiserver sends an ERROR event if etcd can't report its progress."""
    found = Followed(Clock(), Body(error(500, "disabled")), a_list(), watch_list=True)
    assert found.asked[:3] == ["stream", "list", "watch@10"]
    assert not [each for each in warnings(caplog) if "watch-list" in each]


@pytest.mark.parametrize(
    ("pieces", "seconds", "warned", "trouble"),
    [
        pytest.param([], 60.0, False, "", id="the server's own end"),
        pytest.param([], 0.5, True, "closed", id="an end at once"),
        pytest.param(
            [ConnectionFaultError("reset by peer")], 600.0, True, "reset by peer", id="a reset"
        ),
        pytest.param([b"nonsense\n"], 600.0, True, "not an event", id="garbage"),
        pytest.param([error(410, "too old")], 600.0, False, "too old", id="an expired version"),
        pytest.param([error(403, "you may not")], 600.0, True, "you may not", id="a refusal"),
    ],
)
def test_which_endings_of_a_watch_are_trouble(
    pieces: list[bytes | Exception],
    seconds: float,
    warned: bool,
    trouble: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Readiness reports trouble until the server answers again, and the log has a line."""
    caplog.set_level(logging.INFO)
    clock = Clock()
    found = Followed(clock, a_list(), Body(*pieces, clock=clock, seconds=seconds))
    assert warnings(caplog) == ["watch of nodes ended, trying again"] * warned
    assert ("ended, trying again" in caplog.text) is bool(trouble)
    assert trouble in found.states[2]
    assert bool(found.states[2]) is bool(trouble)


@pytest.mark.parametrize(
    ("type", "counted"),
    [
        *((each, each) for each in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")),
        *((each, "unknown") for each in ("RENAMED", "x" * 1000)),
    ],
)
def test_events_are_counted_by_the_types_that_there_are(type: str, counted: str) -> None:
    """The type is a metric label; a server must not create any number of label values."""
    event = added("a", 12).replace(b"ADDED", type.encode())
    assert Followed(Clock(), a_list(), Body(event)).events == [counted]


def test_events_are_contact_however_long_a_watch_lives() -> None:
    clock = Clock()
    events = [added(f"n{version}", version) for version in range(11, 21)]
    watch = Body(*events, clock=clock, seconds=SILENCE_SECONDS / 2)
    found = Followed(clock, a_list(), watch)
    assert clock.now > 1000 + 4 * SILENCE_SECONDS
    assert found.states == ["", "", ""]


@pytest.mark.parametrize("watch_list", [False, True])
def test_every_answer_is_closed_however_it_ends(watch_list: bool) -> None:
    """Each answer is a connection, and the API server limits connections."""
    bodies = [
        a_list(),
        Body(added("a", 12), SilentError("90 s")),
        Body(ConnectionFaultError("reset by peer")),
        Body(b"nonsense\n"),
        Body(b"no list"),
        a_list(),
        Body(RuntimeError("a bug")),
        Body(),
    ]
    Followed(Clock(), *bodies, watch_list=watch_list)
    assert all(each.closed for each in bodies)


def test_how_long_a_list_took_is_counted_from_its_own_beginning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A list after an hour of watching did not take an hour."""
    caplog.set_level(logging.INFO)
    clock = Clock()
    first, second = (Body(LIST, clock=clock, seconds=seconds) for seconds in (2, 3))
    Followed(clock, first, Body(error(410, "too old"), clock=clock, seconds=3600), second)
    synced = [each for each in caplog.records if each.message == "synced"]
    assert [vars(each)["seconds"] for each in synced] == [4, 6]  # each has two reads: data, end
