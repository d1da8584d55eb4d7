"""Known names that resemble a misspelt one, as a suggestion for its author."""

from bisect import bisect
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from extender.model.reasons import MAX_QUOTED, shown

#: The number of names that a suggestion has.
_TOLD: Final = 3

#: Two letters of three in their order: "wbe" is like "web", and "nodes" not like "pods-v2".
_ALIKE: Final = 0.65

#: The number of names compared: if there are more, those next to the given one in the alphabet.
#: Comparing two names takes some 20 µs.
_COMPARED: Final = 400


def similar(asked: str, known: Iterable[str]) -> Sequence[str]:
    """The known names that are like the asked one, in its namespace if it has one, best first."""
    if len(asked) > MAX_QUOTED:
        return ()
    namespace = asked[: asked.rfind("/") + 1]
    names = sorted(each for each in known if each.startswith(namespace))
    if len(names) > _COMPARED:
        place = bisect(names, asked)
        names = names[max(0, place - _COMPARED // 2) : place + _COMPARED // 2]
    cut = len(namespace)
    found = get_close_matches(asked[cut:], [each[cut:] for each in names], _TOLD, _ALIKE)
    return [namespace + each for each in found]


def most_similar(asked: str, known: Iterable[str]) -> str:
    """Empty where no known name is like the asked one."""
    return next(iter(similar(asked, known)), "")


def did_you_mean(asked: str, known: Iterable[str]) -> str:
    """The end of a sentence that suggests similar names; empty without any."""
    names = [f'"{shown(name)}"' for name in similar(asked, known)]
    return f"; did you mean {' or '.join(names)}?" if names else ""
