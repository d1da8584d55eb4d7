"""Remembers the pods that were left without a node: for the gauge, and to requeue them later."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from extender.objects import MAX_WORDS, Pod, has_few_words

#: How long a refusal is remembered: a pod that is still Pending is asked about again after
#: 5 minutes at the latest (kube-scheduler's flush of unschedulable pods).
FORGET_SECONDS: Final = 600.0

#: The longest name that is remembered, the limit of an object's name: no pod of a cluster has a
#: longer one.
MAX_NAME: Final = 253

#: Pods remembered: 100,000 at about 400 bytes each are 40 MB.
MAX_PODS: Final = 100_000

#: The number of pods whose reasons are remembered: more than a page lists, at up to 4 KB each.
MAX_TOLD: Final = 100


#: kube-scheduler tries a group of pods in one placement after the other. A member that passed so
#: short a time ago and is refused in the next placement does not count as a pod without a node.
PLACEMENT_SECONDS: Final = 2.0

#: Members of groups that have just passed.
MAX_MEMBERS: Final = 10_000

#: A pod with more nodeSelector entries or tolerations than this is remembered without them.
MAX_SELECTOR: Final = 16

#: Different requirements, shared between the pods that have them, as the pods of a Deployment do;
#: 10 KB each at the most. When there are more, pods are remembered without them.
_MAX_SHARED: Final = 4096


#: The text of each refusal with the number of its nodes.
Reasons = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class RefusedPod:
    """A pod that a filter call left without a node; at is the clock's time of the last refusal.

    requirements is a nameless pod with the same requirements; None where they were too large to
    keep.
    """

    namespace: str
    name: str
    uid: str
    runtime_class: str
    at: float
    requirements: Pod | None = None

    @property
    def key(self) -> str:
        return self.uid or f"{self.namespace}/{self.name}"


def key_of(pod: Pod) -> str:
    """As RefusedPod.key."""
    return pod.uid or f"{pod.namespace}/{pod.name}"


class RefusedPods:
    """Bounded in number and in time, and safe to use from any thread.

    An entry is made for each filter call that leaves no node and dropped when the pod passes, so
    an answer that passes nodes costs one look into an almost always empty dictionary.
    """

    def __init__(self, clock: Callable[[], float], *, keep_requirements: bool = False) -> None:
        self._clock = clock
        self._keep_requirements = keep_requirements
        self._lock = threading.Lock()
        self._pods: OrderedDict[str, RefusedPod] = OrderedDict()
        self._reasons: OrderedDict[str, Reasons] = OrderedDict()
        self._shared: dict[object, Pod] = {}
        self._members: OrderedDict[str, float] = OrderedDict()
        #: A number that changes with the remembered pods.
        self.changes = 0

    def __len__(self) -> int:
        return len(self._pods)

    def refuse(self, pod: Pod, reasons: Reasons = ()) -> bool:
        """Remember the pod and why; returns whether it was remembered already.

        A member of a group that passed a moment ago is not remembered.
        """
        if max(map(len, (pod.namespace, pod.name, pod.uid, pod.runtime_class_name))) > MAX_NAME:
            return False
        with self._lock:
            passed = self._members.get(key_of(pod)) if pod.group else None
            if passed is not None and self._clock() - passed < PLACEMENT_SECONDS:
                return False
            refused = RefusedPod(
                pod.namespace,
                pod.name,
                pod.uid,
                pod.runtime_class_name,
                self._clock(),
                self._requirements(pod) if self._keep_requirements else None,
            )
            self._reasons.pop(refused.key, None)
            self._reasons[refused.key] = reasons
            if len(self._reasons) > MAX_TOLD:
                self._reasons.popitem(last=False)
            self.changes += 1
            before = self._pods.pop(refused.key, None)
            self._pods[refused.key] = refused
            if len(self._pods) > MAX_PODS:
                self._pods.popitem(last=False)
            return before is not None

    def _requirements(self, pod: Pod) -> Pod | None:
        selector = tuple(sorted(pod.node_selector.items()))
        if (
            len(selector) > MAX_SELECTOR
            or sum(len(key) + len(value) for key, value in selector) > MAX_WORDS
            or not has_few_words(pod.tolerations)
            or sum(map(len, pod.uses or ())) > MAX_WORDS
        ):
            return None
        key = (
            pod.runtime_class_name,
            selector,
            pod.tolerations,
            pod.features,
            pod.kubelet_needs,
            pod.uses,
        )
        if len(self._shared) >= _MAX_SHARED and key not in self._shared:
            return None
        return self._shared.setdefault(
            key,
            Pod(
                runtime_class_name=pod.runtime_class_name,
                node_selector=dict(selector),
                tolerations=pod.tolerations,
                features=pod.features,
                kubelet_needs=pod.kubelet_needs,
                uses=pod.uses,
            ),
        )

    def now(self) -> float:
        """The clock's time, to compare with that of a refusal."""
        return self._clock()

    def reasons(self, key: str) -> Reasons:
        """Why the pod was last refused; known for the last MAX_TOLD pods."""
        return self._reasons.get(key, ())

    def get(self, key: str) -> RefusedPod | None:
        return self._pods.get(key)

    def admit(self, pod: Pod) -> None:
        """The pod has been given a node to choose from."""
        if pod.group and max(map(len, (pod.namespace, pod.name, pod.uid))) <= MAX_NAME:
            self._pass_member(key_of(pod))
        if self._pods:
            with self._lock:
                if self._pods.pop(key_of(pod), None) is not None:
                    self.changes += 1

    def _pass_member(self, key: str) -> None:
        with self._lock:
            self._members.pop(key, None)
            self._members[key] = self._clock()
            if len(self._members) > MAX_MEMBERS:
                self._members.popitem(last=False)

    def pods(self) -> list[RefusedPod]:
        """The remembered pods, the oldest refusal first."""
        oldest = self._clock() - FORGET_SECONDS
        with self._lock:
            while self._pods:
                key, pod = next(iter(self._pods.items()))
                if pod.at >= oldest:
                    break
                del self._pods[key]
            wanted = {id(pod.requirements) for pod in self._pods.values()}
            self._shared = {k: each for k, each in self._shared.items() if id(each) in wanted}
            return list(self._pods.values())
