"""What is written into a body's memory is the body, with and without the compiled part."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.http.body_memory import Body, CopiedBody

BOTH = pytest.mark.parametrize(
    "kind", [pytest.param(Body, id="in use"), pytest.param(CopiedBody, id="pure Python")]
)


@BOTH
@given(st.lists(st.binary(max_size=300)))
def test_a_body_is_what_was_written_into_it(kind: Any, pieces: list[bytes]) -> None:
    body = kind(sum(map(len, pieces)))
    view, at = memoryview(body), 0
    for piece in pieces:
        view[at : at + len(piece)] = piece
        at += len(piece)
    whole = body.finish()
    assert type(whole) is bytes
    assert whole == b"".join(pieces)
    assert hash(whole) == hash(b"".join(pieces))


@BOTH
def test_a_body_stays_while_there_is_a_view_of_it(kind: Any) -> None:
    view = memoryview(kind(100_000))
    view[:] = b"a" * 100_000
    assert bytes(view) == b"a" * 100_000


@pytest.mark.skipif(Body is CopiedBody, reason="the compiled part is not in use")
def test_a_finished_body_is_not_written_to_again() -> None:
    body = Body(3)
    body.finish()
    with pytest.raises(BufferError, match="the body is finished"):
        memoryview(body)


@pytest.mark.skipif(Body is CopiedBody, reason="the compiled part is not in use")
def test_a_finished_body_is_no_copy() -> None:
    body = Body(2**20)
    assert body.finish() is body.finish()


@pytest.mark.parametrize(
    ("size", "error"),
    [
        pytest.param(-1, ValueError, id="negative"),
        pytest.param(2**62, MemoryError, id="more than there is"),
    ],
)
@BOTH
def test_what_can_not_be_had_is_an_error(kind: Any, size: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        kind(size)
