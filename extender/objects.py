"""Pod, Node, RuntimeClass and their parts, as far as this service looks at them.

Everything here is immutable, so that threads can share it. All can be keys but Pod and Node, which
have mappings. Decoding from JSON is in `extender.decoding`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"

#: The effects that keep a pod off a node. PreferNoSchedule only lowers kube-scheduler's score.
HARD_EFFECTS: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})

#: The taint that a toleration must tolerate for a node with spec.unschedulable
#: (pkg/scheduler/framework/plugins/nodeunschedulable, v1.36.2).
UNSCHEDULABLE_TAINT_KEY: Final = "node.kubernetes.io/unschedulable"

#: A mapping without entries that can't be changed: a default that objects share.
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


def _nothing() -> Mapping[str, str]:
    return NOTHING


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
    """The labels and annotations of a Namespace."""

    annotations: Mapping[str, str]
    labels: Mapping[str, str]


class Toleration(NamedTuple):
    """One of a pod's or RuntimeClass's tolerations; "" stands for what is absent.

    seconds is tolerationSeconds, None where there is none. Matching does not look at it, so the
    verbs read a pod's tolerations without it.
    """

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    seconds: int | None = None


def untimed(toleration: Toleration) -> Toleration:
    """The toleration as matching sees it: without seconds."""
    return toleration if toleration.seconds is None else toleration._replace(seconds=None)


def fields_of(toleration: Toleration) -> dict[str, object]:
    """The toleration as the API writes it: only the fields that are there."""
    key, operator, value, effect, seconds = toleration
    fields: dict[str, object] = {
        name: text
        for name, text in (
            ("key", key),
            ("operator", operator),
            ("value", value),
            ("effect", effect),
        )
        if text
    }
    if seconds is not None:
        fields["tolerationSeconds"] = seconds
    return fields


#: The number of a pod's tolerations, and of characters in them, up to which they are remembered. A
#: pod's author may write thousands, so what is remembered for many pods needs a limit.
MAX_FEW: Final = 32
MAX_WORDS: Final = 2048


def has_few_words(tolerations: tuple[Toleration, ...]) -> bool:
    """Whether a list of tolerations is small enough to be remembered."""
    return len(tolerations) <= MAX_FEW and (
        sum(len(t.key) + len(t.operator) + len(t.value) + len(t.effect) for t in tolerations)
        <= MAX_WORDS
    )


@dataclass(frozen=True, slots=True)
class Handler:
    """One of a node's status.runtimeHandlers; the name "" stands for the default handler."""

    name: str = ""
    user_namespaces: bool = False
    recursive_read_only_mounts: bool = False


class Features(NamedTuple):
    """What a pod needs of its runtime handler beyond its presence."""

    user_namespaces: bool = False
    recursive_read_only_mounts: bool = False

    def __bool__(self) -> bool:
        return self.user_namespaces or self.recursive_read_only_mounts


NO_FEATURES: Final = Features()


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

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as of any type without a hash


class KubeletNeeds(NamedTuple):
    """What a pod needs of its kubelet, which otherwise rejects the pod after binding.

    system is spec.os.name, None where there is no spec.os; system_label the pod's *label*
    kubernetes.io/os, None without one. strict_groups: spec.securityContext.supplementalGroupsPolicy
    is Strict. pod_resources: spec.resources names a resource that pods as a whole may have.
    """

    system: str | None = None
    system_label: str | None = None
    strict_groups: bool = False
    pod_resources: bool = False


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


#: The features that a node must declare for a pod with hostNetwork and `hostUsers: false`, and for
#: one with a container whose restart rule has the action RestartAllContainers. No other feature
#: decides where a pod is scheduled (component-helpers/nodedeclaredfeatures/features, v1.36.2).
HOST_NETWORK_USERS: Final = "UserNamespacesHostNetworkSupport"
RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
DECIDING_FEATURES: Final = frozenset({HOST_NETWORK_USERS, RESTART_ALL})


class PodState(NamedTuple):
    """The state of a pod, which explain shows first; "" stands for what is absent.

    gates are the names of its scheduling gates, deleted_at is metadata.deletionTimestamp, isolation
    is what its annotation asks for, a level or not.
    """

    gates: tuple[str, ...] = ()
    scheduler_name: str = ""
    node_name: str = ""
    deleted_at: str = ""
    isolation: str = ""


_NEW: Final = PodState()

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
    """What annotations of a RuntimeClass add to its fields.

    terms are its node-selector-terms, None without any; conditions what a node must have;
    unsupported the words for what its pods can't use; isolation its level, "" for one that says
    none. Each of them is as if it were not there where its annotation can't be read: then `faults`
    has the annotation's name, and what is wrong with it.
    """

    terms: tuple[SelectorTerm, ...] | None = None
    conditions: tuple[Condition, ...] = ()
    unsupported: tuple[str, ...] = ()
    isolation: str = ""
    faults: tuple[tuple[str, str], ...] = ()

    def has_fault(self, annotation: str) -> bool:
        """Whether an annotation can't be read."""
        return any(name == annotation for name, _ in self.faults)


@dataclass(frozen=True, slots=True, eq=False)
class RuntimeClass:
    """A node.k8s.io/v1 RuntimeClass. Compared by identity: a changed class is another object.

    node_selector holds (key, value) pairs sorted by key; overhead is podFixed as it was written.
    has_overhead and has_scheduling are what admission alone looks at: whether the class has them
    at all, be they empty. rules is None for most classes, which have none of these annotations.
    """

    name: str
    handler: str
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    overhead: Mapping[str, str] = field(default_factory=_nothing)
    annotations: Mapping[str, str] = field(default_factory=_nothing)
    creation_timestamp: str = ""
    has_overhead: bool = False
    has_scheduling: bool = False
    rules: ClassRules | None = None

    @property
    def isolation(self) -> str:
        """The isolation level of its pods; "" where the class states none."""
        return self.rules.isolation if self.rules else ""

    def same_as(self, other: "RuntimeClass") -> bool:
        """Whether all fields are equal, so that one can replace the other."""
        return all(getattr(self, name) == getattr(other, name) for name in RuntimeClass.__slots__)


@dataclass(slots=True)  # frozen would cost a microsecond a request; nobody changes one
class Pod:
    """A pod as the verbs see it. Compared by its fields, and no key.

    kubelet_needs is None for most pods, which need nothing that a kubelet rejects them for. group
    is NAMESPACE/NAME of the PodGroup that it is scheduled with, "" for most pods. The fields after
    it are read for explain only: sets_host_users: spec.hostUsers is there, true or false;
    declared_needs: the features that its node has to declare; is_marked: a container asks for MARK;
    resources: None where they were not read. node_affinity is None where the pod has no required
    node affinity; an empty tuple is one that matches nothing
    (component-helpers/scheduling/corev1/nodeaffinity, v1.36.2). uses has the words for what it uses
    (decoding.used_features), None where they were not read: the verbs read them only where the
    pod's class says what its pods can't use.
    """

    namespace: str = ""
    name: str = ""
    uid: str = ""
    runtime_class_name: str = ""
    node_selector: Mapping[str, str] = field(default_factory=_nothing)
    tolerations: tuple[Toleration, ...] = ()
    features: Features = NO_FEATURES
    kubelet_needs: KubeletNeeds | None = None
    group: str = ""
    node_affinity: tuple[SelectorTerm, ...] | None = None
    overhead: Mapping[str, str] = field(default_factory=_nothing)
    state: PodState = _NEW
    sets_host_users: bool = False
    declared_needs: frozenset[str] = frozenset()
    is_marked: bool = False
    resources: PodResources | None = None
    uses: frozenset[str] | None = None

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as of any type without a hash

    @property
    def is_unconstrained(self) -> bool:
        """No RuntimeClass and no need: every node passes, unknown ones too."""
        if self.runtime_class_name or self.kubelet_needs:
            return False
        return self.features is NO_FEATURES or not self.features


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the verbs see it. No key.

    handlers is empty where the node reports none, and has no name twice. allocatable is
    status.allocatable as JSON, empty where there is none; explain alone looks at it.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=_nothing)
    taints: tuple[Taint, ...] = ()
    handlers: frozenset[Handler] = frozenset()
    unschedulable: bool = False
    is_docker: bool = False
    kubelet: Kubelet = UNKNOWN_KUBELET
    allocatable: bytes = b""
    conditions: frozenset[Condition] = frozenset()

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as of any type without a hash
