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
    """Nodes in columns: names, and the id of each one's shape, 0 for one that is not known.

    labels gives a node's labels by its position, allocatable its status.allocatable as JSON, empty
    where there is none.
    """

    names: Sequence[bytes]
    ids: Sequence[ShapeId]
    shapes: Shapes
    labels: Callable[[int], Mapping[str, str]]
    allocatable: Callable[[int], bytes]


def nodes_of(snapshot: Snapshot, names: Sequence[bytes] | None = None) -> Candidates:
    """The named nodes of a snapshot in that order; all of them by name when None."""
    asked = sorted(snapshot.nodes) if names is None else names
    ids = list(snapshot.nodes.numbers(asked))

    # They keep the snapshot, not its dictionaries: the store reuses these once nothing refers to
    # its table.
    def labels(position: int) -> Mapping[str, str]:
        return decode(snapshot.labels[asked[position]], _Labels)

    def allocatable(position: int) -> bytes:
        return snapshot.allocatable.get(asked[position], b"")

    return Candidates(asked, ids, snapshot.shapes, labels, allocatable)


def described_nodes(nodes: Sequence[Node], names: Sequence[bytes], wanted: Wanted) -> Candidates:
    """Nodes as a request describes them; names in their order."""
    number: dict[Shape, ShapeId] = {}
    ids = [number.setdefault(wanted.shape_of(node), ShapeId(len(number) + 1)) for node in nodes]
    return Candidates(
        names,
        ids,
        Shapes(tuple(number)),
        lambda position: nodes[position].labels,
        lambda position: nodes[position].allocatable,
    )


#: The labels of Karpenter's pools, the newer one first.
KARPENTER_POOL_LABELS: Final = ("karpenter.sh/nodepool", "karpenter.sh/provisioner-name")

#: The labels that name a node's pool, in the order they are looked for: Karpenter's nodes on EKS
#: have no node group, and a managed one's may keep a provider's label beside it. All but
#: Karpenter's are of node groups, which a cluster autoscaler makes larger and smaller.
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

#: The pool's name for nodes that no class distinguishes from others.
PLAIN: Final = "plain"


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool: its name, the label that names it (empty: nodes of equal shape), and its nodes."""

    name: str
    label: str
    nodes: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Pools:
    """The pools by name, and each node's position in them."""

    pools: Sequence[Pool]
    of_node: Mapping[bytes, int]


def pools_of(snapshot: Snapshot, labels: Sequence[str] = ()) -> Pools:
    """Every node's pool.

    labels: keys of --pool-label, looked for before the known ones; the first that a node has
    counts. The pool of nodes without any is named by the labels and taints that classes look at.
    Their handlers do not count, which differ while a runtime is rolled out.
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
