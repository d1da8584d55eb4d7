"""Pod, Node, RuntimeClass and their parts, as far as this service looks at them.

Everything here is immutable, so that threads can share it. All can be keys but Pod and Node, which
have mappings. `extender.kubernetes` decodes them.
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

#: The taint that a pod must tolerate for a node with spec.unschedulable.
UNSCHEDULABLE_TAINT_KEY: Final = "node.kubernetes.io/unschedulable"

#: A default that objects share.
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Taint:
    """One of a node's spec.taints; timeAdded does not matter to matching."""

    key: str
    value: str = ""
    effect: str = ""

    def __str__(self) -> str:
        """KEY=VALUE:EFFECT, or KEY:EFFECT for a taint without value, as kubectl prints it."""
        return (
            f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"
        )


class Namespace(NamedTuple):
    annotations: Mapping[str, str]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Handler:
    """One of a node's status.runtimeHandlers; the name "" stands for the default handler."""

    name: str = ""
    user_namespaces: bool = False
    recursive_read_only_mounts: bool = False


class Suspect(NamedTuple):
    """A runtime handler of a node that failed to start `pods` pods.

    refused: the names of the classes whose pods are kept off the node for it.
    """

    handler: str
    pods: int
    refused: frozenset[str] = frozenset()


#: Amounts by resource, as numbers; the fields that have them say in which unit.
Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PodResources:
    """What a pod asks for, in billionths.

    init_containers: requests of each, and whether it is restarted, which makes it a sidecar.
    pod_level: spec.resources.requests; None where there are none. No key.
    """

    containers: tuple[Amounts, ...] = ()
    init_containers: tuple[tuple[Amounts, bool], ...] = ()
    pod_level: Amounts | None = None
    overhead: Amounts = field(default_factory=lambda: MappingProxyType({}))


class Kubelet(NamedTuple):
    """The parts of a node's kubelet that decide whether it accepts a pod.

    system is its operating system, "" where the node does not report it. rejects_strict_groups: it
    rejects supplementalGroupsPolicy Strict. may_lack_user_namespaces is its minor version ("v1.32")
    where it reports user namespaces that it may have switched off, else "". declared_features are
    those of status.declaredFeatures that may decide where a pod goes, None where the node declares
    none at all.
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
    """The state of a pod; "" stands for what is absent.

    gates are the names of its scheduling gates, deleted_at is metadata.deletionTimestamp, isolation
    its annotation's value. starting_since: since when it has been on its node without a sandbox,
    None where it has had one. last_event: kube-scheduler's last message about the pod without a
    node. nominated_node: where kube-scheduler has made room for it. preempts: whether it may evict
    pods of lower priority. Times are RFC 3339 in UTC.
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
        """Whether kube-scheduler looks for a node for the pod."""
        return not (self.node_name or self.gates or self.is_finished)


NEW: Final = PodState()

#: The extended resource by which kube-scheduler tells the pods that it asks the extender about.
MARK: Final = "runtimeclass-extender/pod"

#: The operating system whose kubelet differs, as status.nodeInfo.operatingSystem has it.
WINDOWS: Final = "windows"

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
    """The characters of a term's keys and values; a value counts one more than its length."""
    return sum(
        len(each.key) + sum(map(len, each.values)) + len(each.values)
        for each in (*term.match_expressions, *term.match_fields)
    )


class NodeRequirement(NamedTuple):
    """One requirement of a class's node-selector-terms; is_field: of matchFields."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    is_field: bool = False


#: A condition of a node: its type and status.
Condition = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ClassRules:
    """The annotations of a RuntimeClass.

    terms are its node-selector-terms, conditions those a node must have, unsupported the words for
    features that its pods can't use, isolation its level. A field is empty where its annotation
    can't be read: then `faults` has the annotation's name, and the fault.
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

    node_selector holds (key, value) pairs sorted by key; overhead is podFixed as it was written.
    has_overhead and has_scheduling, for admission: the class has the field, perhaps an empty one.
    rules is None without annotations.
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


@dataclass(slots=True)  # frozen would cost a microsecond a request; nobody changes one
class Pod:
    """A pod as the verbs see it. Compared by its fields, and no key.

    group is NAMESPACE/NAME of the PodGroup that it is scheduled with. The fields after it are read
    for explain only: sets_host_users: spec.hostUsers is there, true or false; declared_needs: the
    features that its node has to declare; is_marked: a container asks for MARK. node_affinity is
    None where the pod has no required node affinity; an empty tuple matches nothing. resources and
    uses, the words for the features it uses (kubernetes.explained_pods), are None where not read.
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
        """No RuntimeClass and no need: every node passes, unknown ones too."""
        return not (self.runtime_class_name or self.kubelet_needs or self.features)


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the verbs see it. No key.

    handlers has no name twice. allocatable is status.allocatable as JSON; for explain. versions:
    those of the kubelet and the container runtime; for people.
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
