"""The state of the cluster, read once: from manifests, or from an API server in pages."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from extender.checks.marked_pods import autoscaler_signs
from extender.cluster.cluster_config import ClusterConfig, ConfigError
from extender.cluster.manifest_files import ManifestError
from extender.cluster.manifest_objects import Manifests, Uses
from extender.cluster.pods_and_workloads import Inventory, LiveInventory, ManifestInventory
from extender.cluster.reading_manifests import load_manifests
from extender.cluster.reading_once import ClusterReader, ForbiddenError, ReadError
from extender.cluster.snapshot_store import SnapshotStore
from extender.cluster.source_options import SourceOptions
from extender.commands.progress import Progress
from extender.flags import UsageError
from extender.objects import Namespace, Pod, Taint
from extender.snapshot import Snapshot


class NotAllowedError(UsageError):
    """The user may not read this in the cluster; one line."""


class Pods(Protocol):
    """The pods of the cluster, read when needed. All raise UsageError or NotAllowedError."""

    def find(self, namespace: str, name: str) -> Pod | None: ...
    def named(self, namespace: str) -> Collection[str]: ...
    def pending(self) -> Mapping[str, Pod]: ...


class Namespaces(Protocol):
    """The Namespaces by their names, read when they are needed."""

    def __call__(self, name: str = "") -> Mapping[str, Namespace]:
        """All Namespaces, or at least the named one. Raises UsageError or NotAllowedError."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """taints are those of all nodes, with any effect; warnings are for a person to read.

    namespace: that of objects named without one, as in kubectl.
    """

    snapshot: Snapshot
    taints: frozenset[Taint]
    pods: Pods
    namespaces: Namespaces
    warnings: list[str] = field(default_factory=list)
    namespace: str = "default"
    inventory: Inventory = field(default_factory=lambda: ManifestInventory(Manifests()))
    not_ready: frozenset[bytes] = frozenset()
    autoscaler_signs: frozenset[str] = frozenset()


def load_cluster(
    source: SourceOptions,
    progress: Progress,
    *,
    nodes: bool = True,
    uses: bool = False,
    subjects: bool = False,
    brought: Manifests | None = None,
) -> ClusterState:
    """Read RuntimeClasses, and unless nodes is false Nodes.

    uses: for commands that look at what uses the classes; `inventory` and `not_ready` need it, the
    inventory's subjects need `subjects`. brought: classes and nodes that replace those with the
    same name. Raises UsageError for what can't be read.
    """
    loaded = Manifests(uses=Uses() if uses else None, subjects={} if subjects else None)
    with progress.showing(lambda: f"{len(loaded.nodes):,} nodes read"):
        try:
            if source.manifests:
                load_manifests(source.manifests, loaded, pipes=True)
                if loaded.is_empty:
                    raise UsageError(loaded.warnings[-1])
                _bring(loaded, brought)
                return state_of(loaded)
            config = ClusterConfig(source.kubeconfig, source.context)
            reader = ClusterReader(config)
            loaded.warnings += config.warnings
            reader.read_into(loaded, nodes=nodes)
            _bring(loaded, brought)
        except (ManifestError, ConfigError, ReadError) as error:
            raise UsageError(str(error)) from None
        return _state(
            loaded,
            ClusterPods(reader),
            ClusterNamespaces(reader),
            LiveInventory(reader),
            config.namespace,
        )


def has_cluster() -> bool:
    """Whether there is a cluster to look at, where no flag names one."""
    try:
        ClusterConfig()
    except ConfigError:
        return False
    return True


def state_of(loaded: Manifests) -> ClusterState:
    """The state that manifests describe."""
    pods, inventory = ManifestPods(loaded), ManifestInventory(loaded)
    return _state(loaded, pods, lambda _="": loaded.namespaces, inventory)


def _bring(loaded: Manifests, brought: Manifests | None) -> None:
    if brought is not None:
        loaded.runtime_classes.update(brought.runtime_classes)
        loaded.nodes.update(brought.nodes)


def _state(
    loaded: Manifests,
    pods: Pods,
    namespaces: Namespaces,
    inventory: Inventory,
    namespace: str = "default",
) -> ClusterState:
    store = SnapshotStore()
    store.replace_all(loaded.nodes.values(), loaded.runtime_classes.values())
    taints = frozenset(taint for node in loaded.nodes.values() for taint in node.taints)
    not_ready = frozenset(name.encode() for name in (loaded.uses.not_ready if loaded.uses else ()))
    return ClusterState(
        store.snapshot,
        taints,
        pods,
        namespaces,
        loaded.warnings,
        namespace,
        inventory,
        not_ready,
        autoscaler_signs(loaded.nodes.values()),
    )


class ManifestPods:
    """The pods of manifests; all count as pending, since manifests don't say which are bound."""

    def __init__(self, loaded: Manifests) -> None:
        self._loaded = loaded

    def find(self, namespace: str, name: str) -> Pod | None:
        return self._loaded.pods.get(f"{namespace}/{name}")

    def named(self, namespace: str) -> Collection[str]:
        return [pod.name for pod in self._loaded.pods.values() if pod.namespace == namespace]

    def pending(self) -> Mapping[str, Pod]:
        return self._loaded.pods


class ClusterPods:
    """The pods of a cluster."""

    def __init__(self, reader: ClusterReader) -> None:
        self._reader = reader

    def find(self, namespace: str, name: str) -> Pod | None:
        try:
            return self._reader.find_pod(namespace, name)
        except ReadError as error:
            raise _usage_error(error) from None

    def named(self, namespace: str) -> Collection[str]:
        """The names of the Pending pods, which people ask about."""
        pending = self.pending().values()
        return [pod.name for pod in pending if pod.namespace == namespace]

    def pending(self) -> Mapping[str, Pod]:
        try:
            return self._reader.pending_pods()
        except ReadError as error:
            raise _usage_error(error) from None


class ClusterNamespaces:
    """A cluster's namespaces."""

    def __init__(self, reader: ClusterReader) -> None:
        self._reader = reader

    def __call__(self, name: str = "") -> Mapping[str, Namespace]:
        try:
            return self._reader.namespaces(name)
        except ReadError as error:
            raise _usage_error(error) from None


def _usage_error(error: ReadError) -> UsageError:
    kind = NotAllowedError if isinstance(error, ForbiddenError) else UsageError
    return kind(str(error))
