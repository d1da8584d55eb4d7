"""Which requests about names are answered on the event loop: those that take some milliseconds."""

import asyncio
import time
from collections.abc import Awaitable

import pytest

from extender import names
from extender.cluster.snapshot_store import SnapshotStore
from extender.http.app import create_app
from extender.http.exchange import Answer, Application, Request
from extender.http.health import Health
from extender.http.routing import Threads
from extender.http.service import Service
from extender.metrics import Metrics
from extender.objects import Node, RuntimeClass, Taint, Toleration
from extender.refused_pods import RefusedPods
from extender.snapshot import FEW_SHAPES
from extender.wire.filter_bodies import QUICK_NAMES, QUICK_NAMES_BYTES

compiled_only = pytest.mark.skipif(not names.IS_COMPILED, reason="the compiled part was not built")

#: A class that there is not; the reason has its name.
LONG_CLASS = "c" * 250


def app_of(store: SnapshotStore) -> Application:
    refused = RefusedPods(time.monotonic)
    service = Service(store, Metrics(), Health(lambda: store.snapshot), refused)
    return create_app(service, Threads.of(1))


@pytest.fixture
def app() -> Application:
    store = SnapshotStore()
    store.replace_all([], [])
    return app_of(store)


def names_body(count: int, size: int, runtime_class: str = "") -> bytes:
    spec = b'{"runtimeClassName":"%b"}' % runtime_class.encode() if runtime_class else b"{}"
    listed = b'","'.join(b"%0*d" % (size, number) for number in range(count))
    return b'{"Pod":{"spec":%b},"Nodes":null,"NodeNames":["%b"]}' % (spec, listed)


def is_answered_at_once(app: Application, verb: str, body: bytes) -> bool:
    answer: Answer | Awaitable[Answer] = app(
        Request(b"POST", b"/" + verb.encode(), [], [body], len(body))
    )
    if isinstance(answer, Answer):
        assert answer.status == 200
        return True
    answer.close()  # type: ignore[attr-defined]  # a coroutine that was never begun
    return False


@compiled_only
@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_all_nodes_of_a_large_cluster_are_answered_on_the_event_loop(
    app: Application, verb: str
) -> None:
    assert is_answered_at_once(app, verb, names_body(150_000, 36))


@compiled_only
@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(names_body(QUICK_NAMES + 1, 20), id="too-many"),
        pytest.param(names_body(2_000_000, 1), id="short-ones"),
        pytest.param(names_body(10_000, 1_000), id="too-long"),
        pytest.param(names_body(5_000, 36)[:-1] + b" }", id="not-as-Go-writes-it"),
        pytest.param(names_body(5_000, 36).replace(b"0001", b"\\u0031"), id="escapes"),
        pytest.param(b" " * 40_000 + names_body(5_000, 36), id="a-long-beginning"),
        pytest.param(names_body(5_000, 36) + b" " * QUICK_NAMES_BYTES, id="a-long-end"),
    ],
)
def test_what_may_take_longer_is_left_to_a_thread(app: Application, verb: str, body: bytes) -> None:
    assert not is_answered_at_once(app, verb, body)


@compiled_only
def test_an_answer_of_long_reasons_is_left_to_a_thread(app: Application) -> None:
    assert is_answered_at_once(app, "filter", names_body(1_000, 36, LONG_CLASS))
    assert not is_answered_at_once(app, "filter", names_body(190_000, 36, LONG_CLASS))


@compiled_only
@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@pytest.mark.parametrize(("shapes", "is_quick"), [(FEW_SHAPES, True), (FEW_SHAPES + 1, False)])
def test_where_hardly_a_node_is_like_another_what_is_new_is_worked_out_in_a_thread(
    verb: str, shapes: int, is_quick: bool
) -> None:
    """5,000 nodes of 5,000 taints and a pod of 500 tolerations took 67 ms on the event loop."""
    nodes = [
        Node(f"n{number}", taints=(Taint("of", str(number), "NoSchedule"),))
        for number in range(shapes)
    ]
    store = SnapshotStore()
    store.replace_all(nodes, [RuntimeClass("a", "runc", (), (Toleration("of", "Exists"),))])
    app, body = app_of(store), names_body(10, 5, "a")
    request = Request(b"POST", b"/" + verb.encode(), [], [body], len(body))

    async def ask_twice() -> tuple[bool, bool]:
        first = app(request)
        if not isinstance(first, Answer):
            assert (await first).status == 200
        return isinstance(first, Answer), isinstance(app(request), Answer)

    assert asyncio.run(ask_twice()) == (is_quick, True)
