"""The Namespaces of a live cluster with their rules for RuntimeClasses, and its Pods by group."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar, cast

from msgspec import Raw

from extender.cluster.api.objects import revision
from extender.cluster.node_and_class_feeds import Feed, Held, version_of
from extender.kubernetes.decoder import DecodeError, decode
from extender.kubernetes.kinds import NAMESPACES, PODS
from extender.kubernetes.namespaces import NamespaceRules, rules_of
from extender.kubernetes.pods import RawPod, placed_pod_of
from extender.kubernetes.resources import load_of
from extender.kubernetes.runtime_classes import RawNamespace
from extender.model.errors import ERROR_PREFIX, UndecidedError, not_synced
from extender.model.objects import RuntimeClass
from extender.model.reasons import shown
from extender.model.using_objects import WaitingPod, WaitingPods
from extender.rules.pod_state import PodGroup, group_of, is_followed
from extender.rules.resource_fit import Loads, Share, share_of

T = TypeVar("T")

#: The longest wait for a namespace's watch event: a pod may be created right after its namespace.
#: There are no pods in namespaces that don't exist (admission plugin NamespaceLifecycle).
WAIT_SECONDS: Final = 1.0


class HeldNamespace(Held):
    rules: NamespaceRules


class NamespaceFeed(Feed[HeldNamespace]):
    """Namespaces. Request threads call `rules_of`, the reflector's thread calls all else."""

    kind = NAMESPACES.name

    def __init__(self) -> None:
        super().__init__()
        self._news = threading.Condition()
        self._rules: Mapping[bytes, NamespaceRules] | None = None

    @property
    def synced(self) -> bool:
        return self._rules is not None

    def rules_of(self, namespace: str) -> NamespaceRules:
        """Raises UndecidedError for a namespace that is not known, and before the first sync."""
        name = namespace.encode()
        if not self.synced:
            raise not_synced("Namespaces")
        known = self._rules or {}
        if name not in known:
            with self._news:
                self._news.wait_for(lambda: name in (self._rules or {}), WAIT_SECONDS)
            known = self._rules or {}
        if name not in known:
            raise UndecidedError(f'{ERROR_PREFIX}namespace "{shown(namespace)}" is not known yet')
        return known[name]

    def _decode(self, raw: Raw) -> tuple[bytes, str, HeldNamespace | None]:
        read = decode(raw, RawNamespace, self.kind)
        version, metadata = version_of(read), read.metadata
        if metadata is None or not metadata.name:
            raise DecodeError("Namespace.metadata.name: missing")
        name = metadata.name.encode()
        rules = rules_of(metadata.name, metadata.read_annotations("Namespace.metadata"))
        before = self._held.get(name)
        if before is not None and before.rules == rules:
            return name, version, before
        return name, version, HeldNamespace(revision(version), rules)

    def _replace(self, held: Mapping[bytes, HeldNamespace]) -> None:
        with self._news:
            self._rules = {name: each.rules for name, each in held.items()}
            self._news.notify_all()


#: The most groups, node names and shares that are kept so that pods share equal objects. A class
#: has a few groups on each node.
_MAX_SHARED: Final = 65_536


class HeldPod(Held, gc=False):
    """The kept part of a pod. Pods share equal groups, nodes and shares.

    group, since: of a pod that is_followed, with the time when it was bound, or created if it is
    not. node, share: of a pod that takes room on a node.
    """

    group: PodGroup | None
    since: str
    node: bytes = b""
    share: Share | None = None


class PodFeed(Feed[HeldPod]):
    """Pods that name a RuntimeClass, need a feature, or take room on a node.

    Any thread may use `groups`, `waiting`, `names` and `loads`; the rest is the reflector's.
    """

    kind = PODS.name

    def __init__(
        self, runtime_classes: Callable[[], Mapping[str, RuntimeClass]], *, room: bool = False
    ) -> None:
        """room: also keep pods that only take room on a node, for `loads`."""
        super().__init__()
        self._runtime_classes = runtime_classes
        self._room = room
        self._shared: dict[object, object] = {}
        #: None before the first list is complete.
        self.loads: Loads | None = None

    def groups(self) -> Mapping[PodGroup, int] | None:
        """The number of pods in each group; None before the first list is complete.

        Pods that were bound before their class was created form groups of their own.
        """
        if self.loads is None:
            return None
        classes = self._runtime_classes()
        created = {name: each.creation_timestamp for name, each in classes.items()}
        pods = tuple(self._held.values())  # a copy: the reflector may change the dict meanwhile
        return Counter(
            group._replace(predates_class=True)
            if created.get(group.runtime_class_name, "") > each.since > ""
            else group
            for each in pods
            if (group := each.group) is not None
        )

    def waiting(self) -> WaitingPods | None:
        """The pods with a RuntimeClass and no node; None before the first list is complete."""
        if self.loads is None:
            return None
        return WaitingPods.of(
            WaitingPod(namespace, name, held.group.runtime_class_name)
            for key, held in tuple(self._held.items())
            if held.group and held.group.runtime_class_name and not held.group.node
            for namespace, _, name in [key.decode().partition("/")]
        )

    def names(self) -> Iterable[str]:
        return map(bytes.decode, tuple(self._held))

    def _shared_by(self, value: T) -> T:
        """The equal object that other pods have, else this value."""
        if len(self._shared) >= _MAX_SHARED:
            self._shared.clear()
        return cast(T, self._shared.setdefault(value, value))

    def _decode(self, raw: Raw) -> tuple[bytes, str, HeldPod | None]:
        read = decode(raw, RawPod, self.kind)
        version, pod = version_of(read), placed_pod_of(read)
        if not pod.name:
            raise DecodeError("Pod.metadata.name: missing")
        name = f"{pod.namespace}/{pod.name}".encode()
        load, group, since = load_of(read) if self._room else None, None, ""
        share = share_of(load) if load is not None else None
        if is_followed(pod):
            since = pod.bound or pod.created
            # `groups` decides this anew, since the class may change.
            group = group_of(pod, self._runtime_classes())._replace(predates_class=False)
            group = self._shared_by(group)
        elif share is None:
            return name, version, None
        before = self._held.get(name)
        now = HeldPod(before.revision if before else revision(version), group, since)
        if load is not None and share is not None:
            now.node = self._shared_by(load.node.encode("utf-8", "replace"))
            now.share = self._shared_by(share)
        return name, version, before if now == before else now

    def _replace(self, held: Mapping[bytes, HeldPod]) -> None:
        loads = Loads()
        for each in held.values():
            _count(loads, each)
        self.loads = loads

    def _apply(self, name: bytes, held: HeldPod | None, before: HeldPod | None) -> None:
        assert self.loads is not None
        _count(self.loads, before, -1)
        _count(self.loads, held)


def _count(loads: Loads, pod: HeldPod | None, times: int = 1) -> None:
    if pod is not None and pod.share is not None:
        named = pod.group.runtime_class_name if pod.group else ""
        loads.count(pod.node, pod.share, named, times)
