"""Request bodies: what kube-scheduler v1.36.2 sends, and what Go would read in others."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.model import names
from extender.model.errors import BadRequestError
from extender.model.names import NameRun
from extender.verbs import bodies
from extender.verbs import filter as wire
from extender.verbs.bodies import NodeItems, SeenNodes
from extender.verbs.filter import Args, decode_args, names_of
from extender.verbs.preempt import decode_preemption_args, encode_kept
from tests.vectors_file import recorded, vectors

Case = dict[str, Any]


def _names(args: Args) -> list[str]:
    run = args.nodes if isinstance(args.nodes, NameRun) else names_of(args.nodes)
    return [name.decode() for name in run.names]


@pytest.mark.parametrize(
    "case",
    [case for case in vectors("extender", "wire_requests") if case.values[0]["expect"].get("body")],
)
def test_what_kube_scheduler_sends_is_understood(case: Case) -> None:
    args = decode_args(case["expect"]["body"].encode())
    metadata, spec = case["pod"]["metadata"], case["pod"].get("spec", {})
    assert (args.pod.namespace, args.pod.name) == (metadata["namespace"], metadata["name"])
    assert args.pod.runtime_class_name == spec.get("runtimeClassName", "")
    wanted = [n if isinstance(n, str) else n["metadata"]["name"] for n in case["nodes"]]
    assert _names(args) == wanted
    assert isinstance(args.nodes, NameRun) is case["config"]["nodeCacheCapable"]


@pytest.mark.parametrize("case", vectors("extender", "request_decoding"))
def test_other_spellings_are_read_as_go_reads_them(case: Case) -> None:
    body = case["body"].encode()
    if case.get("refused"):
        with pytest.raises(BadRequestError):
            decode_args(body)
        return
    understood = case["understood"]
    if understood["node_names"] is None and understood["nodes"] is None:
        with pytest.raises(BadRequestError, match="both are null"):
            decode_args(body)
        return
    args = decode_args(body)
    assert f"{args.pod.namespace}/{args.pod.name}" == understood["pod"]
    assert args.pod.runtime_class_name == (understood["runtime_class"] or "")
    names, nodes = understood["node_names"], understood["nodes"]
    assert _names(args) == (names if names is not None else nodes)
    assert isinstance(args.nodes, NameRun) is (names is not None)


@pytest.mark.parametrize("mode", ["scheduler-names", "scheduler-nodes"])
def test_recorded_requests_take_the_short_way(mode: str) -> None:
    for parameters in recorded(mode, "filter"):
        (body,) = parameters.values
        short, long = wire.decode_usual(body), wire.decode_other(body)
        assert short is not None
        assert short.pod == long.pod
        assert isinstance(short.nodes, NameRun) is (mode == "scheduler-names")
        assert _read(short) == _read(long)


def _read(args: Args) -> object:
    if isinstance(args.nodes, NameRun):
        return args.nodes.count, args.nodes.joined
    assert isinstance(args.nodes, NodeItems)
    return list(map(bytes, args.nodes.raw)), list(args.nodes.nodes)


@pytest.mark.parametrize("body", recorded("scheduler-names", "preempt"))
def test_recorded_victims_are_answered_as_they_came(body: bytes) -> None:
    args = decode_preemption_args(body)
    sent = json.loads(body)["NodeNameToMetaVictims"]
    assert list(args.victims) == list(sent)
    answer = b"".join(encode_kept(args, None)[0])
    assert json.loads(answer) == {"NodeNameToMetaVictims": sent}
    # Without the first brace.
    assert answer[1:] in body


@pytest.mark.parametrize(
    "case", [case for case in vectors("extender", "preempt") if "request_body" in case.values[0]]
)
def test_victims_come_back_as_they_were(case: Case) -> None:
    kept, _ = encode_kept(decode_preemption_args(case["request_body"].encode()), None)
    answer = json.loads(b"".join(kept))["NodeNameToMetaVictims"]
    uids = {node: [pod["UID"] for pod in each["Pods"]] for node, each in answer.items()}
    assert uids == {node: each["uids"] for node, each in case["candidates"].items()}


@pytest.mark.parametrize("compiled", [True, False])
def test_a_quote_that_would_open_and_close_is_none(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(names, "IS_COMPILED", False)
    with pytest.raises(BadRequestError, match="not JSON"):
        decode_args(b'{"Pod":{},"Nodes":null,"NodeNames":["]}')


def _item(name: str, taint: str) -> bytes:
    spec = {"taints": [{"key": taint, "effect": "NoSchedule"}]}
    node = {"metadata": {"name": name, "annotations": {"a": "x" * 300}}, "spec": spec}
    return json.dumps(node, separators=(",", ":")).encode()


# Few names, so that they come again, the same, changed or damaged.
_SOUND = st.builds(_item, st.sampled_from(["n0", "n1", "n2", ""]), st.sampled_from(["s", "t"]))
_DAMAGED = st.builds(
    lambda item, place, noise, cut: item[:place] + noise + item[place + cut :],
    _SOUND,
    st.integers(0, 60),
    st.sampled_from([b"", b"}", b"{", b'"', b",", b"\xff", b'},{"metadata":{', b"null"]),
    st.integers(0, 2),
)


@given(st.lists(st.lists(st.one_of(_SOUND, _SOUND, _DAMAGED), max_size=5), max_size=6))
def test_the_nodes_seen_before_change_no_answer(requests: list[list[bytes]]) -> None:
    def read(body: bytes, seen: SeenNodes | None) -> object:
        try:
            args = decode_args(body, seen) if seen is not None else wire.decode_other(body)
        except BadRequestError:
            return "refused"
        return _read(args)

    seen = SeenNodes()
    for items in requests:
        joined = b",".join(items)
        body = b'{"Pod":{},"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null}' % joined
        assert read(body, seen) == read(body, None)


def test_a_node_that_came_before_is_not_read_again() -> None:
    seen, items = SeenNodes(), _item("n0", "s")
    body = b'{"Pod":{},"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null}' % items
    first, again = (decode_args(body, seen).nodes for _ in range(2))
    assert isinstance(first, NodeItems)
    assert isinstance(again, NodeItems)
    assert again.nodes[0] is first.nodes[0]


def test_the_memory_for_nodes_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither many Nodes nor one of which much more is made than its JSON fill the memory."""
    monkeypatch.setattr(bodies, "MAX_KNOWN_BYTES", 2**20)
    taints = b",".join(b'{"key":"%d"}' % each for each in range(5_000))
    seen = SeenNodes()
    tracemalloc.start()
    try:
        for number in range(40):
            long = b'{"metadata":{"name":"n%d","annotations":{"a":"%b"}}}' % (
                number,
                b"x" * 100_000,
            )
            rich = b'{"metadata":{"name":"m%d"},"spec":{"taints":[%b]}}' % (number, taints)
            for item in (long, rich):
                body = b'{"Pod":{},"Nodes":{"metadata":{},"items":[%b]},"NodeNames":null}' % item
                decode_args(body, seen)
        assert tracemalloc.get_traced_memory()[0] < 3 * 2**20
    finally:
        tracemalloc.stop()
