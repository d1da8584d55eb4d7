"""Node pools: by the labels that providers and autoscalers put on nodes, else by shape."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extender.kubernetes.decoder import decode
from extender.model.names import ShapeId
from extender.model.objects import Node
from extender.model.reasons import shown
from extender.rules.node_checks import is_condition_taint
from extender.rules.node_shape import Shape, Wanted
from extender.rules.snapshot import Snapshot
from extender.rules.verdicts import Shapes

_Labels: Final = dict[str, str]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Nodes in columns: their names and their shape ids, 0 for an unknown node.

    labels, allocatable: return the labels and the status.allocatable (JSON, empty if absent) of the
    node at a position.
    """

    names: Sequence[bytes]
    ids: Sequence[ShapeId]
    shapes: Shapes
    labels: Callable[[int], Mapping[str, str]]
    allocatable: Callable[[int], bytes]


def nodes_of(snapshot: Snapshot, names: Sequence[bytes] | None = None) -> Candidates:
    """The named nodes of a snapshot, in the order given. None: all nodes, sorted by name."""
    asked = sorted(snapshot.nodes) if names is None else names
    ids = list(snapshot.nodes.numbers(asked))

    def labels(position: int) -> Mapping[str, str]:
        return decode(snapshot.table.labels[asked[position]], _Labels)

    def allocatable(position: int) -> bytes:
        return snapshot.table.allocatable.get(asked[position], b"")

    return Candidates(asked, ids, snapshot.shapes, labels, allocatable)


def described_nodes(nodes: Sequence[Node], names: Sequence[bytes], wanted: Wanted) -> Candidates:
    """The Nodes of a request; names: their names, in the same order."""
    number: dict[Shape, ShapeId] = {}
    ids = [number.setdefault(wanted.shape_of(node), ShapeId(len(number) + 1)) for node in nodes]
    return Candidates(
        names,
        ids,
        Shapes(tuple(number)),
        lambda position: nodes[position].labels,
        lambda position: nodes[position].allocatable,
    )


#: The labels that name Karpenter's pools, the newer label first.
KARPENTER_POOL_LABELS: Final = ("karpenter.sh/nodepool", "karpenter.sh/provisioner-name")

#: The labels that name a node's pool, in lookup order. A node of Karpenter may also have a
#: provider's label; on EKS it is in no node group. All labels but Karpenter's name node groups,
#: which a cluster autoscaler makes larger and smaller.
POOL_LABELS: Final = (
    "cloud.google.com/gke-nodepool",
    *KARPENTER_POOL_LABELS,
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "doks.digitalocean.com/node-pool",
    "worker.gardener.cloud/pool",
    "kops.k8s.io/instancegroup",
)

#: The name of the pool of the nodes without any label or taint that a class looks at.
PLAIN: Final = "plain"


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool: its name, the key of the label that names it ("": formed by shape), its nodes."""

    name: str
    label: str
    nodes: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Pools:
    """The pools, sorted by name. of_node: the index of each node's pool."""

    pools: Sequence[Pool]
    of_node: Mapping[bytes, int]


def pools_of(snapshot: Snapshot, labels: Sequence[str] = ()) -> Pools:
    """The pools of all nodes.

    labels: the keys of --pool-label, which come before POOL_LABELS. The first of them all that a
    node has names its pool. A node without any is in a pool named by the labels and taints that
    classes look at. Handlers do not count: they differ while a runtime is rolled out.
    """
    keys = tuple(dict.fromkeys((*labels, *POOL_LABELS)))
    candidates = nodes_of(snapshot)
    by_shape: dict[ShapeId, tuple[str, str]] = {}
    members: dict[tuple[str, str], list[bytes]] = {}
    for position, (name, shape_id) in enumerate(zip(candidates.names, candidates.ids, strict=True)):
        labels_here = candidates.labels(position)
        pool = next(((key, labels_here[key]) for key in keys if labels_here.get(key)), None)
        if pool is None:
            if shape_id not in by_shape:
                by_shape[shape_id] = ("", _shape_name(snapshot.shapes[shape_id]))
            pool = by_shape[shape_id]
        members.setdefault(pool, []).append(name)
    ordered = sorted(members.items(), key=lambda item: (item[0][1], item[0][0]))
    pools = [Pool(name, label, nodes) for (label, name), nodes in ordered]
    return Pools(pools, {name: n for n, each in enumerate(pools) for name in each.nodes})


def _shape_name(shape: Shape) -> str:
    entries = [f"{key}={value}" for key, value in sorted(shape.selector_entries)]
    taints = [str(each) for each in shape.taints if not is_condition_taint(each)]
    return shown(", ".join([*entries, *sorted(taints)])) or PLAIN
