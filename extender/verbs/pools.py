"""Node pools: by the labels that providers and autoscalers put on nodes, else by shape."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from extender.predicates.node_checks import is_condition_taint
from extender.reasons import shown
from extender.shape import Shape, ShapeId
from extender.snapshot import Snapshot
from extender.verbs.explain.candidate_nodes import nodes_of

#: The labels that name a node's pool, in the order they are looked for: Karpenter's nodes on EKS
#: have no node group, and a managed one's may keep a provider's label beside it.
POOL_LABELS: Final = (
    "cloud.google.com/gke-nodepool",
    "karpenter.sh/nodepool",
    "karpenter.sh/provisioner-name",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kubernetes.azure.com/agentpool",
    "agentpool",
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
    counts. Nodes without any form one pool if classes can tell them apart only by their handlers,
    which differ while a runtime is rolled out. Their pool is named by the labels and taints that
    classes look at.
    """
    keys = tuple(dict.fromkeys((*labels, *POOL_LABELS)))
    candidates = nodes_of(snapshot)
    glimpse = candidates.labels.glimpse(keys)
    by_glimpse: dict[object, tuple[str, str] | None] = {}
    by_shape: dict[ShapeId, tuple[str, str]] = {}
    members: dict[tuple[str, str], list[bytes]] = {}
    for position, (name, shape_id) in enumerate(zip(candidates.names, candidates.ids, strict=True)):
        seen = glimpse(position)
        if seen not in by_glimpse:
            by_glimpse[seen] = _labelled(candidates.labels(position), keys)
        pool = by_glimpse[seen]
        if pool is None:
            if shape_id not in by_shape:
                by_shape[shape_id] = ("", _shape_name(snapshot.shapes[shape_id]))
            pool = by_shape[shape_id]
        members.setdefault(pool, []).append(name)
    ordered = sorted(members.items(), key=lambda item: (item[0][1], item[0][0]))
    pools = [Pool(name, label, nodes) for (label, name), nodes in ordered]
    return Pools(pools, {name: n for n, each in enumerate(pools) for name in each.nodes})


def _labelled(labels: Mapping[str, str], keys: Sequence[str]) -> tuple[str, str] | None:
    return next(((key, labels[key]) for key in keys if labels.get(key)), None)


def _shape_name(shape: Shape) -> str:
    entries = [f"{key}={value}" for key, value in sorted(shape.selector_entries)]
    taints = [str(each) for each in shape.taints if not is_condition_taint(each)]
    return shown(", ".join([*entries, *sorted(taints)])) or PLAIN
