"""The filter verb: which of the asked nodes can run the pod, and why the others can't.

All refusals belong into FailedAndUnresolvableNodes: no preemption makes a node match a
RuntimeClass (pkg/scheduler/extender.go Filter and framework/preemption, v1.36.2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final, TypeVar

from extender.verbs.matching import Verdicts, group_refusals
from extender.verdict import Code

T = TypeVar("T")

#: The group of the nodes that pass.
PASSES: Final = 0

_BYTE_VALUES: Final = 256


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The nodes of a request by group, one byte per node in the order asked.

    Group PASSES passes, group n is refused with texts[n - 1]; sizes has the nodes per group.
    reasons counts the refused nodes by short code.
    """

    groups: bytes
    texts: Sequence[str]
    sizes: Sequence[int]
    reasons: Mapping[Code, int]

    @property
    def passing(self) -> int:
        """How many nodes pass."""
        return self.sizes[PASSES]

    @property
    def leaves_none(self) -> bool:
        """There were nodes, and none of them passes."""
        return not self.passing and bool(self.texts)

    def pick(self, items: Sequence[T], group: int) -> Sequence[T]:
        """Of items in the order asked those of one group."""
        mask = bytes(value == group for value in range(_BYTE_VALUES))
        return list(compress(items, self.groups.translate(mask)))


def sort_nodes(verdicts: Verdicts) -> FilterResult:
    """Group the nodes of a request by what is said of them."""
    refusals = group_refusals(verdicts)
    group_of = {
        code: number
        for number, group in enumerate(refusals.groups, PASSES + 1)
        for code in group.codes
    }
    codes = verdicts.codes
    if isinstance(codes, bytes):
        table = bytearray(_BYTE_VALUES)
        for code, number in group_of.items():
            table[code] = number
        groups = codes.translate(table)
    else:
        groups = bytes(group_of.get(code, PASSES) for code in codes)
    refused = [group.size for group in refusals.groups]
    return FilterResult(
        groups,
        [group.text for group in refusals.groups],
        [len(groups) - sum(refused), *refused],
        refusals.counts,
    )
