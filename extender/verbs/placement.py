"""The state of a pod: running, pending, stranded on its node, or drifted from its class.

Stranded: its class is gone, or its node no longer has what the class or the pod requires; it keeps
running, but can't start there again. Drifted: it carries the fields of an older version of its
class. Taints are left aside: one that would drive the pod away has done so (NoExecute).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final, NamedTuple

from extender.objects import MAX_WORDS, Features, Pod, RuntimeClass, Toleration
from extender.predicates.node_checks import Policy
from extender.predicates.node_selector import conflicting_key
from extender.reasons import not_found, pairs_text, shown
from extender.snapshot import Snapshot, VerdictTable
from extender.using_objects import PlacedPod
from extender.validation.quantity import same_amounts

#: A toleration of every taint.
_EVERYTHING: Final = (Toleration(operator="Exists"),)

#: The number of remembered results: pods of one class mostly carry the same fields.
_MAX_REMEMBERED: Final = 1024


class State(StrEnum):
    """A pod's state, as `pods` and the gauges name it."""

    RUNNING = "running"
    PENDING = "pending"
    STRANDED = "stranded"
    DRIFTED = "drifted"


class Placement:
    """Judges pods by one snapshot. For one thread."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._tables: dict[tuple[str, Features], VerdictTable] = {}
        self._merged: dict[object, str] = {}

    def judge(self, pod: PlacedPod) -> tuple[State, str]:
        """The state, and why; the reason of a running or pending pod is empty."""
        if not pod.node:
            return State.PENDING, ""
        runtime_class = self._snapshot.runtime_classes.get(pod.runtime_class_name)
        if pod.runtime_class_name and runtime_class is None:
            return State.STRANDED, not_found(pod.runtime_class_name).text
        reason = self._unfit(pod, runtime_class)
        if reason:
            return State.STRANDED, reason
        if runtime_class is None:
            return State.RUNNING, ""
        reason = self._drift(pod, runtime_class)
        return (State.DRIFTED, reason) if reason else (State.RUNNING, "")

    def _unfit(self, pod: PlacedPod, runtime_class: RuntimeClass | None) -> str:
        """Why the pod could not start again on its node; empty where it could."""
        snapshot = self._snapshot
        shape_id = snapshot.nodes[pod.node.encode("utf-8", "replace")]
        if not shape_id:
            return f'node "{shown(pod.node)}" not found'
        if runtime_class is None and not pod.features:
            return ""
        key = (pod.runtime_class_name, pod.features)
        table = self._tables.get(key)
        if table is None:
            asking = Pod(
                runtime_class_name=pod.runtime_class_name,
                tolerations=_EVERYTHING,
                features=pod.features,
            )
            table = snapshot.shapes.verdicts(asking, runtime_class, self._policy)
            self._tables[key] = table
        reason = table.reason(shape_id)
        return reason.text if reason else ""

    def _drift(self, pod: PlacedPod, runtime_class: RuntimeClass) -> str:
        key = (
            runtime_class.name,
            tuple(pod.overhead.items()),
            tuple(pod.node_selector.items()),
            is_younger(runtime_class, pod),
        )
        known = self._merged.get(key)
        if known is None:
            if len(self._merged) >= _MAX_REMEMBERED:
                self._merged.clear()
            known = self._merged[key] = "; ".join(_drifts(pod, runtime_class))
        return known


class PodGroup(NamedTuple):
    """Pods in the same situation: of one class, on one node, with the same merged fields.

    predates_class: they had their node before the class was created. A key.
    """

    runtime_class_name: str
    node: str
    overhead: tuple[tuple[str, str], ...]
    node_selector: tuple[tuple[str, str], ...]
    features: Features
    predates_class: bool

    @property
    def example(self) -> PlacedPod:
        """A pod that stands for all of them."""
        return PlacedPod(
            "",
            "",
            self.runtime_class_name,
            self.node,
            bound=_BEFORE_ALL if self.predates_class else "",
            node_selector=dict(self.node_selector),
            overhead=dict(self.overhead),
            features=self.features,
        )


#: A time before every RFC 3339 one, as texts are compared.
_BEFORE_ALL: Final = " "


def group_of(pod: PlacedPod, runtime_classes: Mapping[str, RuntimeClass]) -> PodGroup:
    """The group of a pod as long as the classes are these."""
    runtime_class = runtime_classes.get(pod.runtime_class_name)
    return PodGroup(
        pod.runtime_class_name,
        pod.node,
        tuple(pod.overhead.items()),
        tuple(_told_selector(pod, runtime_class)),
        pod.features,
        runtime_class is not None and is_younger(runtime_class, pod),
    )


def _told_selector(pod: PlacedPod, runtime_class: RuntimeClass | None) -> Iterator[tuple[str, str]]:
    """The part of a pod's nodeSelector that is kept, since its author may write a megabyte.

    Only a pod that has its node can have drifted, and of a long one the keys of its class count.
    """
    if not pod.node:
        return
    entries = pod.node_selector.items()
    if sum(len(key) + len(value) for key, value in entries) <= MAX_WORDS:
        yield from entries
    elif runtime_class is not None:
        yield from (
            (key, pod.node_selector[key])
            for key, _ in runtime_class.node_selector
            if key in pod.node_selector
        )


def is_followed(pod: PlacedPod) -> bool:
    """Whether a pod has anything to do with RuntimeClasses, and may still run."""
    return bool(pod.runtime_class_name or pod.features) and not pod.finished


def is_younger(runtime_class: RuntimeClass, pod: PlacedPod) -> bool:
    """Whether the class was created after the pod got its node, so that it is not the pod's."""
    since = pod.bound or pod.created
    # Both are UTC to the second, so they sort as text.
    return bool(since) and runtime_class.creation_timestamp > since


def _drifts(pod: PlacedPod, runtime_class: RuntimeClass) -> Iterator[str]:
    name = f'RuntimeClass "{shown(runtime_class.name)}"'
    if is_younger(runtime_class, pod):
        yield (
            f"{name} was created after the pod had its node: the pod runs with what an earlier one"
            " named, perhaps with another handler"
        )
    if not same_amounts(pod.overhead, runtime_class.overhead):
        yield (
            f"the pod carries {pairs_text(pod.overhead) or 'no'} overhead, {name} has"
            f" {pairs_text(runtime_class.overhead) or 'no'} today"
        )
    conflict = conflicting_key(pod.node_selector, runtime_class.node_selector)
    if conflict is not None:
        key, own, wanted = conflict
        yield (
            f"the pod carries nodeSelector {shown(key)}={shown(own)}, {name} has"
            f" {shown(key)}={shown(wanted)} today"
        )
        return
    # Of a pod that carries none, admission may have left the nodeSelector to the extender.
    missing = [each for each in runtime_class.node_selector if each[0] not in pod.node_selector]
    if missing and len(missing) < len(runtime_class.node_selector):
        entries = ", ".join(f"{shown(key)}={shown(value)}" for key, value in missing)
        yield f"the pod does not carry nodeSelector {entries}, which {name} has today"


def pending_reasons(explain: Callable[[Pod], str]) -> Callable[[Pod], str]:
    """explain, remembered for pods that differ in nothing but their names."""
    known: dict[str, str] = {}

    def reason(pod: Pod) -> str:
        anonymous = repr(_without_name(pod))
        if anonymous not in known:
            if len(known) >= _MAX_REMEMBERED:
                known.clear()
            known[anonymous] = explain(pod)
        return known[anonymous]

    return reason


def _without_name(pod: Pod) -> Pod:
    return replace(pod, name="", uid="" if not pod.uid else "uid")
