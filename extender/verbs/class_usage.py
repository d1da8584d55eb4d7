"""How the RuntimeClasses are used: nodes, pods and overhead, by class and by pool."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from extender.objects import Amounts, RuntimeClass
from extender.predicates.node_checks import Policy
from extender.predicates.resource_fit import amount_text, amounts_in_billionths, counted
from extender.snapshot import Snapshot
from extender.using_objects import PlacedPod
from extender.verbs.class_nodes import verdicts_of_class
from extender.verbs.placement import State
from extender.verbs.pools import Pools


@dataclass(slots=True)
class NodeCounts:
    """total nodes, those that match the class, and of these the ones that are ready."""

    matching: int = 0
    ready: int = 0
    total: int = 0


@dataclass(slots=True)
class PodUse:
    """Pods by state, and the overhead of those that have a node, in billionths."""

    states: Counter[State] = field(default_factory=Counter)
    overhead: Counter[str] = field(default_factory=Counter)

    def add(self, other: "PodUse") -> None:
        """Add the pods of another count."""
        self.states.update(other.states)
        self.overhead.update(other.overhead)

    @property
    def running(self) -> int:
        """Pods that have a node, stranded and drifted ones too."""
        return self.states.total() - self.states[State.PENDING]

    @property
    def pending(self) -> int:
        return self.states[State.PENDING]


class Usage:
    """Counts pods by class, and by class and pool where there are pools. For one thread.

    Pools: by their position; a pod without a node, or on one that is not known, is in none.
    """

    def __init__(self, pools: Pools | None = None) -> None:
        self._pools = pools
        self.by_class: dict[str, PodUse] = {}
        self.by_pool: dict[tuple[str, int], PodUse] = {}
        self._amounts: dict[tuple[tuple[str, str], ...], Amounts] = {}

    def count(self, pod: PlacedPod, state: State, number: int = 1) -> None:
        """Count one pod, or several equal ones."""
        amounts = self._amounts_of(pod.overhead) if pod.node else {}
        uses = [self.by_class.setdefault(pod.runtime_class_name, PodUse())]
        if self._pools is not None and pod.node:
            position = self._pools.of_node.get(pod.node.encode("utf-8", "replace"))
            if position is not None:
                key = pod.runtime_class_name, position
                uses.append(self.by_pool.setdefault(key, PodUse()))
        for use in uses:
            use.states[state] += number
            for name, amount in amounts.items():
                use.overhead[name] += amount * number

    def _amounts_of(self, overhead: Mapping[str, str]) -> Amounts:
        key = tuple(overhead.items())
        amounts = self._amounts.get(key)
        if amounts is None:
            if len(self._amounts) >= _MAX_REMEMBERED:
                self._amounts.clear()
            amounts = self._amounts[key] = amounts_in_billionths(overhead)
        return amounts


#: The number of overheads whose parsed form is remembered; a class has one.
_MAX_REMEMBERED = 1024


def overhead_texts(overhead: Amounts) -> Mapping[str, str]:
    """An overhead in billionths as people write it, by name."""
    return {name: amount_text(name, value) for name, value in sorted(counted(overhead).items())}


def nodes_of_each(
    classes: Iterable[RuntimeClass],
    snapshot: Snapshot,
    not_ready: Collection[bytes],
    policy: Policy,
    pools: Pools | None = None,
) -> Mapping[str, tuple[NodeCounts, Sequence[NodeCounts]]]:
    """By class: the counts of all nodes, and those of each pool.

    not_ready: names of the nodes whose kubelet does not say that it is ready.
    """
    members = [each.nodes for each in pools.pools] if pools else []
    found = {}
    for each in classes:
        table = verdicts_of_class(each, snapshot.shapes.shapes, policy)
        passes = [table.reasons[code] is None for code in table.codes]

        def count(nodes: Iterable[bytes], passes: Sequence[bool] = passes) -> NodeCounts:
            counts = NodeCounts()
            for name in nodes:
                counts.total += 1
                if passes[snapshot.nodes[name]]:
                    counts.matching += 1
                    counts.ready += name not in not_ready
            return counts

        found[each.name] = count(snapshot.nodes), [count(nodes) for nodes in members]
    return found
