"""The state of the cluster, read once: from manifests, or from an API server in pages."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from extender.cli.commands import check_source
from extender.cli.flags import Flags
from extender.cli.output import counted
from extender.cli.streams import warn
from extender.cluster.api.config import ClusterConfig, ConfigError
from extender.cluster.manifest_objects import Manifests, Uses, load_manifests
from extender.cluster.reading_once import ClusterReader, ForbiddenError, Inventory, ManifestReader
from extender.cluster.running_service import RunningService
from extender.cluster.snapshot_store import SnapshotStore
from extender.kubernetes.kinds import NAMESPACES, NODES, PODS, RUNTIME_CLASSES
from extender.kubernetes.versions import Version
from extender.kubernetes.workloads import WORKLOADS
from extender.model.errors import UsageError
from extender.model.objects import Node, RuntimeClass
from extender.model.reasons import shown
from extender.model.similar import did_you_mean
from extender.rules.snapshot import Snapshot

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterState:
    """namespace: the default for objects that are named without one, as in kubectl."""

    snapshot: Snapshot
    nodes: Collection[Node]
    inventory: Inventory
    namespace: str
    not_ready: frozenset[bytes]

    def runtime_class(self, name: str) -> RuntimeClass:
        """The class of that name. Raises UsageError if there is none."""
        classes = self.snapshot.runtime_classes
        if name in classes:
            return classes[name]
        there_are = ", ".join(map(shown, sorted(classes))) or "none"
        near = did_you_mean(name, classes) or f"; there are: {there_are[:1000]}"
        raise UsageError(f'RuntimeClass "{shown(name)}" not found{near}')

    def version(self, given: Version | None) -> Version | None:
        """kube-scheduler's version: the given one, else the API server's; None if unknown."""
        return given or self.inventory.kubernetes_version()


def if_allowed(command: str, what: str, read: Callable[[], T]) -> T | None:
    """The result of `read`. None, with a warning that names `what`, if the user may not list it."""
    try:
        return read()
    except ForbiddenError as error:
        warn(command, f"left out {what}: {error}")
        return None


def load_cluster(
    command: str,
    flags: Flags,
    *,
    nodes: bool = True,
    uses: bool = False,
    subjects: bool = False,
    brought: Manifests | None = None,
) -> ClusterState:
    """Read RuntimeClasses and Nodes; print warnings. Raises UsageError for what can't be read.

    uses: keep the inventory's pods and workloads, and which nodes are not ready. subjects: keep its
    pods and workloads as raw objects. brought: classes and nodes that replace those found.
    """
    check_source(flags)
    loaded = Manifests(uses=Uses() if uses else None, subjects={} if subjects else None)
    inventory: Inventory
    if flags.manifests:
        load_manifests(flags.manifests, loaded, pipes=True, counted=counted)
        if loaded.is_empty:
            raise UsageError(loaded.warnings[-1])
        inventory, namespace = ManifestReader(loaded), "default"
    else:
        config = config_of(flags)
        reader = ClusterReader(config, counted=counted)
        try:
            reader.read_into(loaded, nodes=nodes)
        except ForbiddenError as error:
            wanted = [RUNTIME_CLASSES, NODES, PODS, NAMESPACES, *(WORKLOADS if uses else ())]
            lacking = [each.resource for each in wanted if not reader.may_list(each)]
            others = [each for each in lacking if f"{each.partition('.')[0]} is" not in error.said]
            raise ForbiddenError(error.said, others) from None
        inventory, namespace = reader, config.namespace
    if brought is not None:
        loaded.runtime_classes.update(brought.runtime_classes)
        loaded.nodes.update(brought.nodes)
    state = state_of(loaded, inventory, namespace)
    for warning in loaded.warnings:
        warn(command, warning)
    return state


def config_of(flags: Flags) -> ClusterConfig:
    """The cluster that the flags name, and the user to impersonate. Raises UsageError."""
    if flags.as_group and not flags.as_user:
        raise UsageError("--as-group needs --as USER")
    user = {"as": flags.as_user, "as-groups": [*flags.as_group]} if flags.as_user else {}
    return ClusterConfig(flags.kubeconfig, flags.context, user)


def service_of(flags: Flags) -> RunningService:
    """The service of --server. Raises UsageError."""
    if flags.manifests:
        raise UsageError("--server can't be used with --manifests: the service has its own cluster")
    return RunningService(flags.server, lambda: config_of(flags))


def has_cluster(flags: Flags) -> bool:
    if flags.manifests or flags.kubeconfig or flags.context:
        return True
    try:
        ClusterConfig()
    except ConfigError:
        return False
    return True


def state_of(
    loaded: Manifests, inventory: Inventory | None = None, namespace: str = "default"
) -> ClusterState:
    """The state of these objects. inventory: by default that of the loaded manifests."""
    store = SnapshotStore()
    store.replace_all(loaded.nodes.values(), loaded.runtime_classes.values())
    return ClusterState(
        store.snapshot,
        loaded.nodes.values(),
        inventory or ManifestReader(loaded),
        namespace,
        frozenset(name.encode() for name in (loaded.uses.not_ready if loaded.uses else ())),
    )
