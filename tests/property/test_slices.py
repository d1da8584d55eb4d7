"""JSON that is decoded a slice at a time is what it would be in one piece, and refused alike."""

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import chain
from typing import TypeVar

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from extender.decoding.decoder import DecodeError, decode
from extender.names import NameRun, NodeIndex
from extender.serving.gunicorn_worker import SWITCH_SECONDS
from extender.shape import ShapeId
from extender.wire import slices
from extender.wire.bodies import BadRequestError, top_level
from extender.wire.filter_bodies import decode_args
from extender.wire.preempt_bodies import decode_preemption_args, encode_kept

T = TypeVar("T")

LAW = settings(max_examples=300, deadline=None)

keys = st.one_of(st.sampled_from(["Pod", "pod", "POD", "nodes", 'a"', "\\", "é"]), st.text("ab,"))
values = st.recursive(
    st.one_of(st.none(), st.integers(-9, 9), st.text('ab,[]{}":\\é', max_size=12)),
    lambda each: st.one_of(st.lists(each, max_size=5), st.dictionaries(keys, each, max_size=5)),
    max_leaves=25,
)
spaces = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")])


def written(value: object, separators: tuple[str, str]) -> bytes:
    return json.dumps(value, separators=separators, ensure_ascii=False).encode()


arrays = st.builds(written, st.lists(values, max_size=12), spaces)
objects = st.builds(written, st.dictionaries(keys, values, max_size=12), spaces)

#: A byte at some place, in the stead of so many.
changes = st.tuples(
    st.integers(0, 200),
    st.integers(0, 2),
    st.sampled_from([b"", *(bytes([each]) for each in b'[]{},:" x0')]),
)


def changed(text: bytes, change: tuple[int, int, bytes]) -> bytes:
    place, removed, added = change
    place %= len(text) + 1
    return text[:place] + added + text[place + removed :]


@pytest.fixture(autouse=True, scope="module")
def small_slices() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "SLICE", 6)
        patch.setattr(slices, "_MOST", 13)
        yield


def tried(attempt: Callable[[], T]) -> T | None:
    try:
        return attempt()
    except (DecodeError, BadRequestError):
        return None


def elements(text: bytes) -> list[bytes]:
    return [bytes(each) for each in chain.from_iterable(slices.lists_of(text, list[Raw], "x"))]


@LAW
@given(arrays)
def test_an_array_has_the_same_elements(text: bytes) -> None:
    assert [json.loads(each) for each in elements(text)] == json.loads(text)


@LAW
@given(st.one_of(arrays, objects), changes)
@example(b"[1,2,3,4,5,]", (0, 0, b""))
@example(b"[1,2,3,,4,5,6]", (0, 0, b""))
@example(b"[,1,2,3,4,5,6]", (0, 0, b""))
@example(b"[1,2,3,4,5,6}", (0, 0, b""))
@example(b"[1,2,3,4,5,6]]", (0, 0, b""))
@example(b"[1,2,3,4,        ]", (0, 0, b""))
@example(b"[[[[[[[[1]]]]]]]}", (0, 0, b""))
def test_what_is_no_array_is_refused_in_slices_too(
    text: bytes, change: tuple[int, int, bytes]
) -> None:
    text = changed(text, change)
    whole = tried(lambda: [bytes(each) for each in decode(text, list[Raw])])
    assert tried(lambda: elements(text)) == whole


@LAW
@given(objects, changes)
@example(b'{"a":1,"b":2,"c":[1,2,3,4,5,6,7,8,9],}', (0, 0, b""))
@example(b'{"a":[1,2,3,4,5,6,7,8,9] "b":1}', (0, 0, b""))
@example(b'{"pod":[1,2,3,4,5,6,7,8,9],"Pod":2}', (0, 0, b""))
@example(b'{"x":[1,2,3,4,5,6,[7,8,9,1,2,3,],5]}', (0, 0, b""))
def test_the_fields_of_a_body_are_the_same(text: bytes, change: tuple[int, int, bytes]) -> None:
    text = changed(text, change)

    def fields() -> dict[str, object]:
        return {name: bytes(raw).strip() for name, raw in top_level(text, ()).items()}

    in_slices = tried(fields)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "IS_COMPILED", False)
        assert in_slices == tried(fields)


def is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def checked(text: bytes) -> bool:
    slices.check(text, "x")
    return True


@LAW
@given(st.one_of(arrays, objects, st.builds(written, values, spaces)), changes)
def test_what_nobody_reads_is_checked_alike(text: bytes, change: tuple[int, int, bytes]) -> None:
    text = changed(text, change)
    # Elsewhere: a body is refused that is not, whatever else is wrong with it.
    assume(is_utf8(text))
    is_json = tried(lambda: decode(text, Raw)) is not None
    assert (tried(partial(checked, text)) is not None) == is_json


@LAW
@given(st.binary(max_size=60), st.binary(min_size=1, max_size=3))
def test_searching_counting_and_checking_the_encoding_are_the_same(
    text: bytes, part: bytes
) -> None:
    assert slices.find(text, part) == text.find(part)
    assert slices.count(text, part[:1]) == text.count(part[:1])
    assert slices.is_ascii(text) == text.isascii()
    with contextlib.nullcontext() if is_utf8(text) else pytest.raises(UnicodeDecodeError):
        slices.check_utf8(text)


def test_an_element_is_named_by_its_place_in_all_of_the_array() -> None:
    text = b"[" + b'"abcdefgh",' * 100 + b"1]"
    with pytest.raises(DecodeError, match=r"^x\[100\]: expected `str`, got `int`$"):
        list(slices.lists_of(text, list[str], "x"))


def test_arrays_in_arrays_without_end_are_refused_and_not_searched_for_each_level() -> None:
    text = b"[" * 5_000 + b"]" * 5_000
    with pytest.raises(DecodeError, match="nested too deeply"):
        slices.check(text, "x")


def longest_turn(attempt: Callable[[], object]) -> float:
    """Milliseconds of processor time that the attempt takes before another thread has its turn."""
    begun, ended, looked = threading.Event(), threading.Event(), threading.Event()
    clocks: list[int] = []

    def run() -> None:
        clocks.append(time.pthread_getcpuclockid(threading.get_ident()))
        begun.set()
        tried(attempt)
        ended.set()
        looked.wait()  # a thread that is gone has no clock

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    longest, before = 0.0, time.clock_gettime(clocks[0])
    while not ended.is_set():
        now = time.clock_gettime(clocks[0])
        longest, before = max(longest, now - before), now
    longest = max(longest, time.clock_gettime(clocks[0]) - before)
    looked.set()
    thread.join()
    return 1000 * longest


def repeated(start: bytes, element: bytes, end: bytes, size: int) -> bytes:
    return start + b",".join([element] * (size // (len(element) + 1))) + end


def answered_preemption(body: bytes) -> object:
    return encode_kept(decode_preemption_args(body), None)


_NAMES = repeated(b'{"Pod":{}, "NodeNames": [', b'"node-0123456789"', b"]}", 32 * 2**20)
_NODES = repeated(b'{"Pod":{},"Nodes":{"items":[', b"null", b"]}}", 4 * 2**20)
_UNREAD = repeated(b'{"Pod":{},"NodeNames":["a"],"x":[', b"[" * 9 + b"]" * 9, b"]}", 48 * 2**20)
_VICTIMS = repeated(
    b'{"Pod":{},"NodeNameToVictims":null,"NodeNameToMetaVictims":{"a":{"Pods":[',
    b'{"UID":"0123456789"}',
    b"]}}}",
    24 * 2**20,
)


@lru_cache
def cluster() -> NodeIndex:
    """So many nodes that each look-up waits for the memory."""
    return NodeIndex([(b"node-%07d" % (3 * number), ShapeId(1)) for number in range(300_000)])


def filtered(body: bytes) -> object:
    args = decode_args(body)
    assert isinstance(args.nodes, NameRun)
    codes = cluster().translate(args.nodes, b"\1\0")
    assert isinstance(codes, bytes)
    return args.nodes.part(codes, [b"x" * 90])


_AS_GO_WRITES = (
    b'{"Pod":{"metadata":{}},"Nodes":null,"NodeNames":['
    + b",".join(b'"node-%07d"' % number for number in range(900_000))
    + b"]}"
)


@pytest.mark.skipif(not slices.IS_COMPILED, reason="without it such bodies are decoded whole")
@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(partial(filtered, _AS_GO_WRITES), id="names as kube-scheduler writes them"),
        pytest.param(partial(decode_args, _NAMES), id="names"),
        pytest.param(partial(decode_args, _NODES), id="nodes"),
        pytest.param(partial(decode_args, _UNREAD), id="what nobody reads"),
        pytest.param(partial(answered_preemption, _VICTIMS), id="victims of one node"),
    ],
)
def test_a_body_of_many_values_lets_other_threads_have_their_turn(
    attempt: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one piece each takes 40 ms and more."""
    monkeypatch.setattr(slices, "SLICE", 32 * 1024)
    monkeypatch.setattr(slices, "_MOST", 64 * 1024 + 1)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        # The best of some, since a machine may be busy with something else.
        assert min(longest_turn(attempt) for _ in range(4)) < 20
    finally:
        sys.setswitchinterval(interval)
