"""The verdict for each node of a request, in columns: one code a node, and what codes mean."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Final, NamedTuple, TypeVar

from extender.names import NameRun, tally
from extender.objects import Node, Pod, RuntimeClass, shape_of
from extender.predicates.runtimeclass import Policy, Requirements, reason_for_all_nodes
from extender.snapshot import Snapshot
from extender.verdict import Code, Reason

T = TypeVar("T")

#: Different details an answer carries; the rest of the reasons take their plain form. The event
#: that kube-scheduler makes of them is cut at 1,024 characters.
MAX_DETAILS: Final = 8

_BYTE_VALUES: Final = 256


@dataclass(frozen=True, slots=True)
class Verdicts:
    """One code per node of the request, in its order; reasons[code] is None where it passes."""

    codes: Sequence[int]
    reasons: tuple[Reason | None, ...]

    @classmethod
    def uniform(cls, count: int, reason: Reason | None) -> "Verdicts":
        return cls(bytes(count), (reason,))

    def counts(self) -> Mapping[int, int]:
        """How many nodes have each code that occurs."""
        if not isinstance(self.codes, bytes):
            return Counter(self.codes)
        return tally(self.codes, len(self.reasons))

    def select(self, items: Sequence[T], wanted: Iterable[int]) -> Sequence[T]:
        """The items whose code is one of `wanted`, in order."""
        wanted = set(wanted)
        if len(wanted) == len(self.reasons):
            return items
        if isinstance(self.codes, bytes):
            mask = bytes(code in wanted for code in range(_BYTE_VALUES))
            return list(compress(items, self.codes.translate(mask)))
        return list(compress(items, map(wanted.__contains__, self.codes)))

    def passing(self, items: Sequence[T]) -> Sequence[T]:
        return self.select(items, [c for c, reason in enumerate(self.reasons) if reason is None])


class RefusalGroup(NamedTuple):
    """The nodes that are refused with one text; codes are those of the verdicts in it."""

    text: str
    codes: tuple[int, ...]
    size: int

    def joined(self, other: "RefusalGroup | None") -> "RefusalGroup":
        """With the nodes of another group, under this one's text."""
        if other is None:
            return self
        return RefusalGroup(self.text, self.codes + other.codes, self.size + other.size)


class Refusals(NamedTuple):
    """The reasons of an answer: its texts, and how many nodes each short code has."""

    groups: tuple[RefusalGroup, ...]
    counts: Mapping[Code, int]


def group_refusals(verdicts: Verdicts) -> Refusals:
    """Give each refused node its text: details for the MAX_DETAILS most frequent, then by text."""
    groups: dict[str, RefusalGroup] = {}
    counts: dict[Code, int] = {}
    plain: dict[str, str] = {}
    for code, count in verdicts.counts().items():
        reason = verdicts.reasons[code]
        if reason is None:
            continue
        text = reason.text
        groups[text] = RefusalGroup(text, (code,), count).joined(groups.get(text))
        counts[reason.code] = counts.get(reason.code, 0) + count
        if reason.is_detailed:
            plain[text] = reason.plain
    if len(plain) > MAX_DETAILS:
        ranked = sorted(plain, key=lambda text: (-groups[text].size, text))
        for text in ranked[MAX_DETAILS:]:
            folded, short = groups.pop(text), plain[text]
            groups[short] = folded._replace(text=short).joined(groups.get(short))
    return Refusals(tuple(groups.values()), counts)


def _decided_by_pod(pod: Pod, runtime_class: RuntimeClass | None, count: int) -> Verdicts | None:
    """The verdicts where they do not depend on the nodes."""
    if pod.is_unconstrained:
        return Verdicts.uniform(count, None)
    of_all = reason_for_all_nodes(pod, runtime_class)
    return Verdicts.uniform(count, of_all) if of_all else None


def match_names(
    pod: Pod,
    runtime_class: RuntimeClass | None,
    snapshot: Snapshot,
    names: NameRun,
    policy: Policy,
) -> Verdicts:
    """Judge nodes of the snapshot by name.

    runtime_class is the one the pod names, None where it names none or there is none.
    """
    decided = _decided_by_pod(pod, runtime_class, names.count)
    if decided is not None:
        return decided
    table = snapshot.shapes.verdicts(pod, runtime_class, policy)
    return Verdicts(snapshot.nodes.translate(names, table.codes), table.reasons)


def match_nodes(
    pod: Pod, runtime_class: RuntimeClass | None, nodes: Sequence[Node], policy: Policy
) -> Verdicts:
    """Judge nodes as the request describes them; nothing of the snapshot's nodes is used."""
    decided = _decided_by_pod(pod, runtime_class, len(nodes))
    if decided is not None:
        return decided
    requirements = Requirements.of(pod, runtime_class, policy)
    selector = runtime_class.node_selector if runtime_class else ()
    number: dict[Reason | None, int] = {None: 0}
    known: dict[tuple[object, ...], int] = {}
    codes = []
    for node in nodes:
        # Taints and handlers of equal text are mostly one object (NodeReader): telling them apart
        # by identity, some are judged twice, which does no harm, but none is hashed.
        labels = node.labels
        has = tuple([labels.get(key) == value for key, value in selector])
        flags = (node.unschedulable, node.is_docker, node.is_windows)
        key = (has, id(node.taints), id(node.handlers), flags)
        code = known.get(key)
        if code is None:
            reason = requirements.mismatch(shape_of(node, frozenset(selector)))
            code = known[key] = number.setdefault(reason, len(number))
        codes.append(code)
    return Verdicts(bytes(codes) if len(number) <= _BYTE_VALUES else codes, tuple(number))
