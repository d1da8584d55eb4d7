"""Suggestions for a name that does not exist."""

from bisect import bisect
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from extender.reasons import MAX_QUOTED, shown

#: How many names are suggested, and how many are compared: if there are more, those next to the
#: given one in the alphabet. Comparing two names takes some 20 µs, so 400 take 10 ms.
_TOLD: Final = 3
_COMPARED: Final = 400


def did_you_mean(asked: str, known: Iterable[str]) -> str:
    """Known names that look like the asked one, as the end of a sentence; empty without any."""
    if len(asked) > MAX_QUOTED:
        return ""
    names = sorted(known)
    if len(names) > _COMPARED:
        place = bisect(names, asked)
        names = names[max(0, place - _COMPARED // 2) : place + _COMPARED // 2]
    close = [f'"{shown(name)}"' for name in get_close_matches(asked, names, _TOLD)]
    if not close:
        return ""
    *others, last = close
    return f"; did you mean {', '.join(others)} or {last}?" if others else f"; did you mean {last}?"
