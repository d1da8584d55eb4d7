"""Laws of victims as Go writes them: what is found and copied is what is decoded and encoded."""

import json
import struct
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, compress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from extender import names
from extender.names import NameRun
from extender.wire import preempt_bodies, victims
from extender.wire.bodies import BadRequestError, LastPod
from extender.wire.filter_bodies import decode_args
from extender.wire.node_items import MAX_NODES
from extender.wire.preempt_bodies import (
    Keeps,
    decode_preemption_args,
    encode_kept,
)
from extender.wire.victim_entries import VictimEntries

LAW = settings(max_examples=300, deadline=None)

HEAD = b'{"Pod":{},"NodeNameToVictims":null,"NodeNameToMetaVictims":{'

compiled_only = pytest.mark.skipif(not names.IS_COMPILED, reason="the compiled part is not in use")

#: Node name → UIDs, and the number of violated budgets.
Victims = dict[str, tuple[list[str], int]]

plain = st.text(alphabet="abc019.-", max_size=40)
#: The names of nodes are plain; a UID is whatever who creates a mirror pod makes of it.
maps: st.SearchStrategy[Victims] = st.dictionaries(
    plain,
    st.tuples(
        st.lists(plain, max_size=4), st.one_of(st.integers(0, 9), st.integers(0, 10**18 - 1))
    ),
    max_size=8,
)


def entry_of(name: str, uids: list[str], violations: object) -> bytes:
    """As encoding/json writes it."""
    victims = {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
    value = json.dumps(victims, separators=(",", ":"), ensure_ascii=False)
    return f"{json.dumps(name, ensure_ascii=False)}:{value}".encode()


def entries_of(asked: Victims) -> list[bytes]:
    """In the order of encoding/json, which sorts the keys of a map."""
    return [entry_of(name, *asked[name]) for name in sorted(asked)]


def body_of(entries: list[bytes]) -> bytes:
    return HEAD + b",".join(entries) + b"}}"


def some_nodes(run: NameRun) -> bytes:
    """About half of the names, always the same ones, and never in a pattern."""
    return bytes(zlib.crc32(names.text_of(name).encode()) & 1 for name in run.names)


def answer_by(engine: names.Engine, body: bytes, keeps: Keeps | None) -> object:
    """The answer as JSON and the number of nodes, or the error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "_engine", engine)
        try:
            chunks, count = encode_kept(decode_preemption_args(body), keeps)
        except BadRequestError as error:
            return str(error)
        return json.loads(b"".join(chunks)), count


def found_in(text: bytes, most: int = MAX_NODES) -> VictimEntries | None:
    """In memory that has not a byte more."""
    return VictimEntries.read(text, 0, len(text), most)


@compiled_only
@LAW
@given(maps, st.data())
def test_what_go_writes_is_found_and_kept_byte_for_byte(
    asked: Victims, data: st.DataObject
) -> None:
    """Every entry that is kept is the one that was sent, in the order sent; and no other is."""
    sent = entries_of(asked)
    flags = bytes(data.draw(st.integers(0, 2)) for _ in sent)
    entries = found_in(b",".join(sent))
    assert entries is not None
    assert entries.count == len(sent)
    assert entries.names.names == [name.encode() for name in sorted(asked)]
    kept = b",".join(entry for entry, flag in zip(sent, flags, strict=True) if flag)
    assert entries.kept(flags) == kept
    assert names.PythonEngine().keep_entries(entries.body, 0, entries.ends, flags) == kept
    by_python = encode_kept(decode_preemption_args(body_of(sent)), None)
    assert by_python == ([b'{"NodeNameToMetaVictims":{', b",".join(sent) + b"}}"], len(sent))


@compiled_only
@LAW
@given(
    maps,
    st.lists(st.tuples(st.integers(0), st.sampled_from([0, 1, 2]), st.integers(0, 255))),
    st.integers(0, 3),
    st.booleans(),
)
@example({"a": (["u"], 0), "b": ([], 3)}, [], 0, False)
def test_whatever_bytes_change_the_answer_is_that_of_decoding(
    asked: Victims, changes: list[tuple[int, int, int]], cut: int, all_kept: bool
) -> None:
    """Bytes changed, put in or left out, anywhere in the body, and its end cut off."""
    body = bytearray(body_of(entries_of(asked)))
    for place, kind, byte in changes:
        at = len(HEAD) // 2 + place % (len(body) - len(HEAD) // 2)
        body[at : at + (kind != 1)] = b"" if kind == 2 else bytes([byte])
    sent = bytes(body[: len(body) - cut])
    keeps = None if all_kept else some_nodes
    by_decoding = answer_by(names.PythonEngine(), sent, keeps)
    assert answer_by(names.CompiledEngine(), sent, keeps) == by_decoding


def odd_entries() -> Iterator[tuple[str, bytes]]:
    """JSON objects that Go writes otherwise, or decodes otherwise than it writes them."""
    usual = entry_of("n", ["u"], 1)
    yield "an escape in a name", usual.replace(b'"n"', b'"\\u006e"')
    yield "an escape in a UID", usual.replace(b'"u"', b'"\\/"')
    yield "a UID that is not ASCII", entry_of("n", ["é"], 0)
    yield "a name that is not ASCII", entry_of("é", ["u"], 0)
    yield "a name twice", entry_of("n", ["u"], 0) + b"," + entry_of("n", ["v"], 0)
    yield "names out of order", entry_of("o", ["u"], 0) + b"," + entry_of("n", ["v"], 0)
    yield "a name behind its beginning", entry_of("na", [], 0) + b"," + entry_of("n", [], 0)
    yield "no victims", b'"n":null'
    yield "no list of pods", b'"n":{"Pods":null,"NumPDBViolations":0}'
    yield "no pod", b'"n":{"Pods":[null],"NumPDBViolations":0}'
    yield "no UID", b'"n":{"Pods":[{}],"NumPDBViolations":0}'
    yield "a UID that is null", usual.replace(b'"u"', b"null")
    yield "a key in lower case", usual.replace(b"UID", b"uid")
    yield "a key twice", usual.replace(b'"Pods"', b'"Pods":[],"Pods"')
    yield "another key", usual.replace(b'{"Pods"', b'{"Newer":1,"Pods"')
    yield "keys in another order", b'"n":{"NumPDBViolations":1,"Pods":[]}'
    yield "no number", b'"n":{"Pods":[]}'
    yield "a negative number", usual.replace(b":1}", b":-1}")
    yield "the largest number", usual.replace(b":1}", b":%d}" % (2**63 - 1))
    yield "more than the largest number", usual.replace(b":1}", b":%d}" % 2**63)
    yield "a leading zero", usual.replace(b":1}", b":01}")
    yield "a fraction", usual.replace(b":1}", b":1.0}")
    yield "an exponent", usual.replace(b":1}", b":1e1}")
    yield "a number in quotes", usual.replace(b":1}", b':"1"}')
    yield "no digit", usual.replace(b":1}", b":}")
    yield "a blank", usual.replace(b":1}", b": 1}")
    yield "a line break", usual.replace(b'"n":', b'"n":\n')
    yield "a control character", usual.replace(b'"u"', b'"\x1f"')
    yield "a comma behind a pod", usual.replace(b"}]", b"},]")
    yield "a comma too many", usual + b","
    yield "no comma", entry_of("m", [], 0) + usual
    yield "a comma first", b"," + usual
    yield "something behind it", usual + b"x"


@compiled_only
@pytest.mark.parametrize(
    "entry", [pytest.param(entry, id=what.replace(" ", "-")) for what, entry in odd_entries()]
)
@pytest.mark.parametrize("around", [(), ("a", "z")], ids=["alone", "between others"])
def test_all_else_is_left_to_the_decoder(entry: bytes, around: tuple[str, ...]) -> None:
    others = [entry_of(name, ["u"], 0) for name in around]
    sent = [*others[:1], entry, *others[1:]]
    assert found_in(b",".join(sent)) is None
    by_decoding = answer_by(names.PythonEngine(), body_of(sent), some_nodes)
    assert answer_by(names.CompiledEngine(), body_of(sent), some_nodes) == by_decoding


@compiled_only
@pytest.mark.parametrize("size", [0, 1, 7, 15, 16, 17, 31, 32, 33])
def test_of_a_text_that_ends_early_nothing_is_found(size: int) -> None:
    """Wherever it ends but behind an entry; strings are searched for in steps of 16 bytes."""
    sent = [entry_of(name * size, ["u" * size, "v"], 12) for name in ("a", "b")][: 1 + (size > 0)]
    text = b",".join(sent)
    whole = {*accumulate(map(len, sent), lambda end, length: end + 1 + length)}
    for end in range(1, len(text) + 1):
        found = found_in(text[:end])
        assert (found is not None) == (end in whole)
    assert found_in(b"") is not None


@compiled_only
def test_more_nodes_than_allowed_are_not_found() -> None:
    text = b",".join(entry_of(f"{number:05}", [], 0) for number in range(100))
    assert found_in(text, most=100) is not None
    assert found_in(text, most=99) is None
    assert found_in(text, most=0) is None


@compiled_only
@pytest.mark.parametrize("count", [50, 51])
def test_the_limit_of_nodes_is_the_decoder_s(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (preempt_bodies, victims):
        monkeypatch.setattr(module, "MAX_NODES", 50)
    body = body_of([entry_of(f"{number:06}", [], 0) for number in range(count)])
    found = answer_by(names.CompiledEngine(), body, None)
    assert found == answer_by(names.PythonEngine(), body, None)
    assert (found == "NodeNameToMetaVictims: more than 50 nodes") == (count > 50)


@compiled_only
def test_a_pod_of_any_language_is_read_as_the_filter_has_read_it() -> None:
    """The filter has just been asked about the same pod."""
    pod = '{"Pod":{"metadata":{"name":"web-1","annotations":{"a":"é"}}}'.encode()
    last = LastPod()
    args = decode_args(pod + b',"Nodes":null,"NodeNames":["n"]}', last=last)
    body = pod + HEAD.removeprefix(b'{"Pod":{}') + entry_of("n", ["u"], 0) + b"}}"
    for known in (last, LastPod()):
        read = decode_preemption_args(body, known)
        assert read.pod == args.pod
        assert b"".join(encode_kept(read, None)[0]) == (
            b'{"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"u"}],"NumPDBViolations":0}}}'
        )
    assert isinstance(decode_preemption_args(body, last).victims, VictimEntries)


@compiled_only
def test_long_bodies_are_read_by_several_threads_at_once() -> None:
    """Beyond a MiB other threads run while one reads and copies."""
    sent = [entry_of(f"node-{number:05}", ["u" * 36], 0) for number in range(30_000)]
    text = b",".join(sent)
    flags = bytes(number % 3 > 0 for number in range(len(sent)))
    kept = b",".join(compress(sent, flags))
    assert len(kept) > 2**20

    def ask(odd: bool) -> bytes | None:
        found = found_in(text + b"x" if odd else text)
        return found.kept(flags) if found is not None else None

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(ask, [False, True] * 8))
    assert answers == [kept, None] * 8


@compiled_only
def test_wrong_arguments_are_refused_and_read_nothing() -> None:
    from extender import _names

    def ends(*places: int) -> bytes:
        return struct.pack(f"={len(places)}I", *places)

    for refused in (
        lambda: _names.find_victims(b"a", 0, 2, 9),
        lambda: _names.find_victims(b"a", -1, 1, 9),
        lambda: _names.find_victims(b"a", 1, 0, 9),
        lambda: _names.find_victims(b"a", 0, 1, -1),
        lambda: _names.find_victims(b"a", 0, 2**70, 9),
        lambda: _names.keep_entries(b"a", 0, ends(2), b"\1"),
        lambda: _names.keep_entries(b"a", 1, ends(1), b"\1"),
        lambda: _names.keep_entries(b"a", -1, ends(1), b"\1"),
        lambda: _names.keep_entries(b"a", 2, b"", b""),
        lambda: _names.keep_entries(b"a", 0, ends(1), b""),
        lambda: _names.keep_entries(b"a", 0, ends(1), b"\1\1"),
        lambda: _names.keep_entries(b"a", 0, b"abc", b"\1"),
        lambda: _names.keep_entries(b"a" * 9, 0, ends(4, 4), b"\1\1"),
        lambda: _names.keep_entries(b"a" * 9, 0, ends(2**32 - 1, 9), b"\0\1"),
    ):
        with pytest.raises((ValueError, OverflowError)):
            refused()
    assert _names.keep_entries(b"a,bc,d", 0, ends(1, 4, 6), b"\1\0\1") == b"a,d"
    assert _names.keep_entries(b"", 0, b"", b"") == b""
