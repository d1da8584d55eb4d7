"""Merging tolerations: the pod's, then the class's, without those that another one covers.

Upstream: pkg/util/tolerations/tolerations.go, v1.36.2. Upstream compares each toleration with each
other one; here the few that could cover it are looked up, since 100,000 of them fit into a pod.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from extender.objects import NO_EXECUTE, Toleration

_EXISTS: Final = "Exists"
_EQUAL: Final = "Equal"

#: Of tolerations that differ only in their seconds, the two that last longest are enough: if the
#: first is the toleration in question itself, the second is the other one that may cover it.
_BEST: Final = 2

#: key, effect, operator, and the value where the operator compares it
_Group = tuple[str, str, str, str]


def covers(one: Toleration, other: Toleration) -> bool:
    """Whether `one` tolerates whatever `other` tolerates, for at least as long, as Go sees it.

    1. Equal tolerations cover each other.
    2. The keys are equal, or `one` has none and the operator Exists.
    3. The effects are equal, or `one` has none.
    4. With the effect NoExecute, `one` tolerates for ever or `other` no longer than it.
    5. `one` is Exists; or it is Equal or has no operator, and `other` is spelled Equal with the
       same value. Any other operator covers only its equals.
    """
    if one == other:
        return True
    if one.key != other.key and (one.key or one.operator != _EXISTS):
        return False
    if one.effect not in ("", other.effect):
        return False
    if one.effect == NO_EXECUTE and _reach(one) < _reach(other):
        return False
    if one.operator in ("", _EQUAL):
        return other.operator == _EQUAL and one.value == other.value
    return one.operator == _EXISTS


def _reach(toleration: Toleration) -> float:
    """For how long it tolerates NoExecute; 0 where that does not matter."""
    if toleration.effect != NO_EXECUTE:
        return 0
    return math.inf if toleration.seconds is None else toleration.seconds


class _Covering:
    """Tolerations by what they cover. Owned by one call of `surviving`.

    `revision` changes whenever a toleration is added that may cover more than those before it.
    """

    def __init__(self) -> None:
        self.revision = 0
        self._groups: dict[_Group, list[Toleration]] = {}
        self._any_key = False
        self._any_effect = False

    def add(self, toleration: Toleration) -> None:
        key, operator, value, effect, _ = toleration
        if operator == _EXISTS:
            value = ""
            self._any_key = self._any_key or not key
        elif operator not in ("", _EQUAL):
            return
        self._any_effect = self._any_effect or not effect
        best = self._groups.setdefault((key, effect, operator, value), [])
        if toleration in best:
            return
        self.revision += 1
        best.append(toleration)
        if len(best) > 1:
            best.sort(key=_reach, reverse=True)
            del best[_BEST:]

    def has_other_that_covers(self, toleration: Toleration) -> bool:
        """Whether a toleration that is not equal to this one covers it."""
        key, operator, value, effect, _ = toleration
        for of_effect in (effect, "") if effect and self._any_effect else (effect,):
            groups: list[_Group] = [(key, of_effect, _EXISTS, "")]
            if key and self._any_key:
                groups.append(("", of_effect, _EXISTS, ""))
            if operator == _EQUAL:
                groups.append((key, of_effect, _EQUAL, value))
                groups.append((key, of_effect, "", value))
            for group in groups:
                for candidate in self._groups.get(group, ()):
                    if candidate != toleration and covers(candidate, toleration):
                        return True
        return False


def surviving(of_pod: Iterable[Toleration], of_class: Iterable[Toleration]) -> list[int]:
    """The indexes, in the pod's list followed by the class's, of the tolerations that stay.

    One is dropped when a later one that is not equal to it covers it, or an earlier one that stays.
    """
    tolerations: Sequence[Toleration] = [*of_pod, *of_class]
    covered_later = _covered_later(tolerations)
    kept = _Covering()
    seen: set[Toleration] = set()
    places = []
    for place, toleration in enumerate(tolerations):
        if covered_later[place] or toleration in seen or kept.has_other_that_covers(toleration):
            continue
        seen.add(toleration)
        kept.add(toleration)
        places.append(place)
    return places


def _covered_later(tolerations: Sequence[Toleration]) -> bytearray:
    """For each index, whether a later toleration that is not equal covers it."""
    later = _Covering()
    # The result for an equal toleration later in the list holds here if it is true, and if it is
    # false until the revision changes.
    covered: set[Toleration] = set()
    uncovered: dict[Toleration, int] = {}
    result = bytearray(len(tolerations))
    for place in range(len(tolerations) - 1, -1, -1):
        toleration = tolerations[place]
        if toleration in covered:
            result[place] = True
        elif uncovered.get(toleration) != later.revision:
            if later.has_other_that_covers(toleration):
                covered.add(toleration)
                result[place] = True
            later.add(toleration)
            uncovered[toleration] = later.revision
    return result
