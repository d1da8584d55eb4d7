"""The results of requests: their counts, and the pods that were left without a node."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from prometheus_client import Counter, Histogram

from extender.model.objects import Pod
from extender.model.pod_needs import PodNeeds
from extender.model.reasons import Code

T = TypeVar("T")

#: Values of the label runtimeclass that are no class's name.
NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"


def class_label(name: str, known: Container[str]) -> str:
    """The value of label runtimeclass: a class that exists, <none> or <unknown>."""
    if not name:
        return NONE
    return name if name in known else UNKNOWN


class VerbCounts(NamedTuple):
    """The results of the requests of one verb; nodes is None where they are not about nodes."""

    codes: Callable[[str], Counter]
    seconds: Histogram
    nodes: Histogram | None = None
    on_failure: Callable[[], None] = lambda: None

    def succeeded(self, nodes: int, seconds: float) -> None:
        self.codes("200").inc()
        self.seconds.observe(seconds)
        if self.nodes is not None:
            self.nodes.observe(nodes)

    def failed(self, status: int) -> None:
        self.codes(str(int(status))).inc()
        self.on_failure()


class Rejections(NamedTuple):
    """Counters of refused nodes, and of pods left without one; labels: RuntimeClass, reason."""

    nodes: Callable[[str, str], Counter]
    pods: Callable[[str, str], Counter]

    def add(self, label: str, counts: Mapping[Code, int], *, left_none: bool) -> None:
        """Count the refusals of one filter answer: the nodes by the reason's code."""
        for code, count in counts.items():
            self.nodes(label, code.value).inc(count)
        if left_none and counts:
            most = min(counts, key=lambda code: (-counts[code], code))
            self.pods(label, most.value).inc()


#: How long a refusal is remembered: a pod that is still Pending is asked about again after
#: 5 minutes at the latest (kube-scheduler's flush of unschedulable pods).
FORGET_SECONDS: Final = 600.0

#: The longest name that is remembered, the limit of an object's name.
MAX_NAME: Final = 253

#: Pods remembered: 100,000 at about 400 bytes each are 40 MB.
MAX_PODS: Final = 100_000

#: The number of pods whose reasons are remembered: more than a page lists, at up to 4 KB each.
MAX_TOLD: Final = 100

#: kube-scheduler tries a group of pods in one placement after the other. A member that passed so
#: short a time ago does not count as a pod without a node.
PLACEMENT_SECONDS: Final = 2.0

#: Members of groups that have just passed.
MAX_MEMBERS: Final = 10_000

#: Different needs, shared between pods; 10 KB each at the most.
_MAX_SHARED: Final = 4096

#: The text of each refusal with the number of its nodes.
Reasons = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class RefusedPod:
    """A pod left without a node; at is the clock's time. needs is None where too large to keep."""

    namespace: str
    name: str
    uid: str
    runtime_class: str
    at: float
    needs: PodNeeds | None = None


def key_of(pod: Pod | RefusedPod) -> str:
    return pod.uid or f"{pod.namespace}/{pod.name}"


class RefusedPods:
    """Pods are dropped when they pass. Bounded in number and in time; from any thread."""

    def __init__(self, clock: Callable[[], float], *, keep_needs: bool = False) -> None:
        self._clock = clock
        self._keep_needs = keep_needs
        self._lock = threading.Lock()
        self._pods: OrderedDict[str, RefusedPod] = OrderedDict()
        self._reasons: OrderedDict[str, Reasons] = OrderedDict()
        self._shared: Callable[[PodNeeds], PodNeeds] = lru_cache(_MAX_SHARED)(lambda needs: needs)
        self._members: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pods)

    def refuse(self, pod: Pod, reasons: Reasons = ()) -> bool:
        """Remember the pod and why; returns whether it was remembered already.

        A member of a group that passed a moment ago is not remembered.
        """
        if max(map(len, (pod.namespace, pod.name, pod.uid, pod.runtime_class_name))) > MAX_NAME:
            return False
        key = key_of(pod)
        with self._lock:
            passed = self._members.get(key) if pod.group else None
            if passed is not None and self._clock() - passed < PLACEMENT_SECONDS:
                return False
            _put(self._reasons, key, reasons, MAX_TOLD)
            was_known = key in self._pods
            needs = self._shared(pod.needs) if self._keep_needs and pod.needs.is_small else None
            refused = RefusedPod(
                pod.namespace, pod.name, pod.uid, pod.runtime_class_name, self._clock(), needs
            )
            _put(self._pods, key, refused, MAX_PODS)
            return was_known

    def now(self) -> float:
        return self._clock()

    def reasons(self, key: str) -> Reasons:
        """Why the pod was last refused; known for the last MAX_TOLD pods."""
        return self._reasons.get(key, ())

    def get(self, key: str) -> RefusedPod | None:
        return self._pods.get(key)

    def admit(self, pod: Pod) -> None:
        if pod.group and max(map(len, (pod.namespace, pod.name, pod.uid))) <= MAX_NAME:
            with self._lock:
                _put(self._members, key_of(pod), self._clock(), MAX_MEMBERS)
        if self._pods:
            with self._lock:
                self._pods.pop(key_of(pod), None)

    def pods(self) -> list[RefusedPod]:
        """The remembered pods, the oldest refusal first."""
        oldest = self._clock() - FORGET_SECONDS
        with self._lock:
            while self._pods:
                key, pod = next(iter(self._pods.items()))
                if pod.at >= oldest:
                    break
                del self._pods[key]
            return list(self._pods.values())


def _put(entries: OrderedDict[str, T], key: str, value: T, most: int) -> None:
    """Add an entry as the newest, and drop the oldest of more than `most`."""
    entries.pop(key, None)
    entries[key] = value
    if len(entries) > most:
        entries.popitem(last=False)
