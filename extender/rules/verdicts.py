"""Verdicts about nodes, with the reasons of refusals: by shape, and by node of a request."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Final, NamedTuple, NewType, TypeVar

from extender.model.names import ShapeId, tally
from extender.model.objects import Pod, RuntimeClass, Taint
from extender.model.pod_needs import PodNeeds
from extender.model.reasons import UNKNOWN_NODE, Code, Reason
from extender.rules.node_checks import Policy, Requirements
from extender.rules.node_shape import Shape

T = TypeVar("T")

#: The most verdict tables cached for a set of shapes, one per RuntimeClass and tolerated taints. A
#: table has a byte per shape, or 8 if over 256 reasons: 1,024 tables of 5,000 shapes are 5 MB.
MAX_TABLES: Final = 1024

#: The most reasons in all these tables. At about 300 bytes each they take 30 MB.
MAX_REASONS: Final = 100_000

#: The most cache entries by PodNeeds. Each is only a shortcut to a table.
MAX_REMEMBERED_PODS: Final = 1024

#: The index of a reason in Verdicts.reasons.
VerdictCode = NewType("VerdictCode", int)


class Verdicts(NamedTuple):
    """One code per node of a request, or per shape id. reasons[code] is None if the node passes."""

    codes: Sequence[int]
    reasons: tuple[Reason | None, ...]

    @classmethod
    def of(cls, codes: Sequence[int], reasons: tuple[Reason | None, ...]) -> "Verdicts":
        return cls(bytes(codes) if len(reasons) <= 256 else codes, reasons)

    @classmethod
    def uniform(cls, count: int, reason: Reason | None) -> "Verdicts":
        return cls(bytes(count), (reason,))

    def reason(self, place: int) -> Reason | None:
        """Why the node of a place or of a shape id is refused, None if it passes."""
        return self.reasons[self.codes[place]]

    def sizes(self) -> Sequence[int]:
        """The number of nodes with each code."""
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
            mask = bytes(code in wanted for code in range(256))
            return list(compress(items, self.codes.translate(mask)))
        return list(compress(items, map(wanted.__contains__, self.codes)))

    @property
    def passes(self) -> bytes:
        """A byte for each node: 1 if it passes, else 0."""
        if isinstance(self.codes, bytes):
            mask = bytes(reason is None for reason in self.reasons)
            return self.codes.translate(mask.ljust(256, b"\0"))
        return bytes(self.reasons[code] is None for code in self.codes)

    def with_passing(self, places: Sequence[int]) -> "Verdicts":
        """The same verdicts, but the nodes at these places of the request pass."""
        if not places:
            return self
        reasons = self.reasons if None in self.reasons else (*self.reasons, None)
        codes = list(self.codes)
        for place in places:
            codes[place] = reasons.index(None)
        return Verdicts.of(codes, reasons)

    def passing(self, items: Sequence[T]) -> Sequence[T]:
        codes = (VerdictCode(code) for code, each in enumerate(self.reasons) if each is None)
        return self.select(items, codes)


#: The verdicts by shape id if there are no shapes: only the unknown node, id 0, which is refused.
NO_SHAPES: Final = Verdicts(bytes([1]), (None, UNKNOWN_NODE))


def extended(
    verdicts: Verdicts, shapes: Sequence[Shape], mismatch: Callable[[Shape], Reason | None]
) -> Verdicts:
    """The verdicts by shape id, extended to the shapes that they do not cover yet.

    mismatch: returns why a node of a shape is refused, None if it passes.
    """
    number = {reason: code for code, reason in enumerate(verdicts.reasons)}
    # codes[0] is the unknown node's code, so the shape of id n is shapes[n - 1].
    added = map(mismatch, shapes[len(verdicts.codes) - 1 :])
    codes = [*verdicts.codes, *(number.setdefault(each, len(number)) for each in added)]
    return Verdicts.of(codes, tuple(number))


class Shapes:
    """The different shapes of a cluster's nodes, with the verdicts computed so far.

    self[id] is the shape of that id. All threads, and all snapshots with the same shapes, share the
    verdict tables. Tables are replaced whole: if two threads race, work is only done twice.
    """

    __slots__ = ("_by_pod", "_tables", "shapes", "taints")

    def __init__(self, shapes: tuple[Shape, ...] = (), previous: "Shapes | None" = None) -> None:
        """previous: has the first of these shapes. Its tables are extended when they are needed."""
        self.shapes = shapes
        self.taints: tuple[Taint, ...] = tuple(
            dict.fromkeys(taint for shape in shapes for taint in shape.taints)
        )
        self._tables: Mapping[object, Verdicts] = previous._tables if previous else {}
        self._by_pod: dict[object, Verdicts] = {}

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, shape_id: ShapeId) -> Shape:
        return self.shapes[shape_id - 1]

    def verdicts(self, pod: Pod, runtime_class: RuntimeClass | None, policy: Policy) -> Verdicts:
        """The verdict of every shape for this pod and class. Safe to call from any thread."""
        needs = pod.needs
        key = (runtime_class, needs, policy)
        table = self._by_pod.get(key)
        if table is None:
            table = self._table(needs, runtime_class, policy)
            if needs.is_small:
                if len(self._by_pod) >= MAX_REMEMBERED_PODS:
                    self._by_pod.clear()
                self._by_pod[key] = table
        return table

    def _table(
        self, needs: PodNeeds, runtime_class: RuntimeClass | None, policy: Policy
    ) -> Verdicts:
        """The table for these needs. Pods that tolerate the same existing taints share a table."""
        requirements = Requirements.of(needs, runtime_class, policy)
        if requirements.of_all is not None:
            return Verdicts.uniform(len(self.shapes) + 1, requirements.of_all)
        tolerates = requirements.tolerations.tolerates
        tolerated = frozenset(taint for taint in self.taints if tolerates(taint))
        # Checks of a shape read none of these fields; `tolerated` stands for the tolerations.
        shared = needs._replace(node_selector=(), tolerations=(), uses=None)
        key = (runtime_class, tolerated, shared, policy)
        table = self._tables.get(key, NO_SHAPES)
        if len(table.codes) <= len(self.shapes):
            table = extended(table, self.shapes, requirements.mismatch)
            if not shared.is_small:
                return table
            tables = {**self._tables, key: table}
            reasons = sum(len(each.reasons) for each in tables.values())
            if len(tables) > MAX_TABLES or reasons > MAX_REASONS:
                tables, self._by_pod = {key: table}, {}
            self._tables = tables
        return table


#: The most reasons with details in an answer. All others take their plain form, since
#: kube-scheduler cuts its event at 1,024 characters.
MAX_DETAILS: Final = 8


class RefusalGroup(NamedTuple):
    """The nodes that are refused with one text. codes: the verdict codes that have this text."""

    text: str
    codes: tuple[VerdictCode, ...]
    size: int


class Refusals(NamedTuple):
    """The refusals of an answer by text, and the number of refused nodes by reason code."""

    groups: tuple[RefusalGroup, ...]
    counts: Mapping[Code, int]


def group_refusals(verdicts: Verdicts) -> Refusals:
    """The refused nodes by text. MAX_DETAILS texts keep details: by most nodes, then by text."""
    sizes = verdicts.sizes()
    codes: dict[str, list[VerdictCode]] = {}
    counts: dict[Code, int] = {}
    for code, (reason, count) in enumerate(zip(verdicts.reasons, sizes, strict=True)):
        if reason is not None and count:
            codes.setdefault(reason.text, []).append(VerdictCode(code))
            counts[reason.code] = counts.get(reason.code, 0) + count

    def size(text: str) -> int:
        return sum(sizes[code] for code in codes[text])

    if len(codes) > MAX_DETAILS:
        detailed = (each for each in verdicts.reasons if each is not None and each.is_detailed)
        plain = {each.text: each.plain for each in detailed if each.text in codes}
        for text in sorted(plain, key=lambda text: (-size(text), text))[MAX_DETAILS:]:
            codes.setdefault(plain[text], []).extend(codes.pop(text))
    groups = (RefusalGroup(text, tuple(same), size(text)) for text, same in codes.items())
    return Refusals(tuple(groups), counts)
