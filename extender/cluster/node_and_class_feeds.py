"""From a reflector's raw objects to the store: what is kept of each object, and what has changed.

A feed is used by its kind's reflector thread only, unless a docstring says otherwise.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from extender.cluster.api_objects import is_older, revision
from extender.cluster.snapshot_store import ObservedNode, SnapshotStore, canonical_labels
from extender.decoding.decoder import DecodeError, decode
from extender.decoding.nodes import (
    NodeReader,
    NodeTraits,
    SharedTexts,
    labels_of,
    traits_of,
    watched_node,
)
from extender.decoding.runtime_classes import RawRuntimeClass, runtime_class_of
from extender.objects import Condition, RuntimeClass
from extender.shape import Shape, shape_of
from extender.validation.name_rules import validate_node_name

#: How many different traits of nodes are remembered, so that nodes share their shapes. A cluster
#: has a few dozen, but each taint with a timeAdded makes another one.
MAX_TRAITS: Final = 4096

#: The characters up to which traits are remembered; a kubelet may write a megabyte of them anew
#: with each heartbeat.
_MAX_TRAITS_SIZE: Final = 4096


class Held(Struct, gc=False):
    """What is kept of an object between events."""

    revision: int | None


HeldT = TypeVar("HeldT", bound=Held)


class Seen(Struct, Generic[HeldT], gc=False):
    """An object just decoded; held is the object kept before, where nothing that matters differs.

    Unless is_kept, the object is treated as if it did not exist.
    """

    name: bytes
    resource_version: str
    revision: int | None
    held: HeldT
    is_kept: bool = True


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

    def begin(self) -> None:
        """Begin a complete list; one that was begun and not finished is dropped."""
        self._aside = {}

    def collect(self, raw: Raw, *, deleted: bool = False) -> None:
        """Add one object to the list. Raises DecodeError for what is not of this kind."""
        assert self._aside is not None
        seen = self._decode(raw)
        before = self._aside.get(seen.name)
        if before is not None and is_older(seen.revision, before.revision):
            return
        if deleted or not seen.is_kept:
            self._aside.pop(seen.name, None)
            return
        held = seen.held
        if held.revision != seen.revision:
            # What is held keeps its own revision, in case this list is never completed.
            held = msgspec.structs.replace(held, revision=seen.revision)
        self._aside[seen.name] = held

    def commit(self) -> None:
        """The list is complete: objects that are not in it no longer exist."""
        assert self._aside is not None
        self._held, self._aside = self._aside, None
        self._changed = {}
        self._replace(self._held)

    def change(self, raw: Raw, *, deleted: bool) -> str:
        """Note the change of an event, which `flush` hands to the store; returns its
        resourceVersion.

        Raises DecodeError.
        """
        seen = self._decode(raw)
        before = self._held.get(seen.name)
        if before is not None and is_older(seen.revision, before.revision):
            return seen.resource_version
        if deleted or not seen.is_kept:
            if before is not None:
                del self._held[seen.name]
                self._changed[seen.name] = None
            return seen.resource_version
        seen.held.revision = seen.revision
        if seen.held is not before:
            self._held[seen.name] = self._changed[seen.name] = seen.held
        return seen.resource_version

    def positioned(self, resource_version: str) -> None:
        """All changes up to this version have been handed on."""

    def flush(self) -> None:
        """Hand the noted changes to the store: only the last one of each object."""
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


def _checked_name(name: str) -> bytes:
    errors = validate_node_name(name)
    if errors:
        raise DecodeError(errors[0].text)
    return name.encode()


def check_kind(found: str | None, kind: str) -> None:
    """Raises DecodeError."""
    # The items of a list carry no kind.
    if found is not None and found != kind:
        raise DecodeError(f"expected a {kind}, got kind {found!r}")


class HeldNode(Held, gc=False):
    """About 50 bytes; labels are the store's own bytes, shapes are shared between nodes.

    bare is the node's shape without what classes ask for. allocatable is status.allocatable as
    JSON: nodes of one kind of machine mostly share it. conditions are the newest known, also while
    no class asks for any: a class that begins to ask must find them here.
    """

    labels: bytes
    bare: Shape
    allocatable: bytes
    conditions: frozenset[Condition]


class NodeFeed(Feed[HeldNode]):
    """Nodes.

    A heartbeat changes nothing that is held: it costs one decoding and four comparisons of bytes. A
    change of a condition that no class asks for is noted here and not handed on.
    """

    kind = "Node"

    def __init__(self, store: SnapshotStore) -> None:
        super().__init__()
        self._store = store
        store.ask_for_conditions(self._conditions_of)
        self._reader = NodeReader()
        self._bare_shapes: dict[NodeTraits, Shape] = {}
        self._amounts = SharedTexts()

    def _decode(self, raw: Raw) -> Seen[HeldNode]:
        node, read = watched_node(raw, self.kind)
        check_kind(node.kind, self.kind)
        name = node.name.encode()
        before = self._held.get(name)
        if before is None:
            _checked_name(node.name)
        bare, labels = self._bare_shape(traits_of(node, self.kind), before), node.labels
        # kube-apiserver writes labels in canonical form, so comparing bytes is mostly enough.
        if before is None or labels != before.labels:
            labels = canonical_labels(labels_of(labels, self.kind))
        if before is not None and labels == before.labels:
            labels = before.labels
        version = node.resource_version
        newest = revision(version)
        allocatable, conditions = node.allocatable, self._reader.shared_conditions(read)
        if (
            before is not None
            and bare is before.bare
            and labels is before.labels
            and allocatable == before.allocatable
        ):
            if conditions is before.conditions or is_older(newest, before.revision):
                return Seen(name, version, newest, before)
            # The order matters: first the condition is noted, then it is checked whether a class
            # asks. A class that begins to ask meanwhile does it the other way round, so at least
            # one of the two sees the other's change.
            changed, before.conditions = conditions ^ before.conditions, conditions
            if changed.isdisjoint(self._store.wanted.conditions):
                return Seen(name, version, newest, before)
        allocatable = self._amounts.same(allocatable)
        held = HeldNode(newest, labels, bare, allocatable, conditions)
        return Seen(name, version, newest, held)

    def _conditions_of(self, name: bytes) -> frozenset[Condition]:
        """The known conditions of a node; from any thread."""
        held = self._held.get(name)
        return held.conditions if held is not None else frozenset()

    def _bare_shape(self, traits: NodeTraits, before: HeldNode | None) -> Shape:
        """Nodes of equal traits share one object, as long as it is remembered.

        Long ones are not; a node that keeps them keeps the object that it had before.
        """
        bare = self._bare_shapes.get(traits)
        if bare is None:
            bare = shape_of(self._reader.with_traits("", {}, traits, self.kind), ())
            if traits.size > _MAX_TRAITS_SIZE:
                return before.bare if before is not None and before.bare == bare else bare
            if len(self._bare_shapes) >= MAX_TRAITS:
                self._bare_shapes.clear()
            self._bare_shapes[traits] = bare
        return bare

    def _replace(self, held: Mapping[bytes, HeldNode]) -> None:
        self._store.replace_observed(_observed(name, each) for name, each in held.items())

    def _apply(self, changed: Mapping[bytes, HeldNode | None]) -> None:
        self._store.change_observed(
            [_observed(name, each) for name, each in changed.items() if each is not None],
            [name for name, each in changed.items() if each is None],
        )


def _observed(name: bytes, held: HeldNode) -> ObservedNode:
    return ObservedNode(name, held.labels, held.bare, held.allocatable, held.conditions)


class HeldClass(Held):
    """A RuntimeClass."""

    runtime_class: RuntimeClass


class RuntimeClassFeed(Feed[HeldClass]):
    """RuntimeClasses.

    The API server has validated them; a class that it would refuse today is used as it is. A
    look-up may know of a class before the reflector does: see `offer`.
    """

    kind = "RuntimeClass"

    def __init__(self, store: SnapshotStore) -> None:
        super().__init__()
        self._store = store
        # Between the reflector's thread and those that offer.
        self._lock = threading.RLock()
        self._position: int | None = None

    def _decode(self, raw: Raw) -> Seen[HeldClass]:
        found = decode(raw, RawRuntimeClass, self.kind)
        check_kind(found.kind, self.kind)
        runtime_class = runtime_class_of(found)
        name = _checked_name(runtime_class.name)
        version = (found.metadata and found.metadata.resource_version) or ""
        newest = revision(version)
        before = self._held.get(name)
        if before is not None and before.runtime_class.same_as(runtime_class):
            return Seen(name, version, newest, before)
        return Seen(name, version, newest, HeldClass(newest, runtime_class))

    def positioned(self, resource_version: str) -> None:
        with self._lock:
            self._position = revision(resource_version)

    def holds(self, name: str) -> bool:
        """Whether a class of that name is known; from any thread."""
        with self._lock:
            return name.encode() in self._held

    def offer(self, raw: Raw) -> RuntimeClass | None:
        """Add a class that a GET has just returned; from any thread. Raises DecodeError.

        None when the reflector is past that version, so that the class has been deleted since.
        """
        with self._lock:
            seen = self._decode(raw)
            before = self._held.get(seen.name)
            if before is not None and not is_older(before.revision, seen.revision):
                # Noted, but perhaps not in the store yet, which the caller reads next.
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
        self._store.replace_runtime_classes([each.runtime_class for each in held.values()])

    def _apply(self, changed: Mapping[bytes, HeldClass | None]) -> None:
        self._replace(self._held)
