"""The pods and workloads of a cluster, as far as they use RuntimeClasses. Immutable.

Read by `extender.decoding.class_using_objects` for what tells how classes are used: pods, classes,
can-delete, rollout, and the gauges of `serve --watch-pods`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from extender.objects import NO_FEATURES, NOTHING, Features


class PlacedPod(NamedTuple):
    """A pod of the cluster: its RuntimeClass, its node, and the times of its creation and binding.

    node is empty where it is bound to none, finished whether it will never run again. Times are RFC
    3339 in UTC, empty where unknown; bound is the time when it got its node. Overhead and
    nodeSelector are those it carries. No key, since they are mappings.
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


class Workload(NamedTuple):
    """An object that makes pods, and the RuntimeClass that its template names.

    is_past: none of its pods will run again: a Job that has ended, or a ReplicaSet without replicas
    that a Deployment keeps as an old revision.
    """

    kind: str
    namespace: str
    name: str
    runtime_class_name: str = ""
    is_past: bool = False
