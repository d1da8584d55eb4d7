"""Laws of the reflector: after any events and faults the store equals the server."""

import contextlib
import json
import tempfile
import threading
from collections import deque
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.api.objects import INITIAL_EVENTS_END, EventStream
from extender.rules.snapshot import Snapshot
from tests.fakes.apiserver import NODES, FakeApiServer, Fault, node
from tests.fakes.following import config_for, following
from tests.processes import until
from tests.property import strategies as some

NAMES = ["a", "b", "c", "d", "e"]
SECONDS = 20.0

changes = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(NAMES), st.integers(0, 3)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just(0)),
    *(st.tuples(st.just(e), st.just(""), st.just(0)) for e in ("bookmark", "compact", "drop")),
)
ends = st.sampled_from(["close", "abort", "part", "expire", "throttle", "unknown", "garbage"])
faults = st.one_of(
    st.none(),
    st.builds(Fault, status=st.sampled_from([401, 403, 410, 422, 429, 500, 503])),
    st.just(Fault(cut=True)),
    st.builds(Fault, after=st.integers(0, 4), end=ends),
)


def apply(server: FakeApiServer, change: tuple[str, str, int]) -> None:
    verb, name, value = change
    if verb == "put":
        server.put(NODES, node(name, {"k": str(value)}))
    elif verb == "delete":
        with contextlib.suppress(KeyError):
            server.delete(NODES, name)
    elif verb == "bookmark":
        server.bookmark(NODES)
    elif verb == "compact":
        server.compact()
    else:
        server.drop_connections()


def labels_of(snapshot: Snapshot) -> dict[str, Any]:
    return {name.decode(): json.loads(snapshot.table.labels[name]) for name in snapshot.nodes}


@given(
    before=st.lists(changes, max_size=6),
    during=st.lists(st.tuples(changes, st.booleans()), max_size=12),
    plan=st.lists(faults, max_size=6),
    watch_list=st.booleans(),
    joined=st.booleans(),
)
def test_any_events_cut_anywhere_end_with_the_store_as_the_server(
    before: list[tuple[str, str, int]],
    during: list[tuple[tuple[str, str, int], bool]],
    plan: list[Fault | None],
    watch_list: bool,
    joined: bool,
) -> None:
    """For all histories and faults: once the faults are over, the store equals the server."""
    with FakeApiServer() as server, tempfile.TemporaryDirectory() as folder:
        server.joins_events = joined
        for change in before:
            apply(server, change)
        server.faults[NODES].extend(plan)
        config = config_for(server, Path(folder))
        with following(config, nodes=True, watch_list=watch_list) as run:
            news = threading.Event()
            run.store.subscribe(lambda swap: news.set())

            def catch_up() -> None:
                items = server.objects(NODES).items()
                expected = {name: item["metadata"]["labels"] for name, item in items}
                while labels_of(run.store.snapshot) != expected:
                    assert news.wait(SECONDS), (labels_of(run.store.snapshot), expected)
                    news.clear()

            for change, settled in during:
                apply(server, change)
                if settled:
                    catch_up()
            server.faults[NODES].clear()
            # One change more shows that the server is still being followed.
            server.put(NODES, node("last", {"k": "last"}))
            catch_up()


def in_chunks(data: bytes, starts: set[int]) -> tuple[bytes, list[int]]:
    """(the data in chunks that begin at these places, where in it each line ends)"""
    wire, ends = b"", []
    for start, end in pairwise(sorted({0, len(data), *starts})):
        wire += b"%x\r\n" % (end - start)
        ends += [len(wire) + at + 1 for at, byte in enumerate(data[start:end]) if byte == ord("\n")]
        wire += data[start:end] + b"\r\n"
    return wire, ends


@given(
    events=st.lists(
        st.tuples(st.sampled_from(NAMES), st.integers(0, 9), st.sampled_from([0, 5000, 30_000])),
        min_size=1,
        max_size=4,
    ),
    watch_list=st.booleans(),
    chunk_a_line=st.booleans(),
    chunks=st.lists(st.integers(1, 100_000), max_size=3),
    pieces=st.lists(st.integers(1, 100_000), max_size=6),
    last=st.integers(0, 3),
    more=st.integers(0, 8),
)
def test_what_is_complete_is_applied_whatever_follows_it_or_does_not(
    events: list[tuple[str, int, int]],
    watch_list: bool,
    chunk_a_line: bool,
    chunks: list[int],
    pieces: list[int],
    last: int,
    more: int,
) -> None:
    """For all events in any chunks, and these in any pieces: an event is applied once its line
    break has been sent, even if nothing follows but a few bytes."""
    lines = []
    if watch_list:
        metadata = {"resourceVersion": "9", "annotations": {INITIAL_EVENTS_END: "true"}}
        lines.append({"type": "BOOKMARK", "object": {"kind": "Node", "metadata": metadata}})
    for version, (name, value, size) in enumerate(events, 10):
        changed = node(name, {"k": str(value)}, padding="{}" * (size // 2))
        changed["metadata"]["resourceVersion"] = str(version)
        lines.append({"type": "MODIFIED", "object": changed})
    texts = [json.dumps(line).encode() + b"\n" for line in lines]
    data = b"".join(texts)
    starts = {start % len(data) for start in chunks}
    if chunk_a_line:
        starts |= set(accumulate(map(len, texts)))
    wire, ends = in_chunks(data, starts)
    complete = last % len(events) + 1
    end = min(ends[complete - 1 + watch_list] + more, len(wire))
    cuts = sorted({0, end, *(cut % end for cut in pieces)})
    sent = [{"wire": wire[start:stop]} for start, stop in pairwise(cuts)]
    with FakeApiServer() as server, tempfile.TemporaryDirectory() as folder:
        empty = {"kind": "NodeList", "metadata": {"resourceVersion": "9"}, "items": []}
        watch = {"watch": sent, "end": "hang"}
        server.scripts[NODES] = deque([watch] if watch_list else [{"json": empty}, watch])
        config = config_for(server, Path(folder))
        with following(config, nodes=True, watch_list=watch_list) as run:
            until(lambda: run.list_watch.resource_version == str(9 + complete))
            expected = {name: {"k": str(value)} for name, value, _ in events[:complete]}
            until(lambda: labels_of(run.store.snapshot) == expected)


documents = some.json_values(st.integers() | st.text(), st.text(), most=8)


@given(
    objects=st.lists(documents, max_size=5),
    breaks=st.lists(st.sampled_from([b"\n", b"", b"\r\n", b"\n\n"]), min_size=5, max_size=5),
    cuts=st.lists(st.integers(0, 2000), max_size=8),
)
def test_events_are_the_same_however_the_bytes_are_cut(
    objects: list[object], breaks: list[bytes], cuts: list[int]
) -> None:
    """feed(a) + feed(b) = feed(a + b), for all events, cuts and separators."""
    whole = b"".join(
        json.dumps({"type": "ADDED", "object": each}, ensure_ascii=False).encode() + separator
        for each, separator in zip(objects, breaks, strict=False)
    )
    stream = EventStream()
    places = sorted({0, len(whole), *(cut % (len(whole) + 1) for cut in cuts)})
    events = [event for start, end in pairwise(places) for event in stream.feed(whole[start:end])]
    assert [json.loads(bytes(event.object)) for event in events] == objects
    assert stream.is_between_events or not stream.feed(b"\n")
