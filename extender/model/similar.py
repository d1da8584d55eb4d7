"""Known names that resemble a misspelt one, as a suggestion for its author."""

from bisect import bisect
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from extender.model.reasons import MAX_QUOTED, shown

#: The most names in a suggestion.
_TOLD: Final = 3

#: The least similarity, about two letters of three in order: "wbe" is similar to "web", and "nodes"
#: is not similar to "pods-v2".
_ALIKE: Final = 0.65

#: The most names compared, at about 20 µs each: those nearest to the given name in the alphabet.
_COMPARED: Final = 400


def similar(asked: str, known: Iterable[str]) -> Sequence[str]:
    """The known names similar to the asked name, best first; in its namespace if it has one."""
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
    """The known name most similar to the asked name, "" if none is similar."""
    return next(iter(similar(asked, known)), "")


def did_you_mean(asked: str, known: Iterable[str]) -> str:
    """The end of a sentence that suggests similar names, "" if there are none."""
    names = [f'"{shown(name)}"' for name in similar(asked, known)]
    return f"; did you mean {' or '.join(names)}?" if names else ""
