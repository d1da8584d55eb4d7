"""The results of requests: their counts, and the pods left without a node."""

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

#: The values of the label runtimeclass that are not names of classes.
NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"


def class_label(name: str, known: Container[str]) -> str:
    """The value of the label runtimeclass: a class that exists, <none> or <unknown>."""
    if not name:
        return NONE
    return name if name in known else UNKNOWN


class VerbCounts(NamedTuple):
    """The results of one verb's requests. nodes: None if the requests are not about nodes."""

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
    """Counters of refused nodes, and of pods left without a node, by RuntimeClass and reason."""

    nodes: Callable[[str, str], Counter]
    pods: Callable[[str, str], Counter]

    def add(self, label: str, counts: Mapping[Code, int], *, left_none: bool) -> None:
        """Count the refusals of one filter answer. counts: nodes by reason code."""
        for code, count in counts.items():
            self.nodes(label, code.value).inc(count)
        if left_none and counts:
            most = min(counts, key=lambda code: (-counts[code], code))
            self.pods(label, most.value).inc()


#: How long a refusal is remembered: kube-scheduler asks about a pod that is still Pending again
#: after 5 minutes at the latest (its flush of unschedulable pods).
FORGET_SECONDS: Final = 600.0

#: The longest name that is remembered: the length limit of object names.
MAX_NAME: Final = 253

#: The most pods remembered: 100,000 at about 400 bytes each are 40 MB.
MAX_PODS: Final = 100_000

#: The most pods whose reasons are remembered, at up to 4 KB each: more than a page lists.
MAX_TOLD: Final = 100

#: kube-scheduler tries a pod group in one placement after another. A refused member that passed in
#: another placement less than this time ago does not count as a pod without a node.
PLACEMENT_SECONDS: Final = 2.0

#: The most group members remembered as having just passed.
MAX_MEMBERS: Final = 10_000

#: The most different PodNeeds kept for sharing between pods, at 10 KB each or less.
_MAX_SHARED: Final = 4096

#: For each text of a refusal, the number of nodes and the text.
Reasons = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class RefusedPod:
    """A pod left without a node. at: the clock's time. needs: None if not kept."""

    namespace: str
    name: str
    uid: str
    runtime_class: str
    at: float
    needs: PodNeeds | None = None


def key_of(pod: Pod | RefusedPod) -> str:
    return pod.uid or f"{pod.namespace}/{pod.name}"


class RefusedPods:
    """The pods left without a node, until they pass. Limited in number and time. Thread-safe."""

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
        """Remember a pod and why it was refused. Returns whether it was already remembered.

        A group member that passed a moment ago is not remembered.
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
    """Add an entry as the newest. If there are more than `most`, drop the oldest."""
    entries.pop(key, None)
    entries[key] = value
    if len(entries) > most:
        entries.popitem(last=False)
