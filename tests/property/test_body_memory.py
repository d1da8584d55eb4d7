"""What is written into a body's memory is the body, where the compiled part is in use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.http.body_memory import IS_COMPILED, BodyMemory

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="the compiled part is not in use")

MEMORY = BodyMemory(2**63)


@given(st.lists(st.binary(max_size=300)))
def test_a_body_is_what_was_written_into_it(pieces: list[bytes]) -> None:
    body = MEMORY.take(sum(map(len, pieces)))
    view, at = memoryview(body), 0
    for piece in pieces:
        view[at : at + len(piece)] = piece
        at += len(piece)
    whole = body.finish()
    assert type(whole) is bytes
    assert whole == b"".join(pieces)
    assert hash(whole) == hash(b"".join(pieces))


def test_a_body_stays_while_there_is_a_view_of_it() -> None:
    view = memoryview(MEMORY.take(100_000))
    view[:] = b"a" * 100_000
    assert bytes(view) == b"a" * 100_000


def test_a_finished_body_is_not_written_to_again() -> None:
    body = MEMORY.take(3)
    body.finish()
    with pytest.raises(BufferError, match="the body is finished"):
        memoryview(body)


def test_a_finished_body_is_no_copy() -> None:
    body = MEMORY.take(2**20)
    assert body.finish() is body.finish()


@pytest.mark.parametrize(
    ("size", "error"),
    [
        pytest.param(-1, ValueError, id="negative"),
        pytest.param(2**62, MemoryError, id="more than there is"),
    ],
)
def test_what_can_not_be_had_is_an_error(size: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        MEMORY.take(size)


def test_there_is_room_for_so_many_bytes_together() -> None:
    memory = BodyMemory(100)
    assert not memory.has_room(101)
    assert memory.has_room(100)
    memory.take(60)
    assert not memory.has_room(41)
    assert memory.has_room(40)
    memory.give_back(60)
    assert memory.has_room(100)
