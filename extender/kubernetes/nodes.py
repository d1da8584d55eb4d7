"""Decodes Nodes from manifests, requests and the API server."""

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from extender.kubernetes.decoder import (
    NULL,
    RawHandler,
    RawTaint,
    decode,
    handlers_of,
    nullable,
    strings,
    taints_of,
)
from extender.kubernetes.versions import DECIDING_FEATURES, is_on, version_of, version_text
from extender.model.objects import OS_LABEL, WINDOWS, Condition, Handler, Kubelet, Node, Taint


class _NodeFeatures(Struct, rename="camel"):
    supplemental_groups_policy: bool | None = None


class _NodeMetadata(Struct, rename="camel", gc=False):
    name: str | None = None
    resource_version: str | None = None
    labels: Raw = NULL


class _NodeSpec(Struct, gc=False):
    taints: Raw = NULL
    unschedulable: bool | None = None


class _Condition(Struct, frozen=True, gc=False):
    type: str | None = None
    status: str | None = None


class _NodeInfo(Struct, rename="camel", gc=False):
    container_runtime_version: str | None = None
    operating_system: str | None = None
    kubelet_version: str | None = None


class _NodeStatus(Struct, rename="camel", gc=False):
    runtime_handlers: Raw = NULL
    node_info: _NodeInfo | None = None
    features: Raw = NULL
    declared_features: Raw = NULL
    allocatable: Raw = NULL
    conditions: Raw = NULL


_Conditions = tuple[_Condition | None, ...]

_NO_METADATA: Final = _NodeMetadata()
_NO_SPEC: Final = _NodeSpec()
_NO_INFO: Final = _NodeInfo()
_NO_STATUS: Final = _NodeStatus()
_NO_CONDITIONS: Final[frozenset[Condition]] = frozenset()


class RawNode(Struct, gc=False):
    """A Node whose labels, taints and handlers are still JSON, to be compared undecoded."""

    kind: str | None = None
    metadata: _NodeMetadata | None = None
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None

    @property
    def resource_version(self) -> str:
        return (self.metadata or _NO_METADATA).resource_version or ""

    @property
    def labels(self) -> bytes:
        return bytes((self.metadata or _NO_METADATA).labels)


_CONDITIONS: Final = msgspec.json.Decoder(_Conditions | None)

#: The limits of each cache of a NodeReader: its entries, and the bytes of one entry. Taints contain
#: the time when they were added, so the number of different texts has no limit.
_MAX_TEXTS: Final = 1024
_MAX_TEXT: Final = 4096

#: The bytes of a cached condition, without its texts.
_CONDITION_SIZE: Final = 64

K = TypeVar("K")
T = TypeVar("T")


def _known(known: dict[K, T], key: K, size: int, read: Callable[[], T]) -> T:
    """The cached value for a key. If there is none, read it, and cache it if it is small."""
    found = known.get(key)
    if found is None:
        found = read()
        if size <= _MAX_TEXT:
            if len(known) >= _MAX_TEXTS:
                known.clear()
            known[key] = found
    return found


#: A kubelet's cache key: operating system, version, features and declared features as JSON.
_Told = tuple[str, str, bytes, bytes]


class NodeReader:
    """Decodes nodes. Nodes with equal taints, handlers or kubelets mostly share the objects."""

    __slots__ = ("_amounts", "_conditions", "_handlers", "_kubelets", "_taints")

    def __init__(self) -> None:
        self._taints: dict[bytes, tuple[Taint, ...]] = {}
        self._handlers: dict[bytes, frozenset[Handler]] = {}
        self._kubelets: dict[_Told, Kubelet] = {}
        self._amounts: dict[bytes, bytes] = {}
        self._conditions: dict[_Conditions, frozenset[Condition]] = {}

    def read(self, raw: bytes | memoryview | Raw, place: str = "") -> Node:
        """Raises DecodeError."""
        return self.node_of(decode(raw, RawNode, place), place)

    def node_of(self, raw: RawNode, place: str = "") -> Node:
        """Raises DecodeError."""
        spec, status = raw.spec or _NO_SPEC, raw.status or _NO_STATUS
        info, place_of_labels = status.node_info or _NO_INFO, f"{place}.metadata.labels"
        labels = strings(nullable(raw.labels, dict[str, str | None], place_of_labels))
        runtime, version = info.container_runtime_version or "", info.kubelet_version or ""
        # The kubelet goes by its GOOS, which it reports (pkg/kubelet/nodestatus, v1.36.2).
        system = info.operating_system or labels.get(OS_LABEL, "")
        told = system, version, bytes(status.features), bytes(status.declared_features)
        taints, handlers = bytes(spec.taints), bytes(status.runtime_handlers)
        amounts = b"" if status.allocatable == NULL else bytes(status.allocatable)
        size = sum(map(len, told))
        return Node(
            (raw.metadata or _NO_METADATA).name or "",
            labels,
            _known(self._taints, taints, len(taints), lambda: _taints_of(taints, place)),
            _known(self._handlers, handlers, len(handlers), lambda: _handlers_of(handlers, place)),
            bool(spec.unschedulable),
            runtime.startswith("docker://"),
            _known(self._kubelets, told, size, lambda: _kubelet_of(told, place)),
            _known(self._amounts, amounts, len(amounts), lambda: amounts),
            self.conditions(status.conditions),
            (version, runtime),
        )

    def parts_of(self, raw: RawNode) -> int:
        """The number of objects, at most, that node_of will create, without the cached ones.

        Two labels or declared features count as one object.
        """
        spec, status = raw.spec or _NO_SPEC, raw.status or _NO_STATUS
        taints, handlers = bytes(spec.taints), bytes(status.runtime_handlers)
        halves = raw.labels.count(b",") + bytes(status.declared_features).count(b",")
        objects = bytes(status.conditions)
        objects += b"" if taints in self._taints else taints
        objects += b"" if handlers in self._handlers else handlers
        return halves // 2 + objects.count(b"{") + objects.count(b"null")

    def conditions(self, raw: Raw) -> frozenset[Condition]:
        """The (type, status) pairs of status.conditions; empty if these can't be read."""
        try:
            read = _CONDITIONS.decode(raw) or ()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _NO_CONDITIONS
        size = len(raw) // 2 + len(read) * _CONDITION_SIZE
        pairs = ((each.type, each.status) for each in read if each and each.type and each.status)
        return _known(self._conditions, read, size, lambda: frozenset(pairs))


def _taints_of(raw: bytes, place: str) -> tuple[Taint, ...]:
    return taints_of(nullable(raw, list[RawTaint | None], f"{place}.spec.taints"))


def _handlers_of(raw: bytes, place: str) -> frozenset[Handler]:
    return handlers_of(nullable(raw, list[RawHandler | None], f"{place}.status.runtimeHandlers"))


def _kubelet_of(told: _Told, place: str) -> Kubelet:
    """The properties that make a kubelet reject pods. An unreadable version implies none."""
    features = nullable(told[2], _NodeFeatures, f"{place}.status.features")
    declared = nullable(told[3], list[str | None], f"{place}.status.declaredFeatures")
    system, version = told[0], version_of(told[1]) or (0, 0)
    has_strict_groups = features is not None and features.supplemental_groups_policy is True
    # Such a kubelet reports features.userNamespaces, but its own gate is off by default.
    is_gated = is_on("RecursiveReadOnlyMounts", version) and not (
        system == WINDOWS or is_on("UserNamespacesSupport", version)
    )
    return Kubelet(
        system,
        not has_strict_groups and is_on("SupplementalGroupsPolicy", version),
        f"v{version_text(version)}" if is_gated else "",
        None if declared is None else frozenset(DECIDING_FEATURES).intersection(declared),
    )


def is_ready(node: Node) -> bool:
    """Whether the node is ready. Without the condition Ready, as in manifests, it is."""
    stated = {status for kind, status in node.conditions if kind == "Ready"}
    return not stated or "True" in stated
