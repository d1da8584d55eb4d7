"""The verdicts for a request's nodes in columns: a code for each node, a reason for each code."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Final, NamedTuple, NewType, TypeVar

from extender.names import tally
from extender.reasons import Code, Reason

T = TypeVar("T")

#: How many reasons of an answer have details; the others take their plain form, since
#: kube-scheduler cuts its event at 1,024 characters.
MAX_DETAILS: Final = 8

_BYTE_VALUES: Final = 256

#: The index of a reason among those of some verdicts.
VerdictCode = NewType("VerdictCode", int)


class Verdicts(NamedTuple):
    """One code per node of the request, in its order; reasons[code] is None where it passes."""

    codes: Sequence[int]
    reasons: tuple[Reason | None, ...]

    @classmethod
    def uniform(cls, count: int, reason: Reason | None) -> "Verdicts":
        return cls(bytes(count), (reason,))

    def sizes(self) -> Sequence[int]:
        """How many nodes have each code."""
        codes, kinds = self.codes, len(self.reasons)
        if isinstance(codes, bytes):
            return tally(codes, kinds)
        counted = Counter(codes)
        return [counted[code] for code in range(kinds)]

    def select(self, items: Sequence[T], wanted: Iterable[VerdictCode]) -> Sequence[T]:
        """The items whose code is one of `wanted`, in order."""
        wanted = set(wanted)
        if len(wanted) == len(self.reasons):
            return items
        if isinstance(self.codes, bytes):
            mask = bytes(code in wanted for code in range(_BYTE_VALUES))
            return list(compress(items, self.codes.translate(mask)))
        return list(compress(items, map(wanted.__contains__, self.codes)))

    @property
    def passes(self) -> bytes:
        """1 for each node that passes, 0 for each other one."""
        if isinstance(self.codes, bytes):
            mask = bytes(reason is None for reason in self.reasons)
            return self.codes.translate(mask.ljust(_BYTE_VALUES, b"\0"))
        return bytes(self.reasons[code] is None for code in self.codes)

    def passing(self, items: Sequence[T]) -> Sequence[T]:
        codes = (VerdictCode(code) for code, each in enumerate(self.reasons) if each is None)
        return self.select(items, codes)


class RefusalGroup(NamedTuple):
    """The nodes that are refused with one text; codes are the verdict codes with this text."""

    text: str
    codes: tuple[VerdictCode, ...]
    size: int

    def joined(self, other: "RefusalGroup | None") -> "RefusalGroup":
        """This group with the nodes of another one added, under this one's text."""
        if other is None:
            return self
        return RefusalGroup(self.text, self.codes + other.codes, self.size + other.size)


class Refusals(NamedTuple):
    """The refusals of an answer by text, and the number of nodes by short code."""

    groups: tuple[RefusalGroup, ...]
    counts: Mapping[Code, int]


def group_refusals(verdicts: Verdicts) -> Refusals:
    """Give each refused node its text: details for the MAX_DETAILS most frequent, then by text."""
    groups: dict[str, RefusalGroup] = {}
    counts: dict[Code, int] = {}
    plain: dict[str, str] = {}
    for code, (reason, count) in enumerate(zip(verdicts.reasons, verdicts.sizes(), strict=True)):
        if reason is None or not count:
            continue
        text = reason.text
        group = RefusalGroup(text, (VerdictCode(code),), count)
        groups[text] = group.joined(groups.get(text))
        counts[reason.code] = counts.get(reason.code, 0) + count
        if reason.is_detailed:
            plain[text] = reason.plain
    if len(plain) > MAX_DETAILS:
        ranked = sorted(plain, key=lambda text: (-groups[text].size, text))
        for text in ranked[MAX_DETAILS:]:
            folded, short = groups.pop(text), plain[text]
            groups[short] = folded._replace(text=short).joined(groups.get(short))
    return Refusals(tuple(groups.values()), counts)
