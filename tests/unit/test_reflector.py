"""The reflector over a connection that is silent, or worse, without waiting for it."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping

import pytest

from extender.cluster.api_connection import ConnectionFaultError, SilentError, UnreachableError
from extender.cluster.kinds import NODES
from extender.cluster.list_watch import (
    INITIAL_EVENTS_SECONDS,
    SILENCE_SECONDS,
    Backoff,
    ListWatch,
    Reason,
)
from extender.cluster.node_and_class_feeds import NodeFeed
from extender.cluster.reflector import Reflector
from extender.cluster.snapshot_store import SnapshotStore
from tests.clocks import Clock

LIST = b'{"kind":"NodeList","metadata":{"resourceVersion":"10"},"items":[]}'


class Body:
    """An answer in pieces: bytes, or an exception to raise; empty is the end."""

    def __init__(self, clock: Clock, *pieces: bytes | Exception, seconds: float = 0.0) -> None:
        self.status = 200
        self.closed = 0
        self._clock = clock
        self._pieces = deque(pieces)
        self._seconds = seconds
        self.retry_after: float | None = None

    def read_some(self, silence: float) -> bytes:
        self._clock.now += self._seconds
        piece = self._pieces.popleft() if self._pieces else b""
        if isinstance(piece, Exception):
            raise piece
        return piece

    def read_all(self, silence: float, limit: int = 0) -> bytes:
        return b"".join(iter(lambda: self.read_some(silence), b""))

    def is_idle(self) -> bool:
        return True

    def close(self) -> None:
        self.closed += 1


class Connection:
    """Gives one answer after the other, then stops the reflector."""

    def __init__(self, *answers: Body | Exception) -> None:
        self._answers = deque(answers)
        self.queries: list[Mapping[str, str]] = []
        self.credentials_read = 0
        self.ended = threading.Event()
        self.stop: Callable[[], None] = self.ended.set
        self.before: Callable[[], object] = bool

    def get(self, path: str, query: Mapping[str, str], *, silence: float) -> Body:
        self.before()
        self.queries.append(query)
        if not self._answers:
            self.ended.set()
            self.stop()
            raise SilentError("no more answers")
        answer = self._answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def rejected(self) -> None:
        self.credentials_read += 1

    def interrupt(self) -> None:
        pass


class Reasons(list[Reason]):
    def event(self, kind: str, type: str) -> None:
        pass

    def restart(self, kind: str, reason: Reason) -> None:
        self.append(reason)


def follow(
    clock: Clock,
    *answers: Body | Exception,
    watch_list: bool,
    seen: Callable[[str], object] = bool,
) -> tuple[list[str], Reasons]:
    """What was asked, a word a request, and why each request ended.

    seen is told how readiness describes the reflector just before each request.
    """
    connection, reasons = Connection(*answers), Reasons()
    reflector = Reflector(
        NODES,
        NodeFeed(SnapshotStore()),
        connection,
        ListWatch(Backoff(clock), watch_list=watch_list),
        reasons,
        clock=clock,
        pause=lambda event, seconds: False,
    )
    connection.stop = reflector.stop
    connection.before = lambda: seen(reflector.describe())
    reflector.run()
    words = []
    for query in connection.queries:
        kind = "stream" if "sendInitialEvents" in query else "watch" if "watch" in query else "list"
        version = query.get("resourceVersion")
        words.append(f"{kind}@{version}" if version else kind)
    return words, reasons


def added(name: str, version: int) -> bytes:
    metadata = f'{{"name":"{name}","resourceVersion":"{version}"}}'
    return f'{{"type":"ADDED","object":{{"metadata":{metadata}}}}}\n'.encode()


def test_a_silent_watch_is_begun_again_where_it_was() -> None:
    clock = Clock()
    watch = Body(clock, added("a", 12), SilentError("90 s"), seconds=2)
    asked, reasons = follow(clock, Body(clock, LIST), watch, watch_list=False)
    assert asked == ["list", "watch@10", "watch@12"]
    assert reasons == [Reason.SILENT]


def test_a_watch_that_is_not_even_answered_is_asked_for_again() -> None:
    clock = Clock()
    silent = SilentError("no head")
    asked, reasons = follow(clock, Body(clock, LIST), silent, watch_list=False)
    assert asked == ["list", "watch@10", "watch@10"]
    assert reasons == [Reason.SILENT]


def test_initial_events_that_stop_fall_back_to_a_list() -> None:
    clock = Clock()
    stream = Body(clock, added("a", 1), SilentError("30 s"))
    asked, reasons = follow(clock, stream, watch_list=True)
    assert asked == ["stream", "list"]
    assert reasons == [Reason.NO_INITIAL_EVENTS_END]


def test_heartbeats_of_known_nodes_do_not_keep_initial_events_going() -> None:
    clock = Clock()
    beats = [added("a", version) for version in range(1, 100)]
    stream = Body(clock, *beats, seconds=INITIAL_EVENTS_SECONDS / 10)
    asked, reasons = follow(clock, stream, watch_list=True)
    assert asked == ["stream", "list"]
    assert reasons == [Reason.NO_INITIAL_EVENTS_END]


def test_new_nodes_keep_initial_events_going() -> None:
    clock = Clock()
    bookmark = (
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"200",'
        b'"annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
    )
    nodes = [added(f"n{version}", version) for version in range(1, 100)]
    stream = Body(clock, *nodes, bookmark, seconds=INITIAL_EVENTS_SECONDS / 2)
    asked, reasons = follow(clock, stream, watch_list=True)
    assert asked == ["stream", "watch@200"]
    assert reasons == [Reason.CLOSED]


def test_whatever_goes_wrong_the_thread_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    asked, reasons = follow(clock, RuntimeError("a bug"), Body(clock, LIST), watch_list=False)
    assert asked == ["list", "list", "watch@10"]
    assert reasons == [Reason.EXCEPTION]
    assert "a bug" in caplog.text


def test_an_event_without_end_is_garbage() -> None:
    clock = Clock()
    pieces = [b'{"type":"ADDED","object":{"x":"' + b"x" * 2**20] + [b"x" * 2**22] * 9
    asked, reasons = follow(clock, Body(clock, LIST), Body(clock, *pieces), watch_list=False)
    assert asked == ["list", "watch@10", "list"]
    assert reasons == [Reason.GARBAGE]


def test_a_watch_that_has_nothing_to_say_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is logged, and readiness mentions nothing, however long nothing happens."""
    clock = Clock()
    quiet = [Body(clock, SilentError("90 s"), seconds=SILENCE_SECONDS) for _ in range(10)]
    states: list[str] = []
    asked, reasons = follow(
        clock, Body(clock, LIST), *quiet, watch_list=False, seen=lambda each: states.append(each)
    )
    assert reasons == [Reason.SILENT] * 10
    assert asked == ["list", *["watch@10"] * 11]
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert states == [""] * len(asked)


def test_a_server_that_has_no_watch_lists_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    """kube-apiserver says so with an ERROR event where etcd can't tell of its progress."""
    clock = Clock()
    event = b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"disabled"}}\n'
    asked, _ = follow(clock, Body(clock, event), Body(clock, LIST), watch_list=True)
    assert asked[:3] == ["stream", "list", "watch@10"]
    texts = [each.message for each in caplog.records if each.levelno >= logging.WARNING]
    assert not [each for each in texts if "watch-list" in each]


def test_a_watch_that_is_not_answered_is_one(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    follow(clock, Body(clock, LIST), SilentError("no head"), watch_list=False)
    assert [each.levelno for each in caplog.records if "watch of nodes" in each.message] == [
        logging.WARNING
    ]


@pytest.mark.parametrize(
    ("pieces", "seconds", "level", "trouble"),
    [
        pytest.param((), 60.0, None, "", id="the server's own end"),
        pytest.param((), 0.5, logging.WARNING, "closed", id="an end at once"),
        pytest.param(
            (ConnectionFaultError("reset by peer"),),
            600.0,
            logging.WARNING,
            "reset by peer",
            id="a reset",
        ),
        pytest.param((b"nonsense\n",), 600.0, logging.WARNING, "not an event", id="garbage"),
        pytest.param(
            (b'{"type":"ERROR","object":{"code":410,"message":"too old"}}\n',),
            600.0,
            logging.INFO,
            "too old",
            id="an expired version",
        ),
        pytest.param(
            (b'{"type":"ERROR","object":{"code":403,"message":"you may not"}}\n',),
            600.0,
            logging.ERROR,
            "you may not",
            id="a right that is gone",
        ),
    ],
)
def test_which_endings_of_a_watch_are_trouble(
    pieces: tuple[bytes | Exception, ...],
    seconds: float,
    level: int | None,
    trouble: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of trouble readiness tells until the server is heard again, and the log has a line."""
    clock = Clock()
    states: list[str] = []
    follow(
        clock,
        Body(clock, LIST),
        Body(clock, *pieces, seconds=seconds),
        watch_list=False,
        seen=lambda each: states.append(each),
    )
    said = [each.levelno for each in caplog.records if each.levelno > logging.INFO]
    assert said == ([level] if level and level > logging.INFO else [])
    assert trouble in states[2]
    assert bool(states[2]) is bool(trouble)


def test_events_are_contact_however_long_a_watch_lives() -> None:
    clock = Clock()
    states: list[str] = []
    events = [added(f"n{version}", version) for version in range(11, 21)]
    watch = Body(clock, *events, seconds=SILENCE_SECONDS / 2)
    follow(clock, Body(clock, LIST), watch, watch_list=False, seen=lambda each: states.append(each))
    assert clock.now > 1000 + 4 * SILENCE_SECONDS
    assert states == ["", "", ""]


@pytest.mark.parametrize("watch_list", [False, True])
def test_every_answer_is_closed_however_it_ends(watch_list: bool) -> None:
    """Each is a connection, and the API server has a limit of them."""
    clock = Clock()
    bodies = [
        Body(clock, LIST),
        Body(clock, added("a", 12), SilentError("90 s")),
        Body(clock, ConnectionFaultError("reset by peer")),
        Body(clock, b"nonsense\n"),
        Body(clock, b"no list"),
        Body(clock, LIST),
        Body(clock, RuntimeError("a bug")),
        Body(clock),
    ]
    follow(clock, *bodies, watch_list=watch_list)
    assert [each.closed for each in bodies] == [1] * len(bodies)


def test_an_expired_version_is_logged_as_news_and_the_list_after_it_as_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    expired = b'{"type":"ERROR","object":{"code":410,"message":"too old"}}\n'
    follow(clock, Body(clock, LIST), Body(clock, expired), Body(clock, LIST), watch_list=False)
    levels = [each.levelno for each in caplog.records if "ended, trying again" in each.message]
    assert levels == [logging.INFO]


def test_a_fault_that_is_tried_again_at_once_is_a_warning_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Only a watch-list that gives way to a list is none."""
    clock = Clock()
    reset = Body(clock, ConnectionFaultError("reset by peer"), seconds=600)
    follow(clock, Body(clock, LIST), reset, watch_list=False)
    assert "watch of nodes ended, trying again" in caplog.text


def test_how_long_a_list_took_is_counted_from_its_own_beginning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A list after an hour of watching did not take an hour."""
    caplog.set_level(logging.INFO)
    clock = Clock()
    expired = b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}\n'
    watch = Body(clock, expired, seconds=3600)
    follow(
        clock,
        Body(clock, LIST, seconds=2),
        watch,
        Body(clock, LIST, seconds=3),
        watch_list=False,
    )
    synced = [each for each in caplog.records if each.message == "synced"]
    assert [vars(each)["seconds"] for each in synced] == [4, 6]  # each has an end to read, too


def test_a_401_has_the_credentials_read_again_and_no_other_refusal_does() -> None:
    clock = Clock()
    refused = [Body(clock, b'{"message":"no"}') for _ in range(3)]
    for body, status in zip(refused, (401, 403, 401), strict=True):
        body.status = status
    connection = Connection(*refused)
    reflector = reflector_of(connection, clock, [])
    reflector.run()
    assert len(connection.queries) == 4
    assert connection.credentials_read == 2


def test_what_the_server_decides_is_waited_out_and_what_keeps_it_away_may_end_sooner() -> None:
    """Another kind's reflector may find the server there again, which ends no Retry-After."""
    clock = Clock()
    waits: list[threading.Event] = []
    throttled = Body(clock, b'{"message":"later"}')
    throttled.status, throttled.retry_after = 429, 9.0
    connection = Connection(throttled, UnreachableError("connection refused"))
    reflector = reflector_of(connection, clock, waits)
    reflector.run()
    for_time, for_server = waits
    for_time.clear()
    for_server.clear()
    reflector.server_answers()
    assert (for_time.is_set(), for_server.is_set()) == (False, True)


def reflector_of(connection: Connection, clock: Clock, waits: list[threading.Event]) -> Reflector:
    """One that notes what it would have waited for."""

    def pause(event: threading.Event, seconds: float) -> bool:
        waits.append(event)
        return False

    reflector = Reflector(
        NODES,
        NodeFeed(SnapshotStore()),
        connection,
        ListWatch(Backoff(clock), watch_list=False),
        Reasons(),
        clock=clock,
        pause=pause,
    )
    connection.stop = reflector.stop
    return reflector
