"""Pod, Node, RuntimeClass and their parts: the fields that this service reads.

The objects never change, so threads can share them. Objects that hold mappings, such as Pod and
Node, are not hashable. `extender.kubernetes` decodes all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from extender.model.pod_needs import NO_FEATURES, Features, KubeletNeeds, PodNeeds, Toleration

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"

#: The effects that keep a pod off a node. PreferNoSchedule only lowers kube-scheduler's score.
HARD_EFFECTS: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})

#: The key of the taint that a pod must tolerate to go to a node with spec.unschedulable.
UNSCHEDULABLE_TAINT_KEY: Final = "node.kubernetes.io/unschedulable"

#: The empty mapping that objects share as a default.
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Taint:
    """An entry of a node's spec.taints, without timeAdded: matching ignores it."""

    key: str
    value: str = ""
    effect: str = ""

    def __str__(self) -> str:
        """KEY=VALUE:EFFECT, or KEY:EFFECT for a taint without value, as kubectl prints it."""
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"


class Namespace(NamedTuple):
    annotations: Mapping[str, str]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Handler:
    """An entry of a node's status.runtimeHandlers. The name "" is the default handler."""

    name: str = ""
    user_namespaces: bool = False
    recursive_read_only_mounts: bool = False


class Suspect(NamedTuple):
    """A runtime handler of a node that failed to start `pods` pods.

    refused: the names of the classes whose pods are kept off the node because of it.
    """

    handler: str
    pods: int
    refused: frozenset[str] = frozenset()


#: Amounts as integers, by resource name. Each field of this type documents its unit.
Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PodResources:
    """A pod's requests, with the defaults of kube-apiserver, in billionths. Not hashable.

    init_containers: the requests of each, and whether it is a sidecar (restartPolicy Always).
    pod_level: the requests in spec.resources, None if the pod has no spec.resources.
    """

    containers: tuple[Amounts, ...] = ()
    init_containers: tuple[tuple[Amounts, bool], ...] = ()
    pod_level: Amounts | None = None
    overhead: Amounts = field(default_factory=lambda: MappingProxyType({}))


class Kubelet(NamedTuple):
    """The parts of a node's kubelet that decide whether it accepts a pod.

    system: the operating system, "" if unknown. rejects_strict_groups: the kubelet rejects
    supplementalGroupsPolicy Strict. may_lack_user_namespaces: the minor version ("v1.32") of a
    kubelet that may have user namespaces switched off although it reports them, else "".
    declared_features: the entries of status.declaredFeatures that may decide where a pod goes,
    None if the node has no such field.
    """

    system: str = ""
    rejects_strict_groups: bool = False
    may_lack_user_namespaces: str = ""
    declared_features: frozenset[str] | None = None

    @property
    def is_windows(self) -> bool:
        return self.system == WINDOWS


#: The scheduler of a pod that names none.
DEFAULT_SCHEDULER: Final = "default-scheduler"


class PodState(NamedTuple):
    """The state of a pod. "" stands for an absent field. Times are RFC 3339 in UTC.

    gates: the names of its scheduling gates. deleted_at: metadata.deletionTimestamp. isolation: the
    value of the annotation. starting_since: since when the pod has had a node but no sandbox, None
    in any other state. last_event: kube-scheduler's last message about a pod without a node.
    nominated_node: the node where kube-scheduler makes room for the pod. preempts: the pod may
    evict pods of lower priority.
    """

    gates: tuple[str, ...] = ()
    scheduler_name: str = ""
    node_name: str = ""
    deleted_at: str = ""
    isolation: str = ""
    starting_since: str | None = None
    last_event: str = ""
    nominated_node: str = ""
    priority: int = 0
    preempts: bool = True
    is_finished: bool = False

    @property
    def waits(self) -> bool:
        """Whether kube-scheduler is looking for a node for the pod."""
        return not (self.node_name or self.gates or self.is_finished)


NEW: Final = PodState()

#: The extended resource that marks the pods about which kube-scheduler asks the extender.
MARK: Final = "runtimeclass-extender/pod"

#: The operating system whose kubelet behaves differently, as in status.nodeInfo.operatingSystem.
WINDOWS: Final = "windows"
OS_LABEL: Final = "kubernetes.io/os"

#: The key of the taint, and of the label, of nodes that run the control plane (kubeadm).
CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"

UNKNOWN_KUBELET: Final = Kubelet()


@dataclass(frozen=True, slots=True)
class SelectorRequirement:
    """One matchExpressions or matchFields entry of a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SelectorTerm:
    """One nodeSelectorTerms entry: all of its requirements must hold."""

    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


def size_of(term: SelectorTerm) -> int:
    """The number of characters in a term's keys and values, plus one for each value."""
    return sum(
        len(each.key) + sum(map(len, each.values)) + len(each.values)
        for each in (*term.match_expressions, *term.match_fields)
    )


class NodeRequirement(NamedTuple):
    """One requirement on a node's labels, or, with is_field, on its fields (matchFields)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    is_field: bool = False


#: A condition of a node: its type and status.
Condition = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ClassRules:
    """The parsed annotations of a RuntimeClass.

    terms: its node-selector-terms. conditions: the conditions that a node must have. unsupported:
    the words for features that its pods can't use. isolation: its level. faults: the name of each
    annotation that can't be parsed, and the error; the field of such an annotation is empty.
    """

    terms: tuple[SelectorTerm, ...] | None = None
    conditions: tuple[Condition, ...] = ()
    unsupported: tuple[str, ...] = ()
    isolation: str = ""
    faults: tuple[tuple[str, str], ...] = ()

    def has_fault(self, annotation: str) -> bool:
        return any(name == annotation for name, _ in self.faults)


@dataclass(frozen=True, slots=True, eq=False)
class RuntimeClass:
    """A node.k8s.io/v1 RuntimeClass. Compared by identity: a changed class is another object.

    node_selector: (key, value) pairs sorted by key. overhead: podFixed as written. has_overhead and
    has_scheduling, for admission: the class has the field, even if it is empty. rules: None if the
    class has none of our annotations.
    """

    name: str
    handler: str
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    overhead: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    annotations: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    creation_timestamp: str = ""
    has_overhead: bool = False
    has_scheduling: bool = False
    rules: ClassRules | None = None

    @property
    def isolation(self) -> str:
        return self.rules.isolation if self.rules else ""

    def same_as(self, other: "RuntimeClass") -> bool:
        """Whether all fields are equal."""
        return all(getattr(self, name) == getattr(other, name) for name in RuntimeClass.__slots__)


@dataclass(slots=True)  # frozen would cost a microsecond a request; no code changes a Pod
class Pod:
    """A pod as the verbs see it. Compared by its fields. Not hashable.

    group: NAMESPACE/NAME of its PodGroup. Of the fields after group the verbs read only
    state.node_name and uses; explain reads all. node_affinity: None if the pod has no required node
    affinity; an empty tuple matches no node. sets_host_users: spec.hostUsers is set, true or false.
    declared_needs: the features that a node has to declare. is_marked: a container asks for MARK.
    uses: the words for the features that the pod uses (kubernetes.explained_pods). resources and
    uses are None if not decoded.
    """

    namespace: str = ""
    name: str = ""
    uid: str = ""
    runtime_class_name: str = ""
    node_selector: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    tolerations: tuple[Toleration, ...] = ()
    features: Features = NO_FEATURES
    kubelet_needs: KubeletNeeds | None = None
    group: str = ""
    node_affinity: tuple[SelectorTerm, ...] | None = None
    overhead: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    state: PodState = NEW
    sets_host_users: bool = False
    declared_needs: frozenset[str] = frozenset()
    is_marked: bool = False
    resources: PodResources | None = None
    uses: frozenset[str] | None = None

    @property
    def needs(self) -> PodNeeds:
        return PodNeeds(
            self.runtime_class_name,
            tuple(self.node_selector.items()),
            self.tolerations,
            self.features,
            self.kubelet_needs,
            self.uses,
        )

    @property
    def is_bound(self) -> bool:
        return bool(self.state.node_name)

    @property
    def is_unconstrained(self) -> bool:
        """Whether the pod has no RuntimeClass and no needs: every node passes, even if unknown."""
        return not (self.runtime_class_name or self.kubelet_needs or self.features)


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the verbs see it. Not hashable.

    handlers: no two have the same name. allocatable: status.allocatable as JSON, for explain.
    versions: of the kubelet and the container runtime, for display.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    taints: tuple[Taint, ...] = ()
    handlers: frozenset[Handler] = frozenset()
    unschedulable: bool = False
    is_docker: bool = False
    kubelet: Kubelet = UNKNOWN_KUBELET
    allocatable: bytes = b""
    conditions: frozenset[Condition] = frozenset()
    versions: tuple[str, str] = ("", "")
