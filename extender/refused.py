"""Remembers the pods that were left without a node: for the gauge, and to wake them up again."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

#: How long a refusal is remembered: a pod that is still Pending is asked about again after
#: 5 minutes at the latest (kube-scheduler's flush of unschedulable pods).
FORGET_SECONDS: Final = 600.0

#: Longest name remembered, the limit of an object's name; what is longer is no pod of a cluster.
MAX_NAME: Final = 253

#: Pods remembered: 100,000 at about 400 bytes each are 40 MB.
MAX_PODS: Final = 100_000


@dataclass(frozen=True, slots=True)
class RefusedPod:
    """A pod that a filter call left without a node; at is the clock's time of the last refusal."""

    namespace: str
    name: str
    uid: str
    runtime_class: str
    at: float


class RefusedPods:
    """Bounded, forgetting, and safe to use from any thread.

    An entry is made for each filter call that leaves no node and dropped when the pod passes, so
    an answer that passes nodes costs one look into an almost always empty dictionary.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pods: OrderedDict[str, RefusedPod] = OrderedDict()

    def refuse(self, namespace: str, name: str, uid: str, runtime_class: str) -> None:
        if max(map(len, (namespace, name, uid, runtime_class))) > MAX_NAME:
            return
        pod = RefusedPod(namespace, name, uid, runtime_class, self._clock())
        key = uid or f"{namespace}/{name}"
        with self._lock:
            self._pods.pop(key, None)
            self._pods[key] = pod
            if len(self._pods) > MAX_PODS:
                self._pods.popitem(last=False)

    def admit(self, namespace: str, name: str, uid: str) -> None:
        """The pod has been given a node to choose from."""
        if self._pods:
            with self._lock:
                self._pods.pop(uid or f"{namespace}/{name}", None)

    def pods(self) -> list[RefusedPod]:
        """Those not forgotten yet, the longest ago first."""
        oldest = self._clock() - FORGET_SECONDS
        with self._lock:
            while self._pods:
                key, pod = next(iter(self._pods.items()))
                if pod.at >= oldest:
                    break
                del self._pods[key]
            return list(self._pods.values())
