"""What an update of a RuntimeClass breaks, for the warning that its author gets."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from msgspec import Raw

from extender.cluster.snapshot_store import SnapshotStore
from extender.inventory.impact import Comparison, View
from extender.kubernetes.decoder import decode
from extender.kubernetes.runtime_classes import RawRuntimeClass, runtime_class_of
from extender.model.names import text_of
from extender.model.objects import ClassRules, Node, RuntimeClass
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

    def __call__(self, raw: Raw) -> Iterator[str]:
        """The warnings about a class as it would be. Raises DecodeError."""
        changed = runtime_class_of(decode(raw, RawRuntimeClass, "RuntimeClass"))
        snapshot, groups = self.source.snapshot, self.groups()
        if not snapshot.is_synced or groups is None:
            yield "what this change breaks is not told: pods and nodes are not known yet"
            return
        store = SnapshotStore()
        classes = {**snapshot.runtime_classes, changed.name: changed}
        store.replace_all(_nodes_for(changed, snapshot), classes.values())
        before, after = (View(each, {}, Policy()) for each in (snapshot, store.snapshot))
        comparison = Comparison(before, after)
        reasons = Counter[str]()
        for group, number in groups.items():
            if group.runtime_class_name == changed.name:
                for broken in comparison.pods([group.example]):
                    reasons[broken["reason"]] += number
        about = f'RuntimeClass "{shown(changed.name)}"'
        if reasons:
            told = number_of(reasons.total(), "pod")
            yield f"{about}: {told} could not start again on the node: {next(iter(reasons))}"
        for each in comparison.nodes()["classes"]:
            had, has = each["nodesBefore"], each["nodesAfter"]
            if each["name"] == changed.name and has < had:
                yield f"{about}: new pods keep {has} of {number_of(had, 'node')}"


def _nodes_for(changed: RuntimeClass, snapshot: Snapshot) -> Iterator[Node]:
    # Of conditions only those are known that some class asks for today.
    assumed = frozenset((changed.rules or ClassRules()).conditions)
    assumed -= {each for shape in snapshot.shapes.shapes for each in shape.conditions}
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
