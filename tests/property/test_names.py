"""Laws of the name index: the compiled part and the Python part do the same."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender import names
from extender.names import SEPARATOR, NameRun, NodeIndex

LAW = settings(max_examples=300, deadline=None)

plain = st.text(alphabet="abc019.-", max_size=40).map(str.encode)
escaped = st.text(max_size=8).map(lambda text: json.dumps(text)[1:-1].encode())
lists = st.one_of(st.lists(plain, max_size=60), st.lists(st.one_of(plain, escaped), max_size=20))

# Assign (number) or forget (0) a name; few names, so that they come again.
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
            index[name] = number
            model[name] = number
        else:
            index.forget(name)
            model.pop(name, None)
    return model


@LAW
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
    assert index == model
    copied = NodeIndex(index)
    settle(index, [(name, 0) for name, _ in found])
    assert copied.translate(NameRun.of(asked), codes) == expected
    assert copied.translate(NameRun.of(asked), tuple(codes)) == tuple(expected)


@LAW
@given(lists, st.data())
def test_distribute_is_split_compress_and_join(found: list[bytes], data: st.DataObject) -> None:
    """Each group's names in order, with its separator between them; empty groups are empty."""
    separators = data.draw(st.lists(st.binary(max_size=12), min_size=1, max_size=5))
    groups = bytes(data.draw(st.integers(0, len(separators) - 1)) for _ in found)
    got = NameRun.of(found).distribute(groups, separators)
    assert list(got) == [
        separator.join(name for name, g in zip(found, groups, strict=True) if g == group)
        for group, separator in enumerate(separators)
    ]


@LAW
@given(lists, st.data())
def test_follow_puts_an_ending_behind_each_name(found: list[bytes], data: st.DataObject) -> None:
    endings = data.draw(st.lists(st.binary(max_size=12), min_size=1, max_size=5))
    codes = bytes(data.draw(st.integers(0, len(endings) - 1)) for _ in found)
    expected = b"".join(name + endings[code] for name, code in zip(found, codes, strict=True))
    assert NameRun.of(found).follow(codes, endings) == expected


@LAW
@given(
    st.one_of(
        lists.map(SEPARATOR.join), st.binary(max_size=30), st.text(max_size=9).map(str.encode)
    )
)
def test_what_is_read_as_a_run_is_an_array_of_just_these_strings(joined: bytes) -> None:
    """If it is read, then JSON says the same; names of nodes are always read."""
    run = NameRun.read(joined)
    if run is None:
        assert not re.fullmatch(rb'[a-z0-9.-]*(","[a-z0-9.-]*)*', joined)
    else:
        assert json.loads(b'["%s"]' % joined) == [name.decode() for name in run.names]
        assert run.count == len(run.names)


@LAW
@given(st.binary(max_size=300), st.integers(0, 40))
def test_a_tally_counts_what_occurs(codes: bytes, more: int) -> None:
    expected = {code: codes.count(code) for code in set(codes)}
    assert names.tally(codes, max(codes, default=0) + 1 + more) == expected


@LAW
@given(lists)
def test_a_run_is_what_it_was_made_of(found: list[bytes]) -> None:
    run = NameRun.of(found)
    assert run.names == found
    assert run.joined == SEPARATOR.join(found)


def test_many_names_are_added_and_forgotten_in_bounded_memory() -> None:
    """The text of forgotten names is not kept: a table of 100 names stays one."""
    index = NodeIndex()
    for number in range(20_000):
        index[b"node-%d" % number] = 1
        index.forget(b"node-%d" % (number - 100))
    assert len(index) == 100
    run = NameRun.of([b"node-19999", b"node-19900", b"node-19899"])
    assert index.translate(run, b"\0\1") == b"\1\1\0"


def test_wrong_arguments_are_refused_and_read_nothing(half: str) -> None:
    if half != "compiled":
        return
    from extender import _names

    table = _names.NameTable()
    for refused in (
        lambda: table.translate(b"a", 2, b"\0"),
        lambda: table.translate(b"a", -1, b"\0"),
        lambda: table.translate(b"a", 1, b""),
        lambda: _names.distribute(b"a", b"\0\0", (b"",)),
        lambda: _names.distribute(b"a", b"\1", (b"",)),
        lambda: _names.distribute(b"a", b"\0", (b"",) * 300),
        lambda: _names.follow(b"a", b"\0\0", (b"x",)),
        lambda: _names.follow(b'a","b', b"\0", (b"x",)),
        lambda: _names.follow(b"aaaa", b"\0\0", (b"x",)),
        lambda: _names.follow(b"a", b"\1", (b"x",)),
        lambda: table.set(b"x" * 70_000, 1),
        lambda: table.set(b"x", 2**40),
    ):
        with pytest.raises((ValueError, OverflowError)):
            refused()
    assert table.translate(b"abc", 1, b"\5") == b"\5"
    assert table.length() == 0
