"""The state of a pod: running, pending, starting, stranded on its node, or drifted from its class.

Starting: the pod has a node, but no sandbox has ever started there. Stranded: the pod's class is
gone, or its node no longer has what the class or the pod requires. The pod keeps running, but can't
start there again. Drifted: the pod has the fields of an older version of its class. Taints are
ignored: a taint that evicts the pod (NoExecute) has already done so.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

from extender.kubernetes.quantity import same_amounts
from extender.model.objects import Amounts, Pod, RuntimeClass
from extender.model.pod_needs import MAX_WORDS, Features, Toleration
from extender.model.reasons import Code, not_found, pairs_text, shown, without_sandbox
from extender.model.using_objects import PlacedPod, Wait
from extender.rules.node_checks import Policy
from extender.rules.node_selector import conflicting_key
from extender.rules.pools import Pools
from extender.rules.resource_fit import amount_text, amounts_in_billionths, counted
from extender.rules.snapshot import Snapshot

#: The most cached results of `_drifts`: pods of one class mostly have the same fields.
_MAX_REMEMBERED: Final = 1024

_Pairs = tuple[tuple[str, str], ...]


class State(StrEnum):
    """A pod's state, as the command `pods` and the gauges name it."""

    RUNNING = "running"
    STARTING = "starting"
    PENDING = "pending"
    STRANDED = "stranded"
    DRIFTED = "drifted"


@dataclass(frozen=True, slots=True)
class Placement:
    """Judges pods by one snapshot. now: the current time, for the age of starting pods."""

    snapshot: Snapshot
    policy: Policy
    now: datetime | None = None

    def judge(self, pod: PlacedPod) -> tuple[State, str]:
        """The pod's state, and the reason, "" for a running or pending pod."""
        if not pod.node:
            return State.PENDING, ""
        runtime_class = self.snapshot.runtime_classes.get(pod.runtime_class_name)
        reason = self.unfit(pod)
        if pod.starting_since is not None:
            told = without_sandbox(pod.namespace, pod.name, pod.starting_since, self.now)
            return State.STARTING, f"{told}; {reason}" if reason else told
        if reason:
            return State.STRANDED, reason
        if runtime_class is None:
            return State.RUNNING, ""
        reason = _drifts(
            runtime_class,
            tuple(pod.overhead.items()),
            tuple(pod.node_selector.items()),
            is_younger(runtime_class, pod),
        )
        return (State.DRIFTED, reason) if reason else (State.RUNNING, "")

    def unfit(self, pod: PlacedPod) -> str:
        """Why the pod could not start again: its class is gone, or its node is unfit. Else ""."""
        snapshot = self.snapshot
        runtime_class = snapshot.runtime_classes.get(pod.runtime_class_name)
        if pod.runtime_class_name and runtime_class is None:
            return not_found(pod.runtime_class_name).text
        if not pod.node:
            return ""
        shape_id = snapshot.nodes[pod.node.encode("utf-8", "replace")]
        if not shape_id:
            return f'node "{shown(pod.node)}" not found'
        asking = Pod(
            runtime_class_name=pod.runtime_class_name,
            tolerations=(Toleration(operator="Exists"),),
            features=pod.features,
        )
        table = snapshot.shapes.verdicts(asking, runtime_class, self.policy)
        reason = table.reason(shape_id)
        # That other pods fail there says nothing about a pod that runs there.
        return reason.text if reason and reason.code is not Code.SUSPECT else ""


def wait_of(pod: PlacedPod, runtime_class: RuntimeClass | None) -> Wait:
    """What a pod waits for. SELECTOR becomes RUNTIME_CLASS, or OTHER if the pod selects as well."""
    if pod.wait is not Wait.SELECTOR:
        return pod.wait
    asked = runtime_class.node_selector if runtime_class else ()
    own = pod.node_selector.items() - set(asked)
    return Wait.RUNTIME_CLASS if asked and not own else Wait.OTHER


class PodGroup(NamedTuple):
    """Pods that are judged alike: of one class, on one node, with equal fields. Hashable.

    predates_class: the pods got their node before the class was created. is_starting: their
    sandboxes have never started. wait: what pods without a node wait for.
    """

    runtime_class_name: str
    node: str
    overhead: _Pairs
    node_selector: _Pairs
    features: Features
    predates_class: bool
    is_starting: bool = False
    wait: Wait = Wait.OTHER

    @property
    def example(self) -> PlacedPod:
        return PlacedPod(
            "",
            "",
            self.runtime_class_name,
            self.node,
            bound=" " if self.predates_class else "",  # sorts before every time
            node_selector=dict(self.node_selector),
            overhead=dict(self.overhead),
            features=self.features,
            starting_since="" if self.is_starting else None,
            wait=self.wait,
        )


def group_of(pod: PlacedPod, runtime_classes: Mapping[str, RuntimeClass]) -> PodGroup:
    runtime_class = runtime_classes.get(pod.runtime_class_name)
    return PodGroup(
        pod.runtime_class_name,
        pod.node,
        tuple(pod.overhead.items()),
        _told_selector(pod),
        pod.features,
        runtime_class is not None and is_younger(runtime_class, pod),
        pod.starting_since is not None,
        pod.wait,
    )


def _told_selector(pod: PlacedPod) -> _Pairs:
    """A pod's nodeSelector, empty if it decides nothing or is too long to keep.

    It decides whether a pod with a node has drifted, and, for a pod that waits for labels, whether
    the class or the pod asks for them.
    """
    entries = tuple(pod.node_selector.items())
    decides = pod.node or pod.wait is Wait.SELECTOR
    return entries if decides and sum(map(len, chain(*entries))) <= MAX_WORDS else ()


def is_followed(pod: PlacedPod) -> bool:
    """Whether a pod names a RuntimeClass or needs a handler's features, and may still run."""
    return bool(pod.runtime_class_name or pod.features) and not pod.finished


def is_younger(runtime_class: RuntimeClass, pod: PlacedPod) -> bool:
    """Whether the class was created after the pod got its node: the pod had an earlier class."""
    since = pod.bound or pod.created
    # Both are UTC to the second, so they sort as text.
    return bool(since) and runtime_class.creation_timestamp > since


@lru_cache(_MAX_REMEMBERED)
def _drifts(
    runtime_class: RuntimeClass, overhead: _Pairs, node_selector: _Pairs, is_younger: bool
) -> str:
    """How a pod with these fields differs from its class, "" if it does not."""
    name = f'RuntimeClass "{shown(runtime_class.name)}"'
    drifts = []
    if is_younger:
        drifts.append(
            f"{name} was created after the pod had its node: the pod runs with an earlier"
            " class of that name, perhaps with another handler"
        )
    carried, selector = dict(overhead), dict(node_selector)
    if not same_amounts(carried, runtime_class.overhead):
        drifts.append(
            f"the pod carries {pairs_text(carried) or 'no'} overhead, {name} has"
            f" {pairs_text(runtime_class.overhead) or 'no'} today"
        )
    conflict = conflicting_key(selector, runtime_class.node_selector)
    # If all entries are missing, admission may have left the nodeSelector to the extender.
    missing = [each for each in runtime_class.node_selector if each[0] not in selector]
    if conflict is not None:
        key, own, wanted = conflict
        drifts.append(
            f"the pod carries nodeSelector {shown(key)}={shown(own)}, {name} has"
            f" {shown(key)}={shown(wanted)} today"
        )
    elif missing and len(missing) < len(runtime_class.node_selector):
        entries = ", ".join(f"{shown(key)}={shown(value)}" for key, value in missing)
        drifts.append(f"the pod does not carry nodeSelector {entries}, which {name} has today")
    return "; ".join(drifts)


@dataclass(slots=True)
class PodUse:
    """Pods by state and by what they wait for, and the overhead of bound pods in billionths."""

    states: Counter[State] = field(default_factory=Counter)
    waits: Counter[Wait] = field(default_factory=Counter)
    overhead: Counter[str] = field(default_factory=Counter)

    def add(self, other: "PodUse") -> None:
        self.states.update(other.states)
        self.waits.update(other.waits)
        self.overhead.update(other.overhead)

    @property
    def running(self) -> int:
        """The number of pods that have started on a node, stranded and drifted pods included."""
        return self.states.total() - self.states[State.PENDING] - self.states[State.STARTING]

    @property
    def pending(self) -> int:
        return self.states[State.PENDING]


@dataclass(slots=True)
class Usage:
    """Counts pods by class and, if there are pools, by class and pool index. For one thread.

    A pod without a node, or on an unknown node, is in no pool.
    """

    pools: Pools | None = None
    by_class: dict[str, PodUse] = field(default_factory=dict)
    by_pool: dict[tuple[str, int], PodUse] = field(default_factory=dict)

    def count(self, pod: PlacedPod, state: State, number: int = 1, wait: Wait = Wait.OTHER) -> None:
        amounts = amounts_in_billionths(pod.overhead) if pod.node else {}
        uses = [self.by_class.setdefault(pod.runtime_class_name, PodUse())]
        if self.pools is not None and pod.node:
            position = self.pools.of_node.get(pod.node.encode("utf-8", "replace"))
            if position is not None:
                key = pod.runtime_class_name, position
                uses.append(self.by_pool.setdefault(key, PodUse()))
        for use in uses:
            use.states[state] += number
            use.waits[wait] += number if state is State.PENDING else 0
            for name, amount in amounts.items():
                use.overhead[name] += amount * number


def overhead_texts(overhead: Amounts) -> Mapping[str, str]:
    """The amounts of an overhead in billionths, formatted for people."""
    return {name: amount_text(name, value) for name, value in sorted(counted(overhead).items())}
