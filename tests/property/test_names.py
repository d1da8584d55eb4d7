"""Laws of the name index: the compiled part and the Python part do the same."""

import json
import random
import re
import struct
import time
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extender.model import names
from extender.model.names import SEPARATOR, NameRun, NodeIndex, ShapeId

plain = st.text(alphabet="abc019.-", max_size=40).map(str.encode)
#: Names of all lengths that are hashed or copied differently.
longer = st.integers(0, 300).map(lambda size: (b"node-%d." % size * 40)[:size])
# If a name ends with a quote and a comma, run_of escapes the comma, too.
escaped = (
    st.text(max_size=8)
    .filter(lambda text: not text.endswith('",'))
    .map(lambda text: json.dumps(text)[1:-1].encode())
)
lists = st.one_of(
    st.lists(plain, max_size=60),
    st.lists(longer, max_size=30),
    st.lists(st.one_of(plain, escaped), max_size=20),
)

# Assign (number) or forget (0) a name; few names, so that they recur.
changes = st.lists(
    st.tuples(st.integers(0, 40).map(lambda n: b"n%d" % n), st.integers(0, 300)), max_size=200
)


@pytest.fixture(params=["compiled", "python"], autouse=True)
def half(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both halves, where the compiled one was built."""
    if request.param == "compiled" and not names.IS_COMPILED:
        pytest.skip("the compiled part was not built")
    monkeypatch.setattr(names, "IS_COMPILED", request.param == "compiled")
    return str(request.param)


def settle(index: NodeIndex, found: list[tuple[bytes, int]]) -> dict[bytes, int]:
    model: dict[bytes, int] = {}
    for name, number in found:
        if number:
            index[name] = ShapeId(number)
            model[name] = number
        else:
            index.forget(name)
            model.pop(name, None)
    return model


@given(changes, lists, st.integers(301, 700))
def test_after_any_changes_names_have_their_codes(
    found: list[tuple[bytes, int]], more: list[bytes], size: int
) -> None:
    """codes[number] of what was assigned last, codes[0] for what was forgotten or never known."""
    index = NodeIndex()
    model = settle(index, found)
    codes = bytes((number * 7) % 251 for number in range(size))
    asked = [*(name for name, _ in found), *more]
    expected = bytes(codes[model.get(name, 0)] for name in asked)
    assert index.translate(NameRun.of(asked), codes) == expected
    assert dict(index.items()) == model
    copied = index.copy()
    settle(index, [(name, 0) for name, _ in found])
    assert copied.translate(NameRun.of(asked), codes) == expected
    assert copied.translate(NameRun.of(asked), tuple(codes)) == tuple(expected)


@given(lists, st.data())
def test_a_part_is_joined_and_the_others_have_their_endings(
    found: list[bytes], data: st.DataObject
) -> None:
    """Both stay in order; the last ending lacks its last `cut` bytes."""
    cut = data.draw(st.integers(0, 3))
    endings = data.draw(st.lists(st.binary(max_size=99), max_size=5))
    codes = bytes(data.draw(st.integers(0, len(endings))) for _ in found)
    pairs = list(zip(found, codes, strict=True))
    first = SEPARATOR.join(name for name, code in pairs if not code)
    others = b"".join(name + endings[code - 1] for name, code in pairs if code)
    expected = (first, others[: max(0, len(others) - cut)])
    assert NameRun.of(found).part(codes, endings, cut) == expected
    assert NameRun.of(found).part(codes, endings, cut, keep=False)[1] == expected[1]


@given(lists, st.binary(max_size=70), st.binary(max_size=70), st.data())
def test_what_stands_around_a_run_is_never_seen(
    found: list[bytes], before: bytes, after: bytes, data: st.DataObject
) -> None:
    """Names are copied in pieces that are larger than the names."""
    alone = NameRun.of(found)
    joined = SEPARATOR.join(found)
    start = len(before)
    within = NameRun.known(before + joined + after, start, start + len(joined), len(found))
    codes = bytes(data.draw(st.integers(0, 2)) for _ in found)
    index = NodeIndex((name, ShapeId(1)) for name in found)
    assert within.part(codes, [b"x", b"yy"]) == alone.part(codes, [b"x", b"yy"])
    assert index.translate(within, b"\0\1") == bytes([1]) * len(found)
    assert within.joined == joined


@given(
    st.one_of(
        lists.map(SEPARATOR.join),
        st.binary(max_size=30),
        st.text(max_size=9).map(str.encode),
        # The bytes of a separator, with other bytes between them.
        st.text(alphabet='a0.",', max_size=12).map(str.encode),
    )
)
@example(b'node-0"08,"node-9')
def test_what_is_read_as_a_run_is_an_array_of_just_these_strings(joined: bytes) -> None:
    """If a run is read, JSON reads the same strings; names of nodes are always read."""
    run = NameRun.read(b'["%s"]' % joined, 2, 2 + len(joined))
    if run is None:
        assert not re.fullmatch(rb'[a-z0-9.-]*(","[a-z0-9.-]*)*', joined)
    else:
        assert json.loads(b'["%s"]' % joined) == [name.decode() for name in run.names]
        assert run.count == len(run.names)


def is_names(joined: bytes) -> bool:
    """Whether it is a JSON array of ASCII strings without escapes."""
    try:
        found = json.loads(b'["%s"]' % joined)
    except ValueError:
        return False
    together = "".join(found)
    return joined.isascii() and json.dumps(together) == f'"{together}"'


@pytest.mark.parametrize("size", [*range(10), 61, 62, 63, 64, 65, 127, 128, 129, 190])
def test_one_byte_more_or_less_is_seen_wherever_it_is(half: str, size: int) -> None:
    """Bytes are checked in blocks of 64: no place in a block or between blocks is special."""
    names_of = [b"node-%d" % number for number in range(40)]
    for shift in range(4):
        sound = SEPARATOR.join([b"n" * shift, *names_of])[: size + 64]
        for place in range(len(sound)):
            for byte in (b'"', b",", b"\\", b"\x1f", b"\x80", b"~", b'","', b'""', b""):
                joined = sound[:place] + byte + sound[place + 1 :]
                run = NameRun.read(b'["%s"]' % joined, 2, 2 + len(joined))
                if run is not None:
                    assert [name.decode() for name in run.names] == json.loads(b'["%s"]' % joined)
                if half == "compiled":
                    assert (run is not None) == is_names(joined), joined


@given(st.binary(max_size=300), st.integers(0, 40))
def test_a_tally_counts_what_occurs(codes: bytes, more: int) -> None:
    kinds = min(256, max(codes, default=0) + 1 + more)
    assert names.tally(codes, kinds) == [codes.count(code) for code in range(kinds)]


def test_many_names_are_added_and_forgotten_in_bounded_memory() -> None:
    """The slots of forgotten names are reused: a table of 100 names stays as small."""
    index = NodeIndex()
    for number in range(20_000):
        index[b"node-%d" % number] = ShapeId(1)
        index.forget(b"node-%d" % (number - 100))
    assert len(index) == 100
    run = NameRun.of([b"node-19999", b"node-19900", b"node-19899"])
    assert index.translate(run, b"\0\1") == b"\1\1\0"


def test_wrong_arguments_are_refused_and_read_nothing(half: str) -> None:
    if half != "compiled":
        return
    from extender.model import _names

    table = _names.NameTable(bytes(16))

    def ends(*places: int) -> bytes:
        return struct.pack(f"={len(places)}I", *places)

    for refused in (
        lambda: table.translate(b"a", 0, ends(1), b""),
        lambda: table.translate(b"a", 0, ends(2), b"\0"),
        lambda: table.translate(b"a", 1, ends(1), b"\0"),
        lambda: table.translate(b"a", -1, ends(1), b"\0"),
        lambda: table.translate(b"a", 2, b"", b"\0"),
        lambda: table.translate(b"a", 0, b"abc", b"\0"),
        lambda: table.translate(b"a" * 9, 0, ends(4, 6), b"\0"),
        lambda: table.translate(b"a" * 9, 0, ends(2**32 - 1, 9), b"\0"),
        lambda: _names.measure(b"a", 0, 2),
        lambda: _names.measure(b"a", -1, 1),
        lambda: _names.measure(b"a", 1, 0),
        lambda: _names.part(b"a", 0, ends(1), b"\0\0", (b"",), 0),
        lambda: _names.part(b"a", 0, ends(1), b"", (b"",), 0),
        lambda: _names.part(b"a", 0, ends(1), b"\2", (b"",), 0),
        lambda: _names.part(b"a", 0, ends(1), b"\0", (b"",) * 300, 0),
        lambda: _names.part(b"a", 0, ends(1), b"\1", (b"x",), -1),
        lambda: _names.part(b"a", 0, ends(9), b"\1", (b"x",), 0),
        lambda: _names.NameTable(b"short"),
        lambda: table.set(b"x", 0),
        lambda: table.set(b"x", 2**32 - 1),
        lambda: table.set(b"x", 2**40),
    ):
        with pytest.raises((ValueError, OverflowError)):
            refused()
    assert table.translate(b"abc", 0, ends(3), b"\5") == b"\5"
    assert table.translate(b"x", 0, ends(1), b"\5\6") == b"\5"


WORD = 2**64 - 1


def words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def of_one_hash() -> list[bytes]:
    """Names of 16 bytes that had one hash before hashes were seeded: word 2 undoes word 1."""
    start = 0x2545F4914F6CDD1D ^ (16 * 0x9E3779B97F4A7C15 & WORD)
    found = []
    for number in range(20_000):
        mixed = (start ^ number) * 0xFF51AFD7ED558CCD & WORD
        found.append(words(number, mixed ^ mixed >> 32))
    return found


def of_few_hashes() -> list[bytes]:
    """Plain names that collide in a hash that multiplies word by word, whatever its seed is.

    The two blocks differ in bit 62 of a word, which a product by any odd number keeps, and in the
    bits of the next word that cancel it: of 15 such places about half work with any one seed.
    """
    blocks = b"0000000000000000", b"0000000p000p000p"
    return [
        b"".join(blocks[number >> place & 1] for place in range(15)) + b"-node-00"
        for number in range(2**15)
    ]


def seconds_to_find(found: list[bytes]) -> float:
    """The processor time of a lookup of all names in an index of these names."""
    index = NodeIndex((name, ShapeId(1)) for name in found)
    places, end = [], 0
    for name in found:
        places.append(end + len(name))
        end = places[-1] + len(SEPARATOR)
    joined = SEPARATOR.join(found)
    run = NameRun(joined, 0, len(joined), len(found), struct.pack(f"={len(found)}I", *places))
    took = []
    for _ in range(15):
        began = time.thread_time()
        assert index.translate(run, b"\0\1") == bytes([1]) * len(found)
        took.append(time.thread_time() - began)
    return min(took)


@pytest.mark.parametrize("chosen", [of_one_hash, of_few_hashes])
def test_chosen_names_are_found_as_fast_as_any(chosen: Callable[[], list[bytes]]) -> None:
    """Whoever may create nodes chooses their names and can read the hash function."""
    found = chosen()
    others = [random.Random(number).randbytes(len(found[0])) for number in range(len(found))]
    others = [each.replace(b'"', b"-") for each in others]
    assert seconds_to_find(found) < 10 * seconds_to_find(others)
