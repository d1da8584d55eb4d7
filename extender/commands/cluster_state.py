"""The state of the cluster, read once: from manifests, or from an API server in pages."""

from dataclasses import dataclass

from extender.checks.marked_pods import autoscaler_signs
from extender.cluster.cluster_config import ClusterConfig, ConfigError
from extender.cluster.manifest_objects import Manifests, Uses
from extender.cluster.pods_and_workloads import Inventory, LiveInventory, ManifestInventory
from extender.cluster.reading_manifests import load_manifests
from extender.cluster.reading_once import ClusterReader
from extender.cluster.snapshot_store import SnapshotStore
from extender.cluster.source_options import SourceOptions
from extender.commands.output import warn
from extender.commands.progress import showing
from extender.flags import UsageError
from extender.objects import Taint
from extender.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ClusterState:
    """taints are those of all nodes, with any effect.

    namespace: that of objects named without one, as in kubectl.
    """

    snapshot: Snapshot
    taints: frozenset[Taint]
    inventory: Inventory
    namespace: str
    not_ready: frozenset[bytes]
    autoscaler_signs: frozenset[str]


def load_cluster(
    command: str,
    source: SourceOptions,
    *,
    nodes: bool = True,
    uses: bool = False,
    subjects: bool = False,
    brought: Manifests | None = None,
) -> ClusterState:
    """Read RuntimeClasses, and unless nodes is false Nodes; print warnings in a command's name.

    uses: for commands that look at what uses the classes; `not_ready` and the inventory's pods and
    workloads need it, its subjects need `subjects`. brought: classes and nodes that replace those
    with the same name. Raises UsageError for what can't be read.
    """
    loaded = Manifests(uses=Uses() if uses else None, subjects={} if subjects else None)
    inventory: Inventory
    with showing(lambda: f"{len(loaded.nodes):,} nodes read"):
        if source.manifests:
            load_manifests(source.manifests, loaded, pipes=True)
            if loaded.is_empty:
                raise UsageError(loaded.warnings[-1])
            inventory, namespace = ManifestInventory(loaded), "default"
        else:
            config = ClusterConfig(source.kubeconfig, source.context)
            reader = ClusterReader(config)
            loaded.warnings += config.warnings
            reader.read_into(loaded, nodes=nodes)
            inventory, namespace = LiveInventory(reader), config.namespace
        if brought is not None:
            loaded.runtime_classes.update(brought.runtime_classes)
            loaded.nodes.update(brought.nodes)
        state = state_of(loaded, inventory, namespace)
    for warning in loaded.warnings:
        warn(command, warning)
    return state


def has_cluster() -> bool:
    """Whether there is a cluster to look at, where no flag names one."""
    try:
        ClusterConfig()
    except ConfigError:
        return False
    return True


def state_of(
    loaded: Manifests, inventory: Inventory | None = None, namespace: str = "default"
) -> ClusterState:
    """The state with these objects; inventory is of manifests unless another one is given."""
    store = SnapshotStore()
    store.replace_all(loaded.nodes.values(), loaded.runtime_classes.values())
    return ClusterState(
        store.snapshot,
        frozenset(taint for node in loaded.nodes.values() for taint in node.taints),
        inventory or ManifestInventory(loaded),
        namespace,
        frozenset(name.encode() for name in (loaded.uses.not_ready if loaded.uses else ())),
        autoscaler_signs(loaded.nodes.values()),
    )
