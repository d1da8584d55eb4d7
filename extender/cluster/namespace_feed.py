"""The Namespaces of a live cluster, as far as their annotations make rules for RuntimeClasses."""

import threading
from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from extender.admission.namespace_rules import NamespaceRules, rules_of
from extender.cluster.api_objects import revision
from extender.cluster.kinds import NAMESPACES
from extender.cluster.node_and_class_feeds import Feed, Held, Seen, check_kind
from extender.decoding.decoder import DecodeError, decode, strings
from extender.decoding.runtime_classes import RawNamespace
from extender.reasons import shown
from extender.undecided_errors import ERROR_PREFIX, UndecidedError, not_synced

#: The longest wait for a namespace's watch event: a pod may be created right after its namespace.
#: There are no pods in namespaces that don't exist (admission plugin NamespaceLifecycle).
WAIT_SECONDS: Final = 1.0


class HeldNamespace(Held):
    """What is kept of a namespace."""

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

    def _decode(self, raw: Raw) -> Seen[HeldNamespace]:
        found = decode(raw, RawNamespace, self.kind)
        check_kind(found.kind, self.kind)
        metadata = found.metadata
        if metadata is None or not metadata.name:
            raise DecodeError("Namespace.metadata.name: missing")
        name, version = metadata.name.encode(), metadata.resource_version or ""
        newest = revision(version)
        rules = rules_of(metadata.name, strings(metadata.annotations))
        before = self._held.get(name)
        if before is not None and before.rules == rules:
            return Seen(name, version, newest, before)
        return Seen(name, version, newest, HeldNamespace(newest, rules))

    def _replace(self, held: Mapping[bytes, HeldNamespace]) -> None:
        with self._news:
            self._rules = {name: each.rules for name, each in held.items()}
            self._news.notify_all()

    def _apply(self, changed: Mapping[bytes, HeldNamespace | None]) -> None:
        self._replace(self._held)
