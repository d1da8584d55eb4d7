"""The filter verb: which of the asked nodes can run the pod, and why the others can't.

All refusals belong into FailedAndUnresolvableNodes: no preemption makes a node match a
RuntimeClass (pkg/scheduler/extender.go Filter and framework/preemption, v1.36.2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from extender.verbs.matching import Verdicts, group_refusals
from extender.verdict import Code

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class FilterResult(Generic[T_co]):
    """passing: items of the request in its order, the very sequence asked when all pass.

    refused: (text, names) per reason; a name asked twice is refused twice.
    counts: refused nodes by short code.
    """

    passing: Sequence[T_co]
    refused: Sequence[tuple[str, Sequence[bytes]]]
    counts: Mapping[Code, int]


def filter_nodes(verdicts: Verdicts, names: Sequence[bytes], items: Sequence[T]) -> FilterResult[T]:
    """Sort the items of a request into passing ones and refused names.

    items are the names themselves, or the nodes as they came; both in the order of verdicts.
    """
    refusals = group_refusals(verdicts)
    return FilterResult(
        verdicts.passing(items),
        [(group.text, verdicts.select(names, group.codes)) for group in refusals.groups],
        refusals.counts,
    )
