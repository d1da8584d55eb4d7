"""The cluster at a glance: for each RuntimeClass and node pool how many nodes match.

Judged as without a pod (`extender.verbs.class_nodes`): condition taints are left aside.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from extender.objects import RuntimeClass
from extender.predicates.node_checks import Policy
from extender.shape import Shape
from extender.snapshot import Snapshot
from extender.verbs.class_nodes import verdicts_of_class
from extender.verbs.pools import Pool, pools_of


@dataclass(frozen=True, slots=True)
class Cell:
    """The nodes of one pool, as a RuntimeClass sees them; why has the most frequent detail."""

    matching: int
    total: int
    why: str = ""


class Overview:
    """The nodes of a snapshot counted by pool and shape, from which any class's row is made.

    pools are in the order of their names; total is the number of nodes.
    """

    def __init__(self, snapshot: Snapshot, pool_labels: Sequence[str] = ()) -> None:
        found = pools_of(snapshot, pool_labels)
        self.pools: Sequence[Pool] = found.pools
        self.total = len(snapshot.nodes)
        ids = snapshot.nodes
        self._counts: Sequence[Mapping[int, int]] = [
            Counter(ids[name] for name in pool.nodes) for pool in found.pools
        ]

    def row(
        self, runtime_class: RuntimeClass, shapes: Sequence[Shape], policy: Policy
    ) -> Sequence[Cell]:
        """How many nodes of each pool match the class, in the order of the pools.

        shapes are those of the snapshot, or of a later one with the same nodes.
        """
        table = verdicts_of_class(runtime_class, shapes, policy)
        cells = []
        for counts in self._counts:
            by_code: Counter[int] = Counter()
            for shape_id, count in counts.items():
                by_code[table.codes[shape_id]] += count
            matching = by_code.pop(0, 0)
            why = ""
            if by_code:
                reason = table.reasons[min(by_code, key=lambda code: (-by_code[code], code))]
                why = reason.detail if reason else ""
            cells.append(Cell(matching, sum(counts.values()), why))
        return cells
