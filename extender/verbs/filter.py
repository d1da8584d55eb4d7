"""The filter verb: which of the asked nodes can run the pod, and why the others can't.

All refusals belong in FailedAndUnresolvableNodes: no preemption makes a node match a RuntimeClass
(pkg/scheduler/extender.go Filter and framework/preemption, v1.36.2).
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Final, NamedTuple, NewType, TypeVar

from extender.names import NameRun
from extender.objects import Node, Pod, RuntimeClass
from extender.predicates.node_checks import Policy, Requirements, reason_for_all_nodes
from extender.predicates.shape_parts import Wanted
from extender.reasons import Code, Reason
from extender.snapshot import Snapshot
from extender.verbs.verdicts import MAX_DETAILS, Verdicts, group_refusals

T = TypeVar("T")

#: The number of a text in an answer, from 1; PASSES is that of the nodes that pass.
Group = NewType("Group", int)
PASSES: Final = Group(0)

_BYTE_VALUES: Final = 256

#: Reasons that do not depend on the nodes.
_DECIDED_WITHOUT_NODES: Final = frozenset({Code.NOT_FOUND, Code.CONFLICT, Code.UNSUPPORTED})


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
    return Verdicts(snapshot.table.nodes.translate(names, table.codes), table.reasons)


def match_nodes(
    pod: Pod, runtime_class: RuntimeClass | None, nodes: Sequence[Node], policy: Policy
) -> Verdicts:
    """Judge nodes as the request describes them; nothing of the snapshot's nodes is used."""
    decided = _decided_by_pod(pod, runtime_class, len(nodes))
    if decided is not None:
        return decided
    requirements = Requirements.of(pod, runtime_class, policy)
    selector = runtime_class.node_selector if runtime_class else ()
    wanted = Wanted.of((runtime_class,) if runtime_class else ())
    has_rules = wanted.is_more_than_entries
    number: dict[Reason | None, int] = {None: 0}
    known: dict[tuple[object, ...], int] = {}
    codes = []
    for node in nodes:
        # Taints, handlers and kubelets of equal text are mostly one object (NodeReader): telling
        # them apart by identity, some are judged twice, which does no harm, but none is hashed.
        labels = node.labels
        has = tuple([labels.get(key) == value for key, value in selector])
        flags = (node.unschedulable, node.is_docker)
        key: tuple[object, ...] = (
            has,
            id(node.taints),
            id(node.handlers),
            id(node.kubelet),
            flags,
        )
        if has_rules:
            key = (*key, wanted.met_by(labels, node.name), id(node.conditions))
        code = known.get(key)
        if code is None:
            reason = requirements.mismatch(wanted.shape_of(node))
            code = known[key] = number.setdefault(reason, len(number))
        codes.append(code)
    return Verdicts(bytes(codes) if len(number) <= _BYTE_VALUES else codes, tuple(number))


class FilterResult(NamedTuple):
    """The nodes of a request by group, one byte per node in the order asked.

    Group PASSES passes, and has `passing` nodes; group n is refused with texts[n - 1], and has
    refused[n - 1] nodes, 0 where a text is none's. reasons counts the refused nodes by short code.
    """

    groups: bytes
    texts: Sequence[str]
    passing: int
    refused: Sequence[int]
    reasons: Mapping[Code, int]

    @property
    def depends_on_nodes(self) -> bool:
        """Whether some node is refused for what the node is, which may change."""
        return not self.reasons.keys() <= _DECIDED_WITHOUT_NODES

    @property
    def leaves_none(self) -> bool:
        """There were nodes, and none of them passes."""
        return not self.passing and bool(self.groups)

    @property
    def why(self) -> tuple[tuple[int, str], ...]:
        """The number of nodes for each text that occurs, and the text."""
        refused = zip(self.refused, self.texts, strict=True)
        return tuple(each for each in refused if each[0])

    def pick(self, items: Sequence[T], group: Group) -> Sequence[T]:
        """The items of one group, in the order asked."""
        mask = bytes(value == group for value in range(_BYTE_VALUES))
        return list(compress(items, self.groups.translate(mask)))


def sort_nodes(verdicts: Verdicts) -> FilterResult:
    """Group the nodes of a request by the text of their refusal."""
    if len(verdicts.reasons) <= MAX_DETAILS + 1 and verdicts.reasons[PASSES] is None:
        return _sort_by_code(verdicts)
    refusals = group_refusals(verdicts)
    group_of: dict[int, Group] = {
        code: Group(number)
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
        len(groups) - sum(refused),
        refused,
        refusals.counts,
    )


def _sort_by_code(verdicts: Verdicts) -> FilterResult:
    """As sort_nodes, where there are so few reasons that each keeps its detail and is a group."""
    passing, *refused = verdicts.sizes()  # the codes are the groups here
    by_code: dict[Code, int] = {}
    texts = []
    for reason, size in zip(verdicts.reasons[PASSES + 1 :], refused, strict=True):
        assert reason is not None  # it is that of the nodes that pass
        texts.append(reason.text)
        if size:
            by_code[reason.code] = by_code.get(reason.code, 0) + size
    return FilterResult(bytes(verdicts.codes), texts, passing, refused, by_code)


def filter_names(
    pod: Pod,
    runtime_class: RuntimeClass | None,
    snapshot: Snapshot,
    names: NameRun,
    policy: Policy,
) -> FilterResult:
    """The answer about nodes of the snapshot; runtime_class as in match_names."""
    return sort_nodes(match_names(pod, runtime_class, snapshot, names, policy))


def filter_nodes(
    pod: Pod, runtime_class: RuntimeClass | None, nodes: Sequence[Node], policy: Policy
) -> FilterResult:
    """The answer about nodes as the request describes them."""
    return sort_nodes(match_nodes(pod, runtime_class, nodes, policy))


def look_again(
    result: FilterResult,
    pod: Pod,
    newer: Iterable[tuple[RuntimeClass | None, Snapshot]],
    names: NameRun,
    policy: Policy,
) -> FilterResult:
    """Judge a pod that has no node left by newer snapshots, until one leaves it a node.

    kube-scheduler may have received a node's event before this service: newer yields the snapshots
    as they come, each with the pod's RuntimeClass in it. The last result counts.
    """
    for runtime_class, snapshot in newer:
        result = filter_names(pod, runtime_class, snapshot, names, policy)
        if not result.leaves_none:
            break
    return result
