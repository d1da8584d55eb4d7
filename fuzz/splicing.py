"""Inputs made of pieces of other inputs, which libFuzzer's own changes seldom come upon in JSON."""

import random
import re
from collections.abc import Sequence
from typing import Final

#: The longest piece that is put in or taken out at once.
LONGEST: Final = 200

#: The most changes of one input.
CHANGES: Final = 4


#: Where formats have their joints: between strings, values, headers and lines.
_JOINT: Final = re.compile(rb"""[",:{}\[\]\\ \r\n]""")


def spliced(data: bytes, max_size: int, seed: int, pieces: Sequence[bytes]) -> bytes:
    """data with bytes replaced, words and pieces of others put in, and pieces taken out.

    The same for the same seed; pieces: words and whole inputs.
    """
    source = random.Random(seed)
    changed = data
    for _ in range(source.randrange(1, CHANGES + 1)):
        place = _place(changed, source)
        before, after = changed[:place], changed[place:]
        way = source.randrange(4)
        if way == 0:
            changed = before + source.randbytes(1) + after[1:]
        elif way == 1:
            changed = before + _piece(source.choice(pieces), source) + after
        elif way == 2:
            changed = before + _piece(changed, source) + after
        else:
            changed = before + after[len(_piece(after, source)) :]
    return changed[:max_size]


def _place(data: bytes, source: random.Random) -> int:
    """Anywhere, or beside a joint."""
    if source.randrange(2):
        return source.randrange(len(data) + 1)
    joints = [found.start() for found in _JOINT.finditer(data)]
    return source.choice(joints) + source.randrange(2) if joints else 0


def _piece(data: bytes, source: random.Random) -> bytes:
    """All of it where it is short, else some of it, which mostly begins and ends at a joint."""
    if len(data) <= LONGEST and source.randrange(2):
        return data
    start = _place(data, source)
    rest = data[start : start + LONGEST]
    return rest[: _place(rest, source)]
