"""The cases of the benchmark of kube-scheduler: kinds of pods, and its configurations."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from extender.admission.defaults import AMOUNT
from extender.model.objects import MARK
from loadtest import bodies
from loadtest.generator import HALF_CLASS, Cluster, ClusterSpec

Json = dict[str, Any]

#: By default kube-scheduler sends at most 50 requests a second to the API server, which would limit
#: every configuration.
_QPS: Final = 10_000

#: A CPU request of which only one fits on a node with 64 CPUs.
_LARGE_CPU: Final = "40"

#: The extenders: the service, the service with --reasons=unplaced, and the service of another
#: checkout to compare with.
SERVICE: Final = "service"
UNPLACED: Final = "unplaced"
OTHER: Final = "other"


class Kind(StrEnum):
    """The kinds of pods.

    WITH_CLASS: as the admission plugin leaves them. INSTEAD: with the tolerations of the class and
    without its nodeSelector, so that the extender refuses half of the nodes.
    ONE_A_NODE: equal pods without a class, so large that each needs a node of its own: the case
    for which kube-scheduler has OpportunisticBatching.
    """

    PLAIN = "no class"
    WITH_CLASS = "class"
    INSTEAD = "class, no plugin"
    ONE_A_NODE = "one a node"


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration of kube-scheduler; without verbs it has no extender.

    marked_only: with managedResources. default_spread: PodTopologySpread keeps its default
    constraints for ONE_A_NODE too. extender: SERVICE, UNPLACED or OTHER.
    """

    name: str
    verbs: tuple[str, ...] = ()
    marked_only: bool = False
    all_nodes: bool = False
    default_spread: bool = False
    extender: str = SERVICE

    def document(self, url: str, kind: Kind) -> Json:
        """The KubeSchedulerConfiguration."""
        document: Json = {"clientConnection": {"qps": _QPS, "burst": _QPS}}
        if self.all_nodes:
            document["percentageOfNodesToScore"] = 100
        if kind is Kind.ONE_A_NODE and not self.default_spread:
            # With the default constraints no pod has a signature (podtopologyspread/plugin.go).
            args = {"defaultingType": "List", "defaultConstraints": []}
            spread = {"name": "PodTopologySpread", "args": args}
            profile = {"schedulerName": "default-scheduler", "pluginConfig": [spread]}
            document["profiles"] = [profile]
        if self.verbs:
            extender: Json = {
                "urlPrefix": url,
                "nodeCacheCapable": True,
                "ignorable": False,
                "httpTimeout": "5s",
                **{f"{verb}Verb": verb for verb in self.verbs},
            }
            if "prioritize" in self.verbs:
                extender["weight"] = 3
            if self.marked_only:
                extender["managedResources"] = [{"name": MARK, "ignoredByScheduler": True}]
            document["extenders"] = [extender]
        return document


#: The fields that the admission plugin merges into pods of HALF_CLASS.
_SCHEDULING: Final[Json] = next(iter(Cluster(ClusterSpec(1)).runtime_classes()))["scheduling"]


def pod(serial: int, kind: Kind, *, marked: bool) -> Json:
    """A pod of about 3 KB, as it is created."""
    runtime_class = HALF_CLASS if kind in (Kind.WITH_CLASS, Kind.INSTEAD) else ""
    document = bodies.pod(serial, runtime_class)
    metadata, spec = document["metadata"], document["spec"]
    # Pods of one Deployment differ only in their names.
    labels = {"app.kubernetes.io/name": "web", "pod-template-hash": "54cbfc6b8d"}
    created: Json = {"metadata": {"name": f"p{serial:06d}", "labels": labels}, "spec": spec}
    created["metadata"]["annotations"] = metadata["annotations"]
    if kind is Kind.WITH_CLASS:
        spec["nodeSelector"] = _SCHEDULING["nodeSelector"]
    if runtime_class:
        spec["tolerations"] = [*spec["tolerations"], *_SCHEDULING["tolerations"]]
    resources = spec["containers"][0]["resources"]
    if kind is Kind.ONE_A_NODE:
        resources["requests"]["cpu"] = _LARGE_CPU
    if marked and runtime_class:
        resources["requests"][MARK] = resources["limits"][MARK] = AMOUNT
    return created


_FILTER: Final = ("filter",)
_WITH_PREEMPT: Final = ("filter", "preempt")
_ALL: Final = ("filter", "prioritize", "preempt")

NONE: Final = Configuration("no extender")
CONFIGURATIONS: Final = (
    NONE,
    Configuration("filter", _FILTER),
    Configuration("filter, preempt", _WITH_PREEMPT),
    Configuration("all three verbs", _ALL),
    Configuration("marked pods only", _ALL, marked_only=True),
)
ALL_NODES: Final = (
    Configuration("no extender, 100 %", all_nodes=True),
    Configuration("filter, preempt, 100 %", _WITH_PREEMPT, all_nodes=True),
    Configuration("all three verbs, 100 %", _ALL, all_nodes=True),
)
#: Reasons in every answer, and reasons only in an answer that leaves no node.
REFUSING: Final = (
    ALL_NODES[0],
    Configuration("filter, preempt, 100 %", _WITH_PREEMPT, all_nodes=True),
    Configuration("--reasons=unplaced, 100 %", _WITH_PREEMPT, all_nodes=True, extender=UNPLACED),
)
#: Any extender turns OpportunisticBatching off. With default constraints no pod has a signature.
BATCHES: Final = (
    NONE,
    Configuration("no extender, default constraints", default_spread=True),
    Configuration("filter", _FILTER),
    Configuration("marked pods only", _ALL, marked_only=True),
)


def plan(*, quick: bool) -> list[tuple[Kind, Configuration]]:
    """The kinds and configurations of each round."""
    found = [(kind, each) for kind in (Kind.PLAIN, Kind.WITH_CLASS) for each in CONFIGURATIONS]
    if not quick:
        found += [(Kind.PLAIN, each) for each in ALL_NODES]
        found += [(Kind.INSTEAD, each) for each in REFUSING]
        found += [(Kind.ONE_A_NODE, each) for each in BATCHES]
    return found


def of_other(configuration: Configuration) -> Configuration:
    """The same configuration with the other extender."""
    return replace(configuration, name=f"{configuration.name} (other)", extender=OTHER)


def base_of(configuration: Configuration) -> Configuration:
    """The configuration that another's share is relative to."""
    return ALL_NODES[0] if configuration.all_nodes else NONE
