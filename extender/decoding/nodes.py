"""Nodes, one by one or by the thousand, from manifests, requests and the API server."""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct

from extender.decoding.common_parts import RawHandler, RawTaint, handlers_of, taints_of
from extender.decoding.decoder import DecodeError, decode, nullable, strings
from extender.decoding.kubelet_features import NodeFeatures, kubelet_of
from extender.objects import Condition, Handler, Kubelet, Node, Taint

_NULL_TEXT: Final = b"null"
_NULL: Final = Raw(_NULL_TEXT)


class _NodeMetadata(Struct, rename="camel", gc=False):
    name: str | None = None
    resource_version: str | None = None
    labels: Raw = _NULL


class _NodeSpec(Struct, gc=False):
    taints: Raw = _NULL
    unschedulable: bool | None = None


class _Condition(Struct, frozen=True, gc=False):
    type: str | None = None
    status: str | None = None


class _NodeInfo(Struct, rename="camel", gc=False):
    container_runtime_version: str | None = None
    operating_system: str | None = None
    kubelet_version: str | None = None


class _NodeStatus(Struct, rename="camel", gc=False):
    runtime_handlers: Raw = _NULL
    node_info: _NodeInfo | None = None
    features: Raw = _NULL
    declared_features: Raw = _NULL
    allocatable: Raw = _NULL
    conditions: Raw = _NULL


#: status.conditions, decoded.
ReadConditions = tuple[_Condition | None, ...]


class _WatchedStatus(_NodeStatus, rename="camel", gc=False):
    conditions: ReadConditions | None = None  # type: ignore[assignment]  # read at once


_NO_METADATA: Final = _NodeMetadata()
_NO_SPEC: Final = _NodeSpec()
_NO_INFO: Final = _NodeInfo()
_NO_STATUS: Final = _NodeStatus()
_NO_CONDITIONS: Final[frozenset[Condition]] = frozenset()


class RawNode(Struct, gc=False):
    """A Node with labels, taints and handlers as the bytes they came as.

    Most nodes of a cluster have the same taints and handlers, and a heartbeat changes none of
    them, so bytes are compared before they are decoded.
    """

    kind: str | None = None
    metadata: _NodeMetadata | None = None
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None

    @property
    def name(self) -> str:
        return (self.metadata or _NO_METADATA).name or ""

    @property
    def resource_version(self) -> str:
        return (self.metadata or _NO_METADATA).resource_version or ""

    @property
    def labels(self) -> bytes:
        """metadata.labels as JSON."""
        return bytes((self.metadata or _NO_METADATA).labels)

    @property
    def allocatable(self) -> bytes:
        """status.allocatable as JSON; empty where there is none."""
        raw = bytes((self.status or _NO_STATUS).allocatable)
        return b"" if raw == _NULL_TEXT else raw

    @property
    def conditions(self) -> Raw:
        """status.conditions as JSON, which changes with every heartbeat; not to be kept."""
        return (self.status or _NO_STATUS).conditions


class _WatchedNode(RawNode, gc=False):
    status: _WatchedStatus | None = None

    @property
    def read_conditions(self) -> ReadConditions:
        return (self.status and self.status.conditions) or ()


def watched_node(raw: Raw, place: str = "") -> tuple[RawNode, ReadConditions]:
    """A node of a watch event with its conditions, which are none where they can't be read.

    A second decoder for the conditions alone would take a fifth longer (1 of 5.5 µs), and each
    heartbeat has them. Raises DecodeError.
    """
    try:
        node = decode(raw, _WatchedNode, place)
    except DecodeError:
        return decode(raw, RawNode, place), ()
    return node, node.read_conditions


_Labels = dict[str, str | None]
_Taints = list[RawTaint | None]
_Declared = list[str | None]
_Handlers = list[RawHandler | None]

#: Of whole nodes in requests: `decode` would take a third longer.
_CONDITIONS: Final = msgspec.json.Decoder(ReadConditions | None)

#: The label that stands in for status.nodeInfo.operatingSystem where that is empty.
_OS_LABEL: Final = "kubernetes.io/os"
_OS_ENTRY: Final = b'"kubernetes.io/os":"'


class NodeTraits(NamedTuple):
    """The parts of a node that matter beside its name and labels; most of them as JSON.

    system is the node's operating system, "" where it does not report one.
    """

    taints: bytes
    handlers: bytes
    unschedulable: bool
    is_docker: bool
    system: str
    kubelet_version: str
    features: bytes
    declared_features: bytes

    @property
    def size(self) -> int:
        """The length of all texts."""
        texts = (self.system, self.kubelet_version, self.features, self.declared_features)
        return len(self.taints) + len(self.handlers) + sum(map(len, texts))


def labels_of(raw: bytes, place: str = "") -> Mapping[str, str]:
    """metadata.labels. Raises DecodeError; place is the node's."""
    return strings(nullable(raw, _Labels, f"{place}.metadata.labels"))


def traits_of(raw: RawNode, place: str = "") -> NodeTraits:
    """Raises DecodeError."""
    spec, status = raw.spec or _NO_SPEC, raw.status or _NO_STATUS
    info = status.node_info or _NO_INFO
    return NodeTraits(
        bytes(spec.taints),
        bytes(status.runtime_handlers),
        bool(spec.unschedulable),
        (info.container_runtime_version or "").startswith("docker://"),
        info.operating_system or _labelled_system(raw.labels, place),
        info.kubelet_version or "",
        bytes(status.features),
        bytes(status.declared_features),
    )


def _labelled_system(labels: bytes, place: str) -> str:
    """The label kubernetes.io/os, which counts where the kubelet does not report its system.

    The kubelet goes by its own GOOS, which is what it reports (pkg/kubelet/nodestatus, v1.36.2).
    """
    # Labels come with every heartbeat: they are decoded only if they are not written as
    # kube-apiserver writes them. A quote within a string is escaped, so what is found is a key.
    start = labels.find(_OS_ENTRY)
    if start < 0 and _OS_LABEL.encode() not in labels and b"\\" not in labels:
        return ""
    if start < 0 or b"\\" in labels or not labels.isascii() or _OS_ENTRY in labels[start + 1 :]:
        return labels_of(labels, place).get(_OS_LABEL) or ""
    start += len(_OS_ENTRY)
    return labels[start : labels.index(b'"', start)].decode()


#: Taints and handlers remembered by their text, and the bytes up to which one is. A cluster has a
#: few dozen, but taints carry the time they were added, so there is no end of different ones.
_MAX_TEXTS: Final = 1024
_MAX_TEXT: Final = 4096

#: The number of a node's conditions up to which they are remembered. Kubelet writes four, and a
#: node-problem-detector some more.
_MAX_CONDITIONS: Final = 64

K = TypeVar("K")
T = TypeVar("T")


def _remember(known: dict[K, T], key: K, size: int, read: T) -> None:
    if size > _MAX_TEXT:
        return
    if len(known) >= _MAX_TEXTS:
        known.clear()
    known[key] = read


def _size_of(read: ReadConditions) -> int:
    """The characters of all that is kept of them, also of what is no condition."""
    return sum(len(each.type or "") + len(each.status or "") for each in read if each is not None)


class SharedTexts:
    """Makes equal texts one object: most nodes' amounts are equal to another node's."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}

    def same(self, text: bytes) -> bytes:
        known = self._known.get(text)
        if known is None:
            _remember(self._known, text, len(text), text)
            return text
        return known


class NodeReader:
    """Decodes nodes, which mostly share equal taints, handlers and kubelets as one object.

    It remembers those that many nodes have: short ones, and the last _MAX_TEXTS of them.
    """

    __slots__ = ("_amounts", "_conditions", "_handlers", "_kubelets", "_taints")

    def __init__(self) -> None:
        self._taints: dict[bytes, tuple[Taint, ...]] = {}
        self._handlers: dict[bytes, frozenset[Handler]] = {}
        self._kubelets: dict[tuple[str, str, bytes, bytes], Kubelet] = {}
        self._amounts = SharedTexts()
        self._conditions: dict[ReadConditions, frozenset[Condition]] = {}

    def read(self, raw: bytes | memoryview | Raw, place: str = "") -> Node:
        """Raises DecodeError."""
        return self.node_of(decode(raw, RawNode, place), place)

    def node_of(self, raw: RawNode, place: str = "") -> Node:
        """Raises DecodeError."""
        labels, conditions = labels_of(raw.labels, place), self.conditions(raw.conditions)
        traits, allocatable = traits_of(raw, place), self._amounts.same(raw.allocatable)
        return self.with_traits(raw.name, labels, traits, place, allocatable, conditions)

    def conditions(self, raw: Raw) -> frozenset[Condition]:
        """Types and statuses of status.conditions; those of equal ones are one object.

        No request is refused for a fault in there: an unreadable condition is ignored.
        """
        try:
            return self.shared_conditions(_CONDITIONS.decode(raw) or ())
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _NO_CONDITIONS

    def shared_conditions(self, read: ReadConditions) -> frozenset[Condition]:
        """The same of conditions that are decoded already."""
        found = self._conditions.get(read)
        if found is None:
            pairs = [(each.type, each.status) for each in read if each is not None]
            found = frozenset((kind, status) for kind, status in pairs if kind and status)
            if len(read) <= _MAX_CONDITIONS:
                _remember(self._conditions, read, _size_of(read), found)
        return found

    def with_traits(
        self,
        name: str,
        labels: Mapping[str, str],
        traits: NodeTraits,
        place: str = "",
        allocatable: bytes = b"",
        conditions: frozenset[Condition] = _NO_CONDITIONS,
    ) -> Node:
        """A node of these traits. Raises DecodeError."""
        taints = self._taints.get(traits.taints)
        if taints is None:
            taints = taints_of(nullable(traits.taints, _Taints, f"{place}.spec.taints"))
            _remember(self._taints, traits.taints, len(traits.taints), taints)
        handlers = self._handlers.get(traits.handlers)
        if handlers is None:
            reported = nullable(traits.handlers, _Handlers, f"{place}.status.runtimeHandlers")
            handlers = handlers_of(reported)
            _remember(self._handlers, traits.handlers, len(traits.handlers), handlers)
        return Node(
            name,
            labels,
            taints,
            handlers,
            traits.unschedulable,
            traits.is_docker,
            self._kubelet(traits, place),
            allocatable,
            conditions,
        )

    def _kubelet(self, traits: NodeTraits, place: str) -> Kubelet:
        told = (
            traits.system,
            traits.kubelet_version,
            traits.features,
            traits.declared_features,
        )
        kubelet = self._kubelets.get(told)
        if kubelet is None:
            features = nullable(traits.features, NodeFeatures, f"{place}.status.features")
            declared = nullable(
                traits.declared_features, _Declared, f"{place}.status.declaredFeatures"
            )
            kubelet = kubelet_of(traits.system, traits.kubelet_version, features, declared)
            _remember(self._kubelets, told, sum(map(len, told)), kubelet)
        return kubelet


def node_of(raw: RawNode, place: str = "") -> Node:
    """One node by itself. Raises DecodeError."""
    return NodeReader().node_of(raw, place)
