"""Laws of the memory for whole nodes: it changes nothing but the time, and has an end."""

import gc
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.wire import filter_bodies as wire
from extender.wire.bodies import BadRequestError
from extender.wire.filter_bodies import decode_args
from extender.wire.node_items import NodeItems, SeenNodes
from tests.vectors_file import recorded

LAW = settings(max_examples=200, deadline=None)

Read = tuple[list[bytes], list[object]] | str


def _item(name: str, labels: dict[str, str], taint: str) -> bytes:
    node: dict[str, Any] = {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {}}
    if taint:
        node["spec"]["taints"] = [{"key": taint, "effect": "NoSchedule"}]
    return json.dumps(node, separators=(",", ":"), ensure_ascii=False).encode()


# Few names, so that they come again, the same or changed; texts that look like what stands between.
texts = st.sampled_from(["", "a", "b", '},{"metadata":{"name":"n1"', "\\", "é", '"}}'])
sound = st.builds(
    _item,
    st.sampled_from(["n0", "n1", "n2", "n3", "a" * 300, ""]),
    st.dictionaries(st.sampled_from(["x", "y"]), texts, max_size=2),
    st.sampled_from(["", "t"]),
)
damaged = st.builds(
    lambda item, place, noise, cut: item[:place] + noise + item[place + cut :],
    sound,
    st.integers(0, 60),
    st.sampled_from([b"", b"}", b"{", b'"', b",", b"\xff", b'},{"metadata":{', b"null"]),
    st.integers(0, 2),
)
requests = st.lists(st.lists(st.one_of(sound, sound, sound, damaged), max_size=5), max_size=6)


def _body(items: list[bytes]) -> bytes:
    return b'{"Pod":{},"Nodes":{"metadata":{},"items":[%s]},"NodeNames":null}' % b",".join(items)


def _long_way(body: bytes) -> Read:
    try:
        args = wire.decode_any(body)
    except BadRequestError:
        return "refused"
    assert isinstance(args.nodes, NodeItems)
    return list(map(bytes, args.nodes.raw)), list(args.nodes.nodes)


def _with(seen: SeenNodes, body: bytes) -> Read:
    try:
        args = decode_args(body, seen)
    except BadRequestError:
        return "refused"
    assert isinstance(args.nodes, NodeItems)
    return list(map(bytes, args.nodes.raw)), list(args.nodes.nodes)


@LAW
@given(requests, st.sampled_from([0, 1_500, 4_000, 2**26]))
def test_what_was_seen_before_changes_no_answer(asked: list[list[bytes]], limit: int) -> None:
    seen = SeenNodes(limit)
    for items in asked:
        body = _body(items)
        assert _with(seen, body) == _long_way(body)
        assert seen.size <= limit


@pytest.mark.parametrize("damage", [b'"x":1,', b"]", b"}", b"\\", b'"'])
@pytest.mark.parametrize("body", recorded("scheduler-nodes", "filter"))
def test_a_damaged_item_does_not_pass_for_the_one_seen_before(body: bytes, damage: bytes) -> None:
    seen = SeenNodes()
    assert _with(seen, body) == _long_way(body)
    for place in range(0, len(body), 997):
        broken = body[:place] + damage + body[place:]
        assert _with(seen, broken) == _long_way(broken)


@pytest.mark.parametrize("body", recorded("scheduler-nodes", "filter"))
def test_the_same_item_is_not_read_again(body: bytes) -> None:
    seen = SeenNodes()
    first, second = decode_args(body, seen).nodes, decode_args(body, seen).nodes
    assert isinstance(first, NodeItems)
    assert isinstance(second, NodeItems)
    assert all(one is two for one, two in zip(first.nodes, second.nodes, strict=True))
    assert len(seen) == first.count


def test_without_room_what_is_still_asked_about_stays() -> None:
    """Room for two: of three in turn the two last ones are known, and a crowd is not kept."""
    items = [_item(f"n{number}", {}, "") for number in range(9)]
    seen = SeenNodes(limit=2 * (len(items[0]) + 1024))
    for items_of_request in ([items[0]], [items[1]], [items[2]], [items[1]]):
        decode_args(_body(items_of_request), seen)
    assert len(seen) == 2
    known = decode_args(_body([items[1]]), seen).nodes
    assert isinstance(known, NodeItems)
    again = decode_args(_body([items[1]]), seen).nodes
    assert isinstance(again, NodeItems)
    assert known.nodes[0] is again.nodes[0]
    decode_args(_body(items), seen)
    assert len(seen) == 2


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(b'"spec":{"taints":[%s]}' % b",".join([b"null"] * 50_000), id="taints"),
        pytest.param(
            b'"labels":{%s}' % b",".join(b'"%d":""' % n for n in range(20_000)), id="labels"
        ),
    ],
)
def test_what_is_made_of_an_item_counts(part: bytes) -> None:
    """Of few bytes much can be made; what is kept is bounded by what it takes."""
    inner = part if part.startswith(b'"labels"') else b'"x":1'
    seen, taken = SeenNodes(limit=2**20), 0
    tracemalloc.start()
    try:
        for number in range(8):
            item = b'{"metadata":{"name":"n%d",%s},%s}' % (number, inner, part)
            decode_args(_body([item]), seen)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 4 * 2**20


def test_one_node_that_changes_leaves_nothing_behind() -> None:
    """The taints of each state are other ones: they carry a time."""
    seen = SeenNodes()
    tracemalloc.start()
    try:
        for number in range(300):
            taint = f"t{number}" * 10_000
            decode_args(_body([_item("n1", {}, taint)]), seen)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 2 * 2**20
