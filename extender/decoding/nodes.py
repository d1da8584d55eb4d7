"""Nodes, one by one or by the thousand."""

from collections.abc import Mapping
from typing import Final, TypeVar

from msgspec import Raw, Struct

from extender.decoding.constraints import RawHandler, RawTaint, handlers_of, taints_of
from extender.decoding.pods import NO_METADATA, RawMetadata
from extender.decoding.reading import decode, strings
from extender.objects import Handler, Node, Taint


class _NodeSpec(Struct):
    taints: list[RawTaint | None] | None = None
    unschedulable: bool | None = None


class _NodeInfo(Struct, rename="camel"):
    container_runtime_version: str | None = None
    operating_system: str | None = None


_NO_INFO: Final = _NodeInfo()


class _NodeStatus(Struct, rename="camel"):
    runtime_handlers: list[RawHandler | None] | None = None
    node_info: _NodeInfo | None = None


class RawNode(Struct):
    metadata: RawMetadata | None = None
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


_NodeTaints: Final[type[list[RawTaint | None] | None]] = (
    list[RawTaint | None] | None  # type: ignore[assignment]
)

_NodeHandlers: Final[type[list[RawHandler | None] | None]] = (
    list[RawHandler | None] | None  # type: ignore[assignment]
)


def is_docker(container_runtime_version: str | None) -> bool:
    return (container_runtime_version or "").startswith("docker://")


#: The label that stands in for status.nodeInfo.operatingSystem where that is empty.
OS_LABEL: Final = "kubernetes.io/os"
_WINDOWS: Final = "windows"


def is_windows(operating_system: str | None, labels: Mapping[str, str]) -> bool:
    """Whether a node's kubelet is one for Windows; operating_system is what nodeInfo has.

    The kubelet goes by its own GOOS, which is what it reports (pkg/kubelet/nodestatus, v1.36.2).
    """
    return (operating_system or labels.get(OS_LABEL)) == _WINDOWS


def node_of(raw: RawNode) -> Node:
    metadata = raw.metadata or NO_METADATA
    spec, status = raw.spec or _NodeSpec(), raw.status or _NodeStatus()
    info, labels = status.node_info or _NO_INFO, strings(metadata.labels)
    return Node(
        metadata.name or "",
        labels,
        taints_of(spec.taints),
        handlers_of(status.runtime_handlers),
        bool(spec.unschedulable),
        is_docker(info.container_runtime_version),
        is_windows(info.operating_system, labels),
    )


class _LeanNodeSpec(Struct, gc=False):
    taints: Raw = Raw(b"null")
    unschedulable: bool | None = None


class _LeanNodeStatus(Struct, rename="camel", gc=False):
    runtime_handlers: Raw = Raw(b"null")
    node_info: _NodeInfo | None = None


class _LeanNode(Struct, gc=False):
    metadata: RawMetadata | None = None
    spec: _LeanNodeSpec | None = None
    status: _LeanNodeStatus | None = None


#: Taints carry the time they were added, so that there is no end of different ones.
_MAX_TEXTS: Final = 1024
_MAX_TEXT: Final = 4096

T = TypeVar("T")


def _remember(known: dict[bytes, T], text: bytes, read: T) -> None:
    if len(text) > _MAX_TEXT:
        return
    if len(known) >= _MAX_TEXTS:
        known.clear()
    known[text] = read


class NodeReader:
    """Decodes many nodes; taints and handlers of equal bytes are mostly one object.

    It remembers those that many nodes have: short ones, and the last _MAX_TEXTS of them.
    """

    __slots__ = ("_handlers", "_taints")

    def __init__(self) -> None:
        self._taints: dict[bytes, tuple[Taint, ...]] = {}
        self._handlers: dict[bytes, frozenset[Handler]] = {}

    def read(self, raw: bytes | memoryview | Raw, place: str = "") -> Node:
        """Raises DecodeError."""
        node = decode(raw, _LeanNode, place)
        metadata, spec = node.metadata or NO_METADATA, node.spec or _LeanNodeSpec()
        status = node.status or _LeanNodeStatus()
        taints = self._taints.get(bytes(spec.taints))
        if taints is None:
            found = decode(spec.taints, _NodeTaints, f"{place}.spec.taints")
            taints = taints_of(found)
            _remember(self._taints, bytes(spec.taints), taints)
        handlers = self._handlers.get(bytes(status.runtime_handlers))
        if handlers is None:
            reported = decode(
                status.runtime_handlers, _NodeHandlers, f"{place}.status.runtimeHandlers"
            )
            handlers = handlers_of(reported)
            _remember(self._handlers, bytes(status.runtime_handlers), handlers)
        info, labels = status.node_info or _NO_INFO, strings(metadata.labels)
        return Node(
            metadata.name or "",
            labels,
            taints,
            handlers,
            bool(spec.unschedulable),
            is_docker(info.container_runtime_version),
            is_windows(info.operating_system, labels),
        )
