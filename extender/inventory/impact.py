"""What a change of RuntimeClasses, Nodes or Namespaces breaks: the cluster before and after it.

Both states are judged by the rules of other commands: pods by those of `pods`, workload templates
by `explain`, nodes by `nodes`, namespaces by `check`. An object breaks if its verdict is bad only
after the change, or if its class is deleted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec import Raw

from extender.admission.defaults import EXEMPT_NAMESPACES
from extender.admission.fit import as_admitted
from extender.admission.merging import TooManyTermsError
from extender.cluster.snapshot_store import SnapshotStore
from extender.explain.document import Document, texts_of
from extender.explain.explanation import explain, fit_error
from extender.explain.own_checks import AskVersion, Question
from extender.kubernetes.decoder import DecodeError, decode
from extender.kubernetes.namespaces import rules_of
from extender.kubernetes.runtime_classes import RawRuntimeClass, runtime_class_of
from extender.lint.registry import check_namespaces
from extender.model.errors import UsageError
from extender.model.finding import Severity
from extender.model.names import ShapeId, text_of
from extender.model.objects import NO_EXECUTE, ClassRules, Namespace, Node, Pod, RuntimeClass, Taint
from extender.model.reasons import not_found, number_of, shown
from extender.model.using_objects import PlacedPod, Workload
from extender.rules.class_nodes import ClassIndex
from extender.rules.node_checks import Policy, joined_tolerations
from extender.rules.node_shape import Shape
from extender.rules.pod_state import Placement, PodGroup
from extender.rules.pools import nodes_of
from extender.rules.snapshot import Snapshot, SnapshotSource
from extender.rules.tolerations import TolerationSet, find_untolerated_taint, tolerates_cordon


class Room(NamedTuple):
    """The number of nodes on which a template's pods can start, and the summary of `explain`."""

    nodes: int
    summary: str


class View:
    """The cluster before or after the change. For one thread."""

    def __init__(
        self,
        snapshot: Snapshot,
        namespaces: Mapping[str, Namespace],
        policy: Policy,
        version: AskVersion = lambda: None,
    ) -> None:
        self.snapshot = snapshot
        self.namespaces = namespaces
        self._version = cache(version)
        self.policy = policy
        self.unfit = Placement(snapshot, policy).unfit
        self._all = nodes_of(snapshot)
        # Nodes of equal shape and allocatable differ only in labels, and few templates select
        # labels. So one example of each group is judged; _sizes has the size of its group.
        examples = dict[tuple[ShapeId, bytes], bytes]()
        self._sizes = Counter[bytes]()
        for place, (name, number) in enumerate(zip(self._all.names, self._all.ids, strict=True)):
            self._sizes[examples.setdefault((number, self._all.allocatable(place)), name)] += 1
        self._examples = nodes_of(snapshot, list(self._sizes))
        self._known: dict[str, Room] = {}

    def room(self, pod: Pod) -> Room:
        """The room for a template's pods after admission. Cached: many differ only in name."""
        key = repr(replace(pod, namespace="", name=""))
        if key not in self._known:
            self._known[key] = self._judge(pod)
        return self._known[key]

    def _judge(self, pod: Pod) -> Room:
        runtime_class = self.snapshot.runtime_classes.get(pod.runtime_class_name)
        try:
            admitted = as_admitted(pod, runtime_class) if runtime_class else pod
        except TooManyTermsError as error:
            return Room(0, f"the terms of class and pod together have {error}")
        candidates, sizes = self._all, Counter[bytes]()
        if not pod.node_selector and pod.node_affinity is None:
            # The verdicts on shapes already cover the class's nodeSelector and terms.
            admitted = replace(admitted, node_selector={}, node_affinity=None)
            candidates, sizes = self._examples, self._sizes
        asked = Question(admitted, runtime_class, candidates, self.policy, self._version)
        found = explain(asked)
        if candidates is self._all:
            return Room(found.feasible, found.summary)
        counts = Counter[str]()
        for group in found.reasons:
            counts.update(dict.fromkeys(group.told, sum(map(sizes.__getitem__, group.nodes))))
        nodes = sum(map(sizes.__getitem__, found.passing))
        return Room(nodes, fit_error(nodes, len(self._all.names), counts))

    def evicting(self, node: str, tolerated: TolerationSet) -> Taint | None:
        """The NoExecute taint of a node that evicts pods with these tolerations."""
        shape = self.snapshot.shape(node.encode("utf-8", "replace")) or Shape()
        taints = (each for each in shape.taints if each.effect == NO_EXECUTE)
        return find_untolerated_taint(taints, tolerated)

    def refusal(self, namespace: str, runtime_class: str) -> str:
        """Why a namespace refuses pods of a class; "" if it accepts them or is not known."""
        found = self.namespaces.get(namespace)
        if found is None or namespace in EXEMPT_NAMESPACES:
            return ""
        rules = rules_of(namespace, found.annotations)
        violation = rules.violation(runtime_class, takes_default=True)
        return violation.text if violation else ""

    def faults(self, namespace: str) -> list[str]:
        """The errors that `check` finds in the rules of a namespace."""
        known = {name: self.namespaces[name] for name in [namespace] if name in self.namespaces}
        found = check_namespaces(known, self.snapshot.runtime_classes)
        return [each.what for each in found if each.severity is Severity.ERROR]

    def classes_by_node(self) -> Mapping[bytes, frozenset[str]]:
        """The classes that each node matches. A cordoned node needs a toleration of cordons."""
        index = ClassIndex(self.snapshot.runtime_classes.values(), self.policy.handler_check)
        found = [frozenset[str]()]
        for shape in self.snapshot.shapes.shapes:
            groups = [index.groups[number] for number in index.matching(shape)]
            found.append(
                frozenset(
                    name
                    for each in groups
                    if not shape.unschedulable
                    or tolerates_cordon(TolerationSet(each.example.tolerations))
                    for name in each.names
                )
            )
        return {name: found[number] for name, number in self.snapshot.nodes.items()}


@dataclass(slots=True)
class Comparison:
    """Finds what breaks. Call namespaces() last: it needs what pods() and workloads() have seen."""

    before: View
    after: View
    _named: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def _ends(self, name: str) -> bool:
        before, after = self.before.snapshot.runtime_classes, self.after.snapshot.runtime_classes
        return name in before and name not in after

    def _eviction(self, pod: PlacedPod) -> str:
        """Why the change evicts the pod; "" if it does not."""
        # A pod of a manifest may not be admitted, and so lack its class's tolerations.
        classes = {} if pod.created else self.before.snapshot.runtime_classes
        given, policy = classes.get(pod.runtime_class_name), self.before.policy
        own = joined_tolerations(pod.tolerations, given, policy)
        taint, known = (each.evicting(pod.node, own) for each in (self.after, self.before))
        return f"untolerated taint {shown(str(taint))} evicts it" if taint and not known else ""

    def pods(self, pods: Iterable[PlacedPod]) -> Iterator[Document]:
        """The pods that are evicted, or could not start again on their node after the change."""
        for pod in pods:
            name = pod.runtime_class_name
            self._named[pod.namespace].add(name)
            reason = self.after.unfit(pod)
            if not self._ends(name) and self.before.unfit(pod):
                reason = ""
            if reason := reason or self._eviction(pod):
                yield {
                    "namespace": pod.namespace,
                    "name": pod.name,
                    "class": name,
                    "node": pod.node,
                    "reason": reason,
                }

    def workloads(self, workloads: Iterable[Workload]) -> list[Document]:
        """The workloads that can run on fewer nodes after the change, or whose class is deleted.

        Only templates that name a class or need a handler's feature are judged. Raises UsageError
        for a template that can't be read.
        """
        found: list[dict[str, Any]] = []
        for each in workloads:
            if each.is_past:
                continue
            self._named[each.namespace].add(each.runtime_class_name)
            ends = self._ends(each.runtime_class_name)
            before = after = Room(0, not_found(each.runtime_class_name).text)
            if not ends:
                try:
                    pod = each.template()
                except DecodeError as error:
                    named = f"{each.kind} {shown(f'{each.namespace}/{each.name}')}"
                    raise UsageError(f"{named}: {error}") from None
                if pod.runtime_class_name or pod.features:
                    before, after = self.before.room(pod), self.after.room(pod)
            if ends or after.nodes < before.nodes:
                place = {"kind": each.kind, "namespace": each.namespace, "name": each.name}
                nodes = {"nodesBefore": before.nodes, "nodesAfter": after.nodes}
                found.append({**place, **nodes, "reason": after.summary})
        return sorted(found, key=itemgetter("kind", "namespace", "name"))

    def namespaces(self) -> Iterator[Document]:
        """The namespaces whose rules get new errors, or newly refuse a class that is used there.

        The classes in use are those of the pods and workloads compared before.
        """
        for namespace in sorted(self.after.namespaces):
            known = self.before.faults(namespace)
            reasons = [each for each in self.after.faults(namespace) if each not in known]
            for name in sorted(self._named.get(namespace, ())):
                reason = self.after.refusal(namespace, name)
                if reason and not self.before.refusal(namespace, name):
                    reasons.append(reason)
            if reasons:
                yield {"name": namespace, "reason": "; ".join(reasons)}

    def nodes(self) -> Document:
        """The nodes that gain or lose a class, and the node counts of the classes that change."""
        before, after = self.before.classes_by_node(), self.after.classes_by_node()
        gained, lost, changed = [], [], set[str]()
        numbers = Counter[str](), Counter[str]()
        for name in sorted({*before, *after}):
            had, has = before.get(name, frozenset()), after.get(name, frozenset())
            numbers[0].update(had)
            numbers[1].update(has)
            changed |= had ^ has
            gained += [name] if has - had else []
            lost += [name] if had - has else []
        return {
            "nodes": {"gained": texts_of(gained), "lost": texts_of(lost)},
            "classes": [
                {"name": name, "nodesBefore": numbers[0][name], "nodesAfter": numbers[1][name]}
                for name in sorted(changed)
            ],
        }


def impact_document(
    comparison: Comparison, pods: Iterable[PlacedPod], workloads: Iterable[Workload]
) -> Document:
    """Raises UsageError for a template that can't be read."""
    found = {
        "pods": list(comparison.pods(pods)),
        "workloads": comparison.workloads(workloads),
        "namespaces": list(comparison.namespaces()),
    }
    stopped = any(not each["nodesAfter"] for each in found["workloads"])
    breaks = bool(found["pods"] or found["namespaces"] or stopped)
    return {"breaks": breaks, **found, **comparison.nodes()}


@dataclass(frozen=True, slots=True)
class ImpactWarning:
    """Warns the author of a RuntimeClass update. groups: the pods by group; None until known."""

    source: SnapshotSource
    groups: Callable[[], Mapping[PodGroup, int] | None]

    def __call__(self, raw: Raw) -> Iterator[str]:
        """The warnings about a class after the update. Raises DecodeError."""
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
    # Shapes have only the conditions that a class asks for today. All others are assumed to be met.
    known = [each.rules or ClassRules() for each in snapshot.runtime_classes.values()]
    assumed = frozenset((changed.rules or ClassRules()).conditions)
    assumed -= {condition for rules in known for condition in rules.conditions}
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
