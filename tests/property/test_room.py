"""The bytes that requests hold together: never more than there is room for, and all come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.http import limits
from extender.http.answers import Refusal
from extender.http.limits import MEDIUM_BYTES, MEDIUM_ROOM, Room

SIZE = 100


@given(
    requests=st.lists(st.tuples(st.integers(1, SIZE), st.integers(0, SIZE)), max_size=40),
    ends=st.lists(st.integers(0, 39), max_size=40),
)
def test_bodies_never_hold_more_than_there_is_room_for_and_all_of_it_comes_back(
    requests: list[tuple[int, int]], ends: list[int]
) -> None:
    """Sizes of bodies and answers; after some requests the oldest of those in work ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MEDIUM_ROOM", 0)
        room = Room(SIZE)
    working: list[list[int]] = []
    for number, (body, answer) in enumerate(requests):
        held: list[int] = []
        free = SIZE - sum(map(sum, working))
        if body > free:
            with pytest.raises(Refusal):
                room.take(body, held)
            assert not held
        else:
            room.take(body, held)
            if answer > free:
                with pytest.raises(Refusal):
                    room.take(answer, held)
            else:
                room.take(answer, held)
                assert sum(held) == max(body, answer)
            working.append(held)
        if number in ends and working:
            room.give_back(working.pop(0))
    for held in working:
        room.give_back(held)
    room.take(SIZE, [])
    with pytest.raises(Refusal):
        room.take(1, [])


def test_large_bodies_and_answers_leave_room_for_the_bodies_of_kube_scheduler() -> None:
    room = Room(4 * MEDIUM_BYTES)
    held: list[int] = []
    room.take(4 * MEDIUM_BYTES, held)
    room.take(4 * MEDIUM_BYTES, held)  # An answer may be part of the body, or replace it.
    room.take(MEDIUM_ROOM, [])
    with pytest.raises(Refusal):
        room.take(2 * MEDIUM_ROOM, held)
    with pytest.raises(Refusal):
        room.take(MEDIUM_BYTES + 1, [])
    room.take(MEDIUM_BYTES, [])
