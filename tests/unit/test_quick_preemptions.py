"""Which preemptions are answered on the event loop: those that are found, and short ones."""

import time

import pytest

from extender import names
from extender.cluster.snapshot_store import SnapshotStore
from extender.http.app import create_app
from extender.http.exchange import Answer, Application, Request
from extender.http.health import Health
from extender.http.routing import Threads
from extender.http.service import Service
from extender.metrics import Metrics
from extender.refused_pods import RefusedPods
from extender.wire.filter_bodies import QUICK_NAMES_BYTES
from tests.property.test_victim_entries import HEAD, body_of, compiled_only, entry_of, odd_entries


def long_body(*entries: bytes) -> bytes:
    others = [entry_of(f"m{number:04}", ["u" * 36] * 2, 0) for number in range(1_000)]
    return body_of([*others, *entries])


@pytest.fixture(scope="module")
def app() -> Application:
    store = SnapshotStore()
    store.replace_all([], [])
    refused = RefusedPods(time.monotonic)
    service = Service(store, Metrics(), Health(lambda: store.snapshot), refused)
    return create_app(service, Threads.of(1))


def is_answered_at_once(app: Application, body: bytes) -> bool:
    answer = app(Request(b"POST", b"/preempt", [], [body], len(body)))
    if isinstance(answer, Answer):
        return True
    answer.close()  # type: ignore[attr-defined]  # a coroutine that was never begun
    return False


@compiled_only
def test_a_thousand_nodes_are_answered_on_the_event_loop(app: Application) -> None:
    assert is_answered_at_once(app, long_body())
    assert is_answered_at_once(app, long_body(entry_of("n", ["u"], 0)))


@compiled_only
@pytest.mark.parametrize(
    "body",
    [
        *(
            pytest.param(long_body(entry), id=what.replace(" ", "-"))
            for what, entry in odd_entries()
        ),
        pytest.param(long_body()[:-1], id="no-end"),
        pytest.param(long_body()[:-1] + b" }", id="a-blank-before-the-end"),
        pytest.param(b" " * 40_000 + long_body(), id="a-long-beginning"),
        pytest.param(long_body().replace(b"{}", b'{},"pod":{}', 1), id="two-pods"),
        pytest.param(long_body().replace(b"{}", b'{},"x":"\xc3\xa9"', 1), id="more-than-a-pod"),
        pytest.param(long_body().replace(HEAD, HEAD[:-1] + b" {"), id="a-blank-before-the-victims"),
        pytest.param(body_of([entry_of("n", ["u" * QUICK_NAMES_BYTES], 0)]), id="too-long"),
    ],
)
def test_what_may_have_to_be_decoded_is_left_to_a_thread(app: Application, body: bytes) -> None:
    assert not is_answered_at_once(app, body)


def test_without_the_compiled_part_only_short_ones_are_quick(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "_engine", names.PythonEngine())
    assert not is_answered_at_once(app, long_body())
    assert is_answered_at_once(app, body_of([entry_of("n", ["u"], 0)]))
