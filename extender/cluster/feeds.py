"""From a reflector's raw objects to the store: what is kept of each object, and what is new in it.

A feed belongs to its kind's reflector thread, but for what its docstrings say otherwise.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from extender.cluster.api_objects import is_older, revision
from extender.cluster.store import ObservedNode, SnapshotStore, canonical_labels
from extender.decoding import (
    DecodeError,
    RawHandler,
    RawRuntimeClass,
    RawTaint,
    decode,
    handlers_of,
    is_docker,
    is_windows,
    runtime_class_of,
    strings,
    taints_of,
)
from extender.objects import Node, RuntimeClass, Shape, shape_of
from extender.validation import validate_node_name

_NULL: Final = Raw(b"null")
_NO_LABELS: Final = b"{}"

#: Different (taints, handlers) remembered so that nodes share them; a cluster has a few dozen,
#: but each taint with a timeAdded is another one.
MAX_SOURCES: Final = 4096

_Taints: Final[type[list[RawTaint | None] | None]] = (
    list[RawTaint | None] | None  # type: ignore[assignment]  # a union is a type to msgspec
)
_Handlers: Final[type[list[RawHandler | None] | None]] = (
    list[RawHandler | None] | None  # type: ignore[assignment]  # a union is a type to msgspec
)
_Labels: Final[type[dict[str, str | None] | None]] = (
    dict[str, str | None] | None  # type: ignore[assignment]  # a union is a type to msgspec
)


class Held(Struct, gc=False):
    """What is kept of an object between events."""

    revision: int | None


HeldT = TypeVar("HeldT", bound=Held)


class Seen(Struct, Generic[HeldT], gc=False):
    """An object just decoded; held is the one kept before where nothing that matters differs."""

    name: bytes
    resource_version: str
    revision: int | None
    held: HeldT


class Feed(ABC, Generic[HeldT]):
    """The objects of one kind: a list collected aside and then swapped in, and changes after it.

    An object whose resourceVersion is older than the one held is not applied.
    """

    kind: str

    def __init__(self) -> None:
        self._held: dict[bytes, HeldT] = {}
        self._aside: dict[bytes, HeldT] | None = None
        self._changed: dict[bytes, HeldT | None] = {}

    @property
    def has_changes(self) -> bool:
        """Whether `flush` has anything to hand on."""
        return bool(self._changed)

    @property
    def collected(self) -> int:
        """Objects collected aside so far."""
        return len(self._aside or ())

    def revision_of(self, name: str) -> int | None:
        """The version held of an object; None where there is none."""
        held = self._held.get(name.encode())
        return held.revision if held else None

    def begin(self) -> None:
        """Begin a complete list, dropping one that was begun and not finished."""
        self._aside = {}

    def collect(self, raw: Raw, *, deleted: bool = False) -> None:
        """One object of the list. Raises DecodeError for what is none of this kind."""
        assert self._aside is not None
        seen = self._decode(raw)
        before = self._aside.get(seen.name)
        if before is not None and is_older(seen.revision, before.revision):
            return
        if deleted:
            self._aside.pop(seen.name, None)
            return
        held = seen.held
        if held.revision != seen.revision:
            # The one held still stands for its own revision, should this list come to nothing.
            held = msgspec.structs.replace(held, revision=seen.revision)
        self._aside[seen.name] = held

    def commit(self) -> None:
        """The list is complete: what isn't in it is gone."""
        assert self._aside is not None
        self._held, self._aside = self._aside, None
        self._changed = {}
        self._replace(self._held)

    def change(self, raw: Raw, *, deleted: bool) -> str:
        """Note what an event tells; `flush` hands it on. Answers its resourceVersion.

        Raises DecodeError.
        """
        seen = self._decode(raw)
        before = self._held.get(seen.name)
        if before is not None and is_older(seen.revision, before.revision):
            return seen.resource_version
        if deleted:
            if before is not None:
                del self._held[seen.name]
                self._changed[seen.name] = None
            return seen.resource_version
        seen.held.revision = seen.revision
        if seen.held is not before:
            self._held[seen.name] = self._changed[seen.name] = seen.held
        return seen.resource_version

    def positioned(self, resource_version: str) -> None:
        """All that happened up to this version has been handed on."""

    def flush(self) -> None:
        """Hand the changes noted to the store, folded: the last of each object."""
        changed, self._changed = self._changed, {}
        if changed:
            self._apply(changed)

    @abstractmethod
    def _decode(self, raw: Raw) -> Seen[HeldT]:
        """One object as JSON → what is kept of it. Raises DecodeError."""

    @abstractmethod
    def _replace(self, held: Mapping[bytes, HeldT]) -> None:
        """Hand a complete list to the store."""

    @abstractmethod
    def _apply(self, changed: Mapping[bytes, HeldT | None]) -> None:
        """Hand changes to the store; None for what was deleted."""


def _checked_name(name: str | None) -> bytes:
    errors = validate_node_name(name or "")
    if errors:
        raise DecodeError(errors[0].text)
    return (name or "").encode()


def _check_kind(found: str | None, kind: str) -> None:
    # The items of a list carry no kind.
    if found is not None and found != kind:
        raise DecodeError(f"expected a {kind}, got kind {found!r}")


class _NodeMetadata(Struct, rename="camel"):
    name: str | None = None
    resource_version: str | None = None
    labels: Raw = _NULL


class _NodeSpec(Struct):
    taints: Raw = _NULL
    unschedulable: bool | None = None


class _NodeInfo(Struct, rename="camel"):
    container_runtime_version: str | None = None
    operating_system: str | None = None


class _NodeStatus(Struct, rename="camel"):
    runtime_handlers: Raw = _NULL
    node_info: _NodeInfo | None = None


class _NodeObject(Struct):
    kind: str | None = None
    metadata: _NodeMetadata | None = None
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


_NO_SPEC: Final = _NodeSpec()
_NO_STATUS: Final = _NodeStatus()
_NO_INFO: Final = _NodeInfo()
_NO_METADATA: Final = _NodeMetadata()


class _Source(Struct, frozen=True, gc=False):
    """All that decides of a node but its labels, as it came, and the shape it makes."""

    taints: bytes
    handlers: bytes
    unschedulable: bool
    docker: bool
    windows: bool
    bare: Shape


class HeldNode(Held, gc=False):
    """About 50 bytes; labels are the store's own bytes, sources are shared between nodes."""

    labels: bytes
    source: _Source


class NodeFeed(Feed[HeldNode]):
    """Nodes.

    A heartbeat changes nothing of what is held: it costs one decoding and four comparisons of
    bytes.
    """

    kind = "Node"

    def __init__(self, store: SnapshotStore) -> None:
        super().__init__()
        self._store = store
        self._sources: dict[tuple[bytes, bytes, bool, bool, bool], _Source] = {}

    def _decode(self, raw: Raw) -> Seen[HeldNode]:
        node = decode(raw, _NodeObject, "Node")
        _check_kind(node.kind, self.kind)
        metadata, spec = node.metadata or _NO_METADATA, node.spec or _NO_SPEC
        name = (metadata.name or "").encode()
        before = self._held.get(name)
        if before is None:
            _checked_name(metadata.name)
        labels = bytes(metadata.labels)
        source = self._source(spec, node.status or _NO_STATUS, labels)
        # kube-apiserver writes labels in canonical form, so the bytes tell in most cases.
        if before is None or labels != before.labels:
            labels = self._canonical(labels)
        if before is not None and labels == before.labels:
            labels = before.labels
        version = metadata.resource_version or ""
        newest = revision(version)
        if before is not None and source is before.source and labels is before.labels:
            return Seen(name, version, newest, before)
        return Seen(name, version, newest, HeldNode(newest, labels, source))

    def _canonical(self, labels: bytes) -> bytes:
        return canonical_labels(_labels_of(labels))

    def _source(self, spec: _NodeSpec, status: _NodeStatus, labels: bytes) -> _Source:
        info = status.node_info or _NO_INFO
        # A kubelet tells its system; the labels are looked into only where one did not, and only
        # if they can say "windows": they come with every heartbeat.
        look = not info.operating_system and (b'"windows"' in labels or b"\\" in labels)
        key = (
            bytes(spec.taints),
            bytes(status.runtime_handlers),
            bool(spec.unschedulable),
            is_docker(info.container_runtime_version),
            is_windows(info.operating_system, _labels_of(labels) if look else {}),
        )
        source = self._sources.get(key)
        if source is None:
            if len(self._sources) >= MAX_SOURCES:
                self._sources.clear()
            source = self._sources[key] = _Source(*key, _bare_shape(*key))
        return source

    def _replace(self, held: Mapping[bytes, HeldNode]) -> None:
        self._store.replace_observed(_observed(name, each) for name, each in held.items())

    def _apply(self, changed: Mapping[bytes, HeldNode | None]) -> None:
        self._store.change_observed(
            [_observed(name, each) for name, each in changed.items() if each is not None],
            [name for name, each in changed.items() if each is None],
        )


def _observed(name: bytes, held: HeldNode) -> ObservedNode:
    return ObservedNode(name, held.labels, held.source.bare)


def _labels_of(raw: bytes) -> Mapping[str, str]:
    return strings(decode(raw, _Labels, "Node.metadata.labels"))


def _bare_shape(
    taints: bytes, handlers: bytes, unschedulable: bool, docker: bool, windows: bool
) -> Shape:
    node = Node(
        "",
        taints=taints_of(decode(taints, _Taints, "Node.spec.taints")),
        handlers=handlers_of(decode(handlers, _Handlers, "Node.status.runtimeHandlers")),
        unschedulable=unschedulable,
        is_docker=docker,
        is_windows=windows,
    )
    return shape_of(node, ())


class _ClassMetadata(Struct, rename="camel"):
    name: str | None = None
    resource_version: str | None = None


class _ClassObject(Struct):
    kind: str | None = None
    metadata: _ClassMetadata | None = None


class HeldClass(Held):
    """A RuntimeClass."""

    runtime_class: RuntimeClass


class RuntimeClassFeed(Feed[HeldClass]):
    """RuntimeClasses.

    The API server has validated them; one that it would refuse today is used as it is.
    A look-up of a class may know of it before the reflector does: see `offer`.
    """

    kind = "RuntimeClass"

    def __init__(self, store: SnapshotStore) -> None:
        super().__init__()
        self._store = store
        # Between the reflector's thread and those that offer.
        self._lock = threading.RLock()
        self._position: int | None = None

    def _decode(self, raw: Raw) -> Seen[HeldClass]:
        header = decode(raw, _ClassObject, "RuntimeClass")
        _check_kind(header.kind, self.kind)
        metadata = header.metadata or _ClassMetadata()
        name = _checked_name(metadata.name)
        runtime_class = runtime_class_of(decode(raw, RawRuntimeClass, "RuntimeClass"))
        version = metadata.resource_version or ""
        newest = revision(version)
        before = self._held.get(name)
        if before is not None and before.runtime_class.same_as(runtime_class):
            return Seen(name, version, newest, before)
        return Seen(name, version, newest, HeldClass(newest, runtime_class))

    def positioned(self, resource_version: str) -> None:
        with self._lock:
            self._position = revision(resource_version)

    def holds(self, name: str) -> bool:
        """Whether there is a class of that name, as far as is known; from any thread."""
        with self._lock:
            return name.encode() in self._held

    def offer(self, raw: Raw) -> RuntimeClass | None:
        """A class as a GET has just told; from any thread. Raises DecodeError.

        None when the reflector has got past that version and so knows it to be deleted since.
        """
        with self._lock:
            seen = self._decode(raw)
            before = self._held.get(seen.name)
            if before is not None and not is_older(before.revision, seen.revision):
                # Noted, but perhaps not handed on yet; who asks goes on to judge by the store.
                self._replace(self._held)
                return before.runtime_class
            if before is None and not is_older(self._position, seen.revision):
                return None
            held = HeldClass(seen.revision, seen.held.runtime_class)
            self._held[seen.name] = held
            self._replace(self._held)
            return held.runtime_class

    def commit(self) -> None:
        with self._lock:
            super().commit()

    def change(self, raw: Raw, *, deleted: bool) -> str:
        with self._lock:
            return super().change(raw, deleted=deleted)

    def flush(self) -> None:
        with self._lock:
            super().flush()

    def _replace(self, held: Mapping[bytes, HeldClass]) -> None:
        self._store.replace_runtime_classes(_classes(held.values()))

    def _apply(self, changed: Mapping[bytes, HeldClass | None]) -> None:
        self._replace(self._held)


def _classes(held: Iterable[HeldClass]) -> list[RuntimeClass]:
    return [each.runtime_class for each in held]
