"""From raw objects to the store: feeds keep a part of each object, and find what has changed.

A feed belongs to its kind's reflector thread, unless a docstring says otherwise.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from extender.cluster.api.objects import is_older, revision
from extender.cluster.snapshot_store import ObservedNode, SnapshotStore, canonical_labels
from extender.kubernetes.decoder import decode
from extender.kubernetes.nodes import NodeReader, RawNode
from extender.kubernetes.pods import RawPod
from extender.kubernetes.runtime_classes import RawNamespace, RawRuntimeClass, runtime_class_of
from extender.model.objects import Condition, RuntimeClass
from extender.rules.node_shape import Shape, shape_of

#: Changes of nodes that arrive together make one snapshot: at 65,000 nodes a snapshot takes 3 ms,
#: thirty times as long as reading a change. After this many changes a snapshot is made at once.
MAX_TOGETHER: Final = 1000


class Held(Struct, gc=False):
    """The part of an object that is kept between events."""

    revision: int | None


HeldT = TypeVar("HeldT", bound=Held)


class Feed(ABC, Generic[HeldT]):
    """The objects of one kind. A list is collected aside and swapped in; then changes are applied.

    An object whose resourceVersion is older than that of the held object is ignored.
    """

    kind: str

    def __init__(self) -> None:
        self._held: dict[bytes, HeldT] = {}
        self._aside: dict[bytes, HeldT] | None = None

    @property
    def collected(self) -> int:
        return len(self._aside or ())

    def begin(self) -> None:
        """Begin a complete list; an unfinished one is dropped."""
        self._aside = {}

    def collect(self, raw: Raw, *, deleted: bool = False) -> None:
        """Add one object to the list. Raises DecodeError."""
        assert self._aside is not None
        name, version, held = self._decode(raw)
        newest, before = revision(version), self._aside.get(name)
        if before is not None and is_older(newest, before.revision):
            return
        if deleted or held is None:
            self._aside.pop(name, None)
            return
        if held.revision != newest:
            # A copy: this list may never be completed, so the held object keeps its revision.
            held = msgspec.structs.replace(held, revision=newest)
        self._aside[name] = held

    def commit(self) -> None:
        """Swap in the complete list: objects that are not in it no longer exist."""
        assert self._aside is not None
        self._held, self._aside = self._aside, None
        self._replace(self._held)

    def change(self, raw: Raw, *, deleted: bool) -> str:
        """Hand an event's change to the store; returns its resourceVersion. Raises DecodeError."""
        name, version, held = self._decode(raw)
        newest, before = revision(version), self._held.get(name)
        if before is not None and is_older(newest, before.revision):
            return version
        if deleted or held is None:
            if before is not None:
                del self._held[name]
                self._apply(name, None, before)
            return version
        held.revision = newest
        if held is not before:
            self._held[name] = held
            self._apply(name, held, before)
        return version

    def flush(self) -> None:
        """Hand the changes put aside to the store: the stream has nothing more for now."""

    def positioned(self, resource_version: str) -> None:
        """Note that the feed has all changes up to this version."""

    @abstractmethod
    def _decode(self, raw: Raw) -> tuple[bytes, str, HeldT | None]:
        """An object's name, its resourceVersion, and the part to keep. Raises DecodeError.

        The part is the one held before if nothing relevant differs, None for an ignored object.
        """

    @abstractmethod
    def _replace(self, held: Mapping[bytes, HeldT]) -> None:
        """Hand a complete list to the store."""

    def _apply(self, name: bytes, held: HeldT | None, before: HeldT | None) -> None:
        """Hand a change to the store. held is None for a deleted object, before for a new one."""
        self._replace(self._held)


def version_of(read: RawRuntimeClass | RawNamespace | RawPod) -> str:
    return (read.metadata and read.metadata.resource_version) or ""


class HeldNode(Held, gc=False):
    """The fields of ObservedNode, about 50 bytes: the store has the same labels object."""

    labels: bytes
    bare: Shape
    allocatable: bytes
    conditions: frozenset[Condition]


class NodeFeed(Feed[HeldNode]):
    kind = "Node"

    def __init__(self, store: SnapshotStore) -> None:
        super().__init__()
        self._store = store
        self._reader = NodeReader()
        self._changed: set[bytes] = set()

    def _decode(self, raw: Raw) -> tuple[bytes, str, HeldNode | None]:
        read = decode(raw, RawNode, self.kind)
        node = self._reader.node_of(read, self.kind)
        name, bare, conditions = node.name.encode(), shape_of(node, ()), node.conditions
        before = self._held.get(name)
        version, labels = read.resource_version, read.labels
        newest = revision(version)
        # kube-apiserver writes labels in canonical form, so comparing the bytes mostly suffices.
        if before is None or labels != before.labels:
            labels = canonical_labels(node.labels)
        if (
            before is not None
            and bare == before.bare
            and labels == before.labels
            and node.allocatable == before.allocatable
            and conditions == before.conditions
        ):
            return name, version, before
        return name, version, HeldNode(newest, labels, bare, node.allocatable, conditions)

    def _replace(self, held: Mapping[bytes, HeldNode]) -> None:
        self._store.replace_observed(_observed(name, each) for name, each in held.items())

    def _apply(self, name: bytes, held: HeldNode | None, before: HeldNode | None) -> None:
        self._changed.add(name)
        if len(self._changed) >= MAX_TOGETHER:
            self.flush()

    def flush(self) -> None:
        changed, self._changed = self._changed, set()
        if changed:
            held = ((name, self._held.get(name)) for name in changed)
            self._store.change_observed(
                {name: None if each is None else _observed(name, each) for name, each in held}
            )


def _observed(name: bytes, held: HeldNode) -> ObservedNode:
    return ObservedNode(name, held.labels, held.bare, held.allocatable, held.conditions)


class HeldClass(Held):
    runtime_class: RuntimeClass


class RuntimeClassFeed(Feed[HeldClass]):
    """RuntimeClasses, used as they are: the API server has validated them."""

    kind = "RuntimeClass"

    def __init__(self, store: SnapshotStore) -> None:
        super().__init__()
        self._store = store
        # The reflector's thread writes, and any thread may call `offer`.
        self._lock = threading.RLock()
        self._position: int | None = None

    def _decode(self, raw: Raw) -> tuple[bytes, str, HeldClass | None]:
        read = decode(raw, RawRuntimeClass, self.kind)
        version, runtime_class = version_of(read), runtime_class_of(read)
        name = runtime_class.name.encode()
        before = self._held.get(name)
        if before is not None and before.runtime_class.same_as(runtime_class):
            return name, version, before
        return name, version, HeldClass(revision(version), runtime_class)

    def positioned(self, resource_version: str) -> None:
        with self._lock:
            self._position = revision(resource_version)

    def offer(self, raw: Raw) -> RuntimeClass | None:
        """Add a class that a GET has just returned. Any thread may call it. Raises DecodeError.

        Returns None if the reflector is past the class's version: it has been deleted since.
        """
        with self._lock:
            name, version, found = self._decode(raw)
            newest, before = revision(version), self._held.get(name)
            if before is not None and not is_older(before.revision, newest):
                return before.runtime_class
            if found is None or (before is None and not is_older(self._position, newest)):
                return None
            held = HeldClass(newest, found.runtime_class)
            self._held[name] = held
            self._replace(self._held)
            return held.runtime_class

    def commit(self) -> None:
        with self._lock:
            super().commit()

    def change(self, raw: Raw, *, deleted: bool) -> str:
        with self._lock:
            return super().change(raw, deleted=deleted)

    def _replace(self, held: Mapping[bytes, HeldClass]) -> None:
        self._store.replace_runtime_classes([each.runtime_class for each in held.values()])
