"""Request bodies: what kube-scheduler v1.36.2 sends, and what Go would read in others."""

import json
from typing import Any

import pytest

from extender import names
from extender.names import NameRun
from extender.wire import filter_bodies as wire
from extender.wire.bodies import MAX_LAST_POD, BadRequestError, LastPod
from extender.wire.filter_bodies import Args, decode_args, names_of
from extender.wire.node_items import NodeItems, SeenNodes
from extender.wire.preempt_bodies import decode_preemption_args, encode_kept
from extender.wire.victim_entries import VictimEntries
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


@pytest.mark.parametrize("body", recorded("scheduler-names", "filter"))
def test_recorded_names_take_the_short_way(body: bytes) -> None:
    short, long = wire.decode_usual(body, SeenNodes(), LastPod()), wire.decode_any(body)
    assert short is not None
    assert isinstance(short.nodes, NameRun)
    assert isinstance(long.nodes, NameRun)
    assert (short.pod, short.nodes.count) == (long.pod, long.nodes.count)
    assert short.nodes.joined == long.nodes.joined


@pytest.mark.parametrize("body", recorded("scheduler-nodes", "filter"))
def test_recorded_nodes_take_the_short_way(body: bytes) -> None:
    short, long = wire.decode_usual(body, SeenNodes(), LastPod()), wire.decode_any(body)
    assert short is not None
    assert isinstance(short.nodes, NodeItems)
    assert isinstance(long.nodes, NodeItems)
    assert (short.pod, short.nodes.nodes) == (long.pod, long.nodes.nodes)
    assert list(map(bytes, short.nodes.raw)) == list(map(bytes, long.nodes.raw))


@pytest.mark.skipif(not names.IS_COMPILED, reason="the compiled part is not in use")
@pytest.mark.parametrize("body", recorded("scheduler-names", "preempt"))
def test_recorded_victims_are_not_decoded(body: bytes) -> None:
    args = decode_preemption_args(body)
    assert isinstance(args.victims, VictimEntries)
    sent = json.loads(body)["NodeNameToMetaVictims"]
    assert [name.decode() for name in args.victims.names.names] == list(sent)
    answer = b"".join(encode_kept(args, None)[0])
    assert json.loads(answer) == {"NodeNameToMetaVictims": sent}
    # Without the first brace.
    assert answer[1:] in body


@pytest.mark.parametrize("damage", [b'"x":1,', b"]", b"}", b"\\", b'"'])
@pytest.mark.parametrize("body", recorded("scheduler-nodes", "filter"))
def test_a_damaged_item_does_not_slip_through_the_short_way(body: bytes, damage: bytes) -> None:
    """Wherever it is damaged: refused, or the same nodes as in the long way."""
    for place in range(0, len(body), 997):
        damaged = body[:place] + damage + body[place:]
        try:
            long = wire.decode_any(damaged)
        except BadRequestError:
            assert wire.decode_usual(damaged, SeenNodes(), LastPod()) is None
        else:
            args = wire.decode_args(damaged)
            assert isinstance(args.nodes, NodeItems)
            assert isinstance(long.nodes, NodeItems)
            assert args.nodes.nodes == long.nodes.nodes
            assert list(map(bytes, args.nodes.raw)) == list(map(bytes, long.nodes.raw))


@pytest.mark.parametrize("compiled", [True, False])
def test_a_quote_that_would_open_and_close_is_none(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(names, "_engine", names.PythonEngine())
    with pytest.raises(BadRequestError, match="not JSON"):
        decode_args(b'{"Pod":{},"Nodes":null,"NodeNames":["]}')


def test_the_last_pod_is_known_by_all_of_its_bytes() -> None:
    """filter, prioritize and preempt ask about one pod in turn; the next differs a little."""
    last, seen = LastPod(), SeenNodes()

    def asked(name: str, rest: bytes) -> bytes:
        return b'{"Pod":{"metadata":{"name":"%b"},"spec":{}}%b' % (name.encode(), rest)

    nodes = b',"Nodes":null,"NodeNames":["n1"]}'
    first = decode_args(asked("web-1", nodes), seen, last).pod
    assert decode_args(asked("web-1", nodes), seen, last).pod is first
    victims = b',"NodeNameToVictims":null,"NodeNameToMetaVictims":{}}'
    assert decode_preemption_args(asked("web-1", victims), last).pod is first
    assert decode_args(asked("web-2", nodes), seen, last).pod.name == "web-2"
    assert decode_preemption_args(asked("web-1", victims), last).pod == first


def test_a_large_pod_is_not_kept() -> None:
    last = LastPod()
    head = b'{"Pod":{"metadata":{"annotations":{"a":"%b"}}}' % (b"x" * MAX_LAST_POD)
    decode_args(head + b',"Nodes":null,"NodeNames":["n1"]}', SeenNodes(), last)
    assert last.get(head) is None
