"""What an update of a RuntimeClass breaks, for the warning that its author gets."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from msgspec import Raw

from extender.cluster.snapshot_store import SnapshotStore
from extender.inventory.impact import View
from extender.kubernetes.decoder import decode
from extender.kubernetes.runtime_classes import RawRuntimeClass, runtime_class_of
from extender.model.names import text_of
from extender.model.objects import ClassRules, Condition, Node
from extender.model.reasons import number_of, shown
from extender.rules.node_checks import Policy
from extender.rules.pod_state import PodGroup
from extender.rules.pools import nodes_of
from extender.rules.snapshot import Snapshot, SnapshotSource


@dataclass(frozen=True, slots=True)
class ImpactWarning:
    """groups: the number of pods in each group, None while they are not known."""

    source: SnapshotSource
    groups: Callable[[], Mapping[PodGroup, int] | None]

    def __call__(self, raw: Raw) -> tuple[str, ...]:
        """The warnings about a class as it would be. Raises DecodeError."""
        changed = runtime_class_of(decode(raw, RawRuntimeClass, "RuntimeClass"))
        name, snapshot, groups = changed.name, self.source.snapshot, self.groups()
        if not snapshot.is_synced or groups is None:
            return ("what this change breaks is not told: pods and nodes are not known yet",)
        # Of conditions only those are known that some class asks for today.
        new = frozenset((changed.rules or ClassRules()).conditions)
        new -= {each for shape in snapshot.shapes.shapes for each in shape.conditions}
        store = SnapshotStore()
        classes = {**snapshot.runtime_classes, name: changed}
        store.replace_all(_nodes_in(snapshot, new), classes.values())
        before, after = (View(each, {}, Policy()) for each in (snapshot, store.snapshot))
        stranded, reason = 0, ""
        for group, number in groups.items():
            if group.runtime_class_name == name and not before.unfit(group.example):
                found = after.unfit(group.example)
                stranded += number if found else 0
                reason = reason or found
        counts = [
            sum(name in each for each in view.classes_by_node().values())
            for view in (before, after)
        ]
        return tuple(_texts(shown(name), stranded, reason, *counts))


def _texts(name: str, stranded: int, reason: str, before: int, after: int) -> Iterator[str]:
    if stranded:
        told = f"{number_of(stranded, 'pod')} could not start again on the node"
        yield f'RuntimeClass "{name}": {told}: {reason}'
    if after < before:
        yield f'RuntimeClass "{name}": new pods keep {after} of {number_of(before, "node")}'


def _nodes_in(snapshot: Snapshot, assumed: frozenset[Condition]) -> Iterator[Node]:
    found = nodes_of(snapshot)
    for place, (name, number) in enumerate(zip(found.names, found.ids, strict=True)):
        shape = snapshot.shapes[number]
        yield Node(
            text_of(name),
            found.labels(place),
            shape.taints,
            shape.handlers,
            shape.unschedulable,
            shape.is_docker,
            shape.kubelet,
            conditions=shape.conditions | assumed,
        )
