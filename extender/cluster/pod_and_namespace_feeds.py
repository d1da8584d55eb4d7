"""The Namespaces of a live cluster with their rules for RuntimeClasses, and its Pods by group."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Raw

from extender.cluster.api.objects import revision
from extender.cluster.node_and_class_feeds import Feed, Held, version_of
from extender.kubernetes.decoder import DecodeError, decode
from extender.kubernetes.kinds import NAMESPACES, PODS
from extender.kubernetes.namespaces import NamespaceRules, rules_of
from extender.kubernetes.pods import RawPod, placed_pod_of
from extender.kubernetes.runtime_classes import RawNamespace
from extender.model.errors import ERROR_PREFIX, UndecidedError, not_synced
from extender.model.objects import RuntimeClass
from extender.model.reasons import shown
from extender.model.using_objects import WaitingPod, WaitingPods
from extender.rules.pod_state import PodGroup, group_of, is_followed

#: The longest wait for a namespace's watch event: a pod may be created right after its namespace.
#: There are no pods in namespaces that don't exist (admission plugin NamespaceLifecycle).
WAIT_SECONDS: Final = 1.0


class HeldNamespace(Held):
    rules: NamespaceRules


class NamespaceFeed(Feed[HeldNamespace]):
    """Namespaces; `rules_of` is for request threads, all else for the reflector's."""

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
        version, metadata = version_of(read, self.kind), read.metadata
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


#: Groups remembered so that pods share them; a class has a few on each node.
_MAX_GROUPS: Final = 65_536


class HeldPod(Held, gc=False):
    """What is kept of a pod: its group, which others share, and since when it has its node."""

    group: PodGroup
    since: str


class PodFeed(Feed[HeldPod]):
    """Pods that name a RuntimeClass or need a feature.

    `groups` and `waiting` are for any thread, all else is for the reflector's.
    """

    kind = PODS.name

    def __init__(self, runtime_classes: Callable[[], Mapping[str, RuntimeClass]]) -> None:
        super().__init__()
        self._runtime_classes = runtime_classes
        self._shared: dict[PodGroup, PodGroup] = {}
        self._synced = False

    def groups(self) -> Mapping[PodGroup, int] | None:
        """The number of pods in each group; None before the first list is complete.

        Pods that were bound before their class was created are a group apart.
        """
        if not self._synced:
            return None
        classes = self._runtime_classes()
        created = {name: each.creation_timestamp for name, each in classes.items()}
        pods = tuple(self._held.values())  # at once, as the reflector may change it meanwhile
        return Counter(
            each.group._replace(predates_class=True)
            if created.get(each.group.runtime_class_name, "") > each.since > ""
            else each.group
            for each in pods
        )

    def waiting(self) -> WaitingPods | None:
        """The pods without a node; None before the first list is complete."""
        if not self._synced:
            return None
        return WaitingPods.of(
            WaitingPod(namespace, name, held.group.runtime_class_name)
            for key, held in tuple(self._held.items())
            if held.group.runtime_class_name and not held.group.node
            for namespace, _, name in [key.decode().partition("/")]
        )

    def _decode(self, raw: Raw) -> tuple[bytes, str, HeldPod | None]:
        read = decode(raw, RawPod, self.kind)
        version, pod = version_of(read, self.kind), placed_pod_of(read)
        if not pod.name:
            raise DecodeError("Pod.metadata.name: missing")
        name = f"{pod.namespace}/{pod.name}".encode()
        if not is_followed(pod):
            return name, version, None
        since = pod.bound or pod.created
        # Whether its class is younger is decided anew in `groups`.
        group = group_of(pod, self._runtime_classes())._replace(predates_class=False)
        before = self._held.get(name)
        if before is not None and before.group == group and before.since == since:
            return name, version, before
        if len(self._shared) >= _MAX_GROUPS:
            self._shared.clear()
        group = self._shared.setdefault(group, group)
        return name, version, HeldPod(revision(version), group, since)

    def _replace(self, held: Mapping[bytes, HeldPod]) -> None:
        self._synced = True
