"""The pods of a live cluster that concern RuntimeClasses, counted by group and not kept."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Raw, Struct

from extender.cluster.api_objects import revision
from extender.cluster.kinds import PODS
from extender.cluster.node_and_class_feeds import Feed, Held, Seen, check_kind
from extender.decoding.class_using_objects import RawPlacedPod, placed_pod_of
from extender.decoding.decoder import DecodeError, decode
from extender.objects import NO_FEATURES, RuntimeClass
from extender.verbs.placement import PodGroup, group_of, is_followed

#: Groups remembered so that pods share them; a class has a few on each node.
_MAX_GROUPS: Final = 65_536


class _Metadata(Struct, rename="camel"):
    resource_version: str | None = None


class _Object(Struct):
    kind: str | None = None
    metadata: _Metadata | None = None


class HeldPod(Held, gc=False):
    """What is kept of a pod: its group, which others share, and since when it has its node."""

    group: PodGroup
    since: str


class PodFeed(Feed[HeldPod]):
    """Pods that name a RuntimeClass or need a feature, counted by group.

    `groups` may be called on any thread, all else belongs to the reflector's. runtime_classes
    gives those of today: pods that were bound before their class was created are a group apart.
    """

    kind = PODS.name

    def __init__(self, runtime_classes: Callable[[], Mapping[str, RuntimeClass]]) -> None:
        super().__init__()
        self._runtime_classes = runtime_classes
        self._shared: dict[PodGroup, PodGroup] = {}
        self._lock = threading.Lock()
        self._counted: dict[bytes, HeldPod] = {}
        self._groups: Counter[PodGroup] | None = None
        self._created: Mapping[str, str] = {}

    def groups(self) -> Mapping[PodGroup, int] | None:
        """The number of pods in each group; None before the first list is complete."""
        classes = self._runtime_classes()
        created = {name: each.creation_timestamp for name, each in classes.items()}
        with self._lock:
            if self._groups is None:
                return None
            if created != self._created:
                self._regroup(classes)
                self._created = created
            return dict(self._groups)

    def _regroup(self, classes: Mapping[str, RuntimeClass]) -> None:
        """Decide anew which pods are older than their classes, which hardly ever changes."""
        groups = Counter[PodGroup]()
        for held in self._counted.values():
            runtime_class = classes.get(held.group.runtime_class_name)
            older = runtime_class is not None and runtime_class.creation_timestamp > held.since > ""
            if older is not held.group.predates_class:
                held.group = self._share(held.group._replace(predates_class=older))
            groups[held.group] += 1
        self._groups = groups

    def _share(self, group: PodGroup) -> PodGroup:
        known = self._shared.get(group)
        if known is None:
            if len(self._shared) >= _MAX_GROUPS:
                self._shared.clear()
            known = self._shared[group] = group
        return known

    def _decode(self, raw: Raw) -> Seen[HeldPod]:
        found = decode(raw, _Object, self.kind)
        check_kind(found.kind, self.kind)
        pod = placed_pod_of(decode(raw, RawPlacedPod, self.kind))
        if not pod.name:
            raise DecodeError("Pod.metadata.name: missing")
        version = (found.metadata and found.metadata.resource_version) or ""
        newest = revision(version)
        name = f"{pod.namespace}/{pod.name}".encode()
        before = self._held.get(name)
        if not is_followed(pod):
            return Seen(name, version, newest, before or _NOTHING, is_kept=False)
        group, since = group_of(pod, self._runtime_classes()), pod.bound or pod.created
        if before is not None and before.group == group and before.since == since:
            return Seen(name, version, newest, before)
        return Seen(name, version, newest, HeldPod(newest, self._share(group), since))

    def _replace(self, held: Mapping[bytes, HeldPod]) -> None:
        with self._lock:
            self._counted = dict(held)
            self._groups = Counter(each.group for each in held.values())
            self._created = {}

    def _apply(self, changed: Mapping[bytes, HeldPod | None]) -> None:
        with self._lock:
            groups = self._groups
            assert groups is not None
            for name, each in changed.items():
                before = self._counted.pop(name, None)
                if before is not None:
                    groups[before.group] -= 1
                    if not groups[before.group]:
                        del groups[before.group]
                if each is not None:
                    self._counted[name] = each
                    groups[each.group] += 1


#: Stands for a pod that is not followed.
_NOTHING: Final = HeldPod(None, PodGroup("", "", (), (), NO_FEATURES, predates_class=False), "")
