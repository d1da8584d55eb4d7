"""What the client-go Reflector makes of a server's answers, and where this one differs safely."""

from collections import deque
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fakes.apiserver import RUNTIME_CLASSES, FakeApiServer, Request
from tests.fakes.following import Following, NotedClasses, config_for, following
from tests.processes import until
from tests.vectors_file import vectors

CASES: Final = vectors("watch", "cases")

#: Cases in which the steps differ from client-go's, what the reflector does then, and why that is
#: safer. Steps: L a list (of a further page: C), W a watch, S a watch-list.
DEVIATIONS: Final[dict[str, tuple[str, dict[str, str], str]]] = {
    "wat-004": (
        "LWWL",
        {"a": "5"},
        "A watch that ends early is begun again where it was: nothing can be missed, while lists "
        "of 65,000 nodes in a row can bring an API server down. (The script's third answer is a "
        "list, no event, and so garbage to a watch: hence the list after it.)",
    )
}

#: The parameters that differ from client-go's in all lists: no resourceVersion and always a limit.
#: resourceVersion=0 makes kube-apiserver ignore the limit and answer from a cache of any age.
LIST_QUERY: Final = {"limit": "500"}


def step(request: Request) -> str:
    if not request.is_watch:
        return "C" if "continue" in request.query else "L"
    return "S" if "sendInitialEvents" in request.query else "W"


def expected_steps(requests: list[dict[str, str]]) -> str:
    return "".join(step(Request("GET", "", query, {}, b"")) for query in requests)


def held(run: Following) -> dict[str, str]:
    """The classes in the snapshot with their resourceVersions."""
    assert isinstance(run.feed, NotedClasses)
    handed = run.feed.handed
    names = run.store.snapshot.runtime_classes
    return {name: str(handed[name.encode()].revision) for name in names}


@pytest.mark.parametrize("case", CASES)
def test_the_store_ends_as_client_go_s(case: dict[str, Any], tmp_path: Path) -> None:
    expect = case["expect"]
    steps, store = expected_steps(expect["requests"]), expect["store"]
    if case["id"] in DEVIATIONS:
        steps, store, _ = DEVIATIONS[case["id"]]
    with FakeApiServer() as server:
        server.scripts[RUNTIME_CLASSES] = deque(case["script"])
        with following(config_for(server, tmp_path), watch_list=case["mode"] == "watchlist") as run:
            server.wait_for(lambda: len(server.requests) >= len(steps))
            until(lambda: held(run) == store)
            if case["id"] not in DEVIATIONS:
                until(
                    lambda: run.list_watch.resource_version == expect["last_sync_resource_version"]
                )
            assert "".join(map(step, server.requests)) == steps
            until(
                lambda: (
                    run.store.snapshot.runtime_classes_synced
                    == bool(run.list_watch.resource_version)
                )
            )


@pytest.mark.parametrize("case", [case for case in CASES if case.values[0]["id"] not in DEVIATIONS])
def test_the_requests_are_client_go_s_but_for_their_lists(
    case: dict[str, Any], tmp_path: Path
) -> None:
    with FakeApiServer() as server:
        server.scripts[RUNTIME_CLASSES] = deque(case["script"])
        expected = case["expect"]["requests"]
        with following(config_for(server, tmp_path), watch_list=case["mode"] == "watchlist"):
            server.wait_for(lambda: len(server.requests) >= len(expected))
        for request, wanted in zip(server.requests, expected, strict=True):
            query = dict(request.query)
            if request.is_watch:
                assert 300 <= int(query.pop("timeoutSeconds")) <= 600
                wanted = {k: v for k, v in wanted.items() if k not in ("timeout", "timeoutSeconds")}
                assert query == wanted
            else:
                token = {"continue": wanted["continue"]} if "continue" in wanted else {}
                assert query == LIST_QUERY | token
