"""The pods and workloads of a cluster: their fields that concern RuntimeClasses. Immutable."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from heapq import nsmallest
from typing import Final, NamedTuple

from extender.model.objects import NOTHING, Pod
from extender.model.pod_needs import NO_FEATURES, Features, Toleration


class Wait(StrEnum):
    """What a pod without a node waits for. SELECTOR: labels that its class or the pod selects."""

    RUNTIME_CLASS = "runtimeclass"
    RESOURCES = "resources"
    OTHER = "other"
    SELECTOR = "selector"


class PlacedPod(NamedTuple):
    """A pod of the cluster: its RuntimeClass, its node, and the times of its creation and binding.

    node: "" if the pod is not bound. finished: the pod will never run again. created and bound (the
    time when it got its node) are RFC 3339 in UTC, "" if unknown. node_selector and overhead: as in
    the pod's spec. starting_since: since when the pod has had a node but no sandbox, None in any
    other state. wait: what a pod without a node waits for. Not hashable: it holds mappings.
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
    tolerations: tuple[Toleration, ...] = ()


class WaitingPod(NamedTuple):
    """A pod that names a RuntimeClass and has no node."""

    namespace: str
    name: str
    runtime_class_name: str


#: The most waiting pods that a page lists: nobody reads more.
MAX_WAITING: Final = 100


class WaitingPods(NamedTuple):
    """The number of waiting pods, and the first MAX_WAITING of them by namespace and name."""

    total: int = 0
    first: tuple[WaitingPod, ...] = ()

    @classmethod
    def of(cls, pods: Iterable[WaitingPod]) -> "WaitingPods":
        found = list(pods)
        return cls(len(found), tuple(nsmallest(MAX_WAITING, found)))


class Workload(NamedTuple):
    """An object that creates pods, and the RuntimeClass that its template names.

    is_past: none of its pods will run again: a Job that has ended, or a ReplicaSet without replicas
    that a Deployment keeps as an old revision. template: decodes the pod that the object creates,
    under the object's own name. Raises DecodeError.
    """

    kind: str
    namespace: str
    name: str
    runtime_class_name: str = ""
    is_past: bool = False
    template: Callable[[], Pod] = Pod


class Sandbox(NamedTuple):
    """The sandbox of a pod on the pod's node. Times are in seconds since the epoch.

    controller: the UID of the pod's controller, else the pod's own name. bound: when the pod got
    its node; 0 once the sandbox has started. failing_since: since when the kubelet reports that
    there is no sandbox, None if it does not. started: when the sandbox started, None if it has not.
    counts: the pod is evidence against its handler, since its own spec can't be the cause.
    """

    node: bytes
    runtime_class: str
    controller: str
    bound: float = 0.0
    failing_since: float | None = None
    started: float | None = None
    counts: bool = True
