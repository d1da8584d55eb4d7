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


def held(run: Following) -> dict[str, str]:
    """The classes in the snapshot with their resourceVersions."""
    assert isinstance(run.feed, NotedClasses)
    handed = run.feed.handed
    names = run.store.snapshot.runtime_classes
    return {name: str(handed[name.encode()].revision) for name in names}


@pytest.mark.parametrize("case", CASES)
def test_store_and_requests_are_client_go_s_but_for_the_lists(
    case: dict[str, Any], tmp_path: Path
) -> None:
    expect, differs = case["expect"], case["id"] in DEVIATIONS
    asked = [Request("GET", "", query, {}, b"") for query in expect["requests"]]
    steps, store = "".join(map(step, asked)), expect["store"]
    if differs:
        steps, store, _ = DEVIATIONS[case["id"]]
    with FakeApiServer() as server:
        server.scripts[RUNTIME_CLASSES] = deque(case["script"])
        with following(config_for(server, tmp_path), watch_list=case["mode"] == "watchlist") as run:
            server.wait_for(lambda: len(server.requests) >= len(steps))
            until(lambda: held(run) == store)
            last = expect["last_sync_resource_version"]
            until(lambda: differs or run.list_watch.resource_version == last)
            assert "".join(map(step, server.requests)) == steps
            until(
                lambda: (
                    run.store.snapshot.runtime_classes_synced
                    == bool(run.list_watch.resource_version)
                )
            )
    if differs:
        return
    for request, wanted in zip(server.requests, asked, strict=True):
        query = dict(request.query)
        if request.is_watch:
            assert 300 <= int(query.pop("timeoutSeconds")) <= 600
            timeouts = ("timeout", "timeoutSeconds")
            assert query == {k: v for k, v in wanted.query.items() if k not in timeouts}
        else:
            assert query == LIST_QUERY | {k: v for k, v in wanted.query.items() if k == "continue"}
