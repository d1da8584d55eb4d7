"""The pods and workloads of a cluster, as far as they use RuntimeClasses. Immutable."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from heapq import nsmallest
from typing import Final, NamedTuple

from extender.model.objects import NOTHING, Pod
from extender.model.pod_needs import NO_FEATURES, Features


class Wait(StrEnum):
    """What a pod without a node waits for; SELECTOR: labels, its class's or its own."""

    RUNTIME_CLASS = "runtimeclass"
    RESOURCES = "resources"
    OTHER = "other"
    SELECTOR = "selector"


class PlacedPod(NamedTuple):
    """A pod of the cluster: its RuntimeClass, its node, and the times of its creation and binding.

    node is empty where it is bound to none, finished whether it will never run again. Times are RFC
    3339 in UTC, empty where unknown; bound is the time when it got its node. Overhead and
    nodeSelector are those it carries. starting_since: since when it has been on its node without a
    sandbox, None where it has had one. wait: of a pod without a node. No key: it has mappings.
    """

    namespace: str
    name: str
    runtime_class_name: str = ""
    node: str = ""
    finished: bool = False
    created: str = ""
    bound: str = ""
    node_selector: Mapping[str, str] = NOTHING
    overhead: Mapping[str, str] = NOTHING
    features: Features = NO_FEATURES
    starting_since: str | None = None
    wait: Wait = Wait.OTHER


class WaitingPod(NamedTuple):
    """A pod that names a RuntimeClass and has no node."""

    namespace: str
    name: str
    runtime_class_name: str


#: The number of waiting pods that a page lists; a person reads no more.
MAX_WAITING: Final = 100


class WaitingPods(NamedTuple):
    """The number of waiting pods, and the first of them by namespace and name."""

    total: int = 0
    first: tuple[WaitingPod, ...] = ()

    @classmethod
    def of(cls, pods: Iterable[WaitingPod]) -> "WaitingPods":
        found = list(pods)
        return cls(len(found), tuple(nsmallest(MAX_WAITING, found)))


class Workload(NamedTuple):
    """An object that makes pods, and the RuntimeClass that its template names.

    template reads the pod that it makes, by its own name; raises DecodeError.

    is_past: none of its pods will run again: a Job that has ended, or a ReplicaSet without replicas
    that a Deployment keeps as an old revision.
    """

    kind: str
    namespace: str
    name: str
    runtime_class_name: str = ""
    is_past: bool = False
    template: Callable[[], Pod] = Pod


class Sandbox(NamedTuple):
    """A pod on its node, by whether its sandbox has started there; times are in seconds.

    controller: the UID of what made the pod, else its own name. bound: when it got its node, unless
    it has started. failing_since: since when the kubelet says that there is no sandbox, None where
    it has not said so. started: when the sandbox started, None where it has not. counts: the pod's
    author can't have made it fail.
    """

    node: bytes
    runtime_class: str
    controller: str
    bound: float = 0.0
    failing_since: float | None = None
    started: float | None = None
    counts: bool = True
