"""Nodes that do not exist yet, as an autoscaler's objects tell of them.

A NodePool of Karpenter tells labels and taints, and of sizes only what its requirements say; an
object of Cluster API tells all by Cluster Autoscaler's annotations.
"""

from dataclasses import dataclass
from typing import Final

import orjson
from msgspec import Raw, Struct

from extender.kubernetes.decoder import ObjectMeta, RawTaint, decode, taints_of
from extender.kubernetes.kinds import NODE_POOLS
from extender.kubernetes.resources import allocatable_of
from extender.lint.kueue_and_karpenter import NODE_POOL, Offer, offer_of
from extender.model.objects import ClassRules, Node, RuntimeClass
from extender.rules.pools import KARPENTER_POOL_LABELS
from extender.rules.resource_fit import CPU, EPHEMERAL_STORAGE, MEMORY, PODS


class _Object(Struct):
    metadata: ObjectMeta | None = None


#: The annotations by which Cluster Autoscaler knows the nodes of a group that has none
#: (cluster-autoscaler/cloudprovider/clusterapi/README.md), and their names of resources.
_CAPACITY: Final = "capacity.cluster-autoscaler.kubernetes.io/"
_SIZES: Final = {
    "cpu": CPU,
    "memory": MEMORY,
    "ephemeral-disk": EPHEMERAL_STORAGE,
    "maxPods": PODS,
}

#: The ends of the labels by which Karpenter's providers tell an instance's size, the memory in MiB.
_INSTANCE: Final = {
    **dict.fromkeys(("/instance-cpu", "/sku-cpu"), (CPU, "")),
    **dict.fromkeys(("/instance-memory", "/sku-memory"), (MEMORY, "Mi")),
}


@dataclass(frozen=True, slots=True)
class NewNode:
    """The nodes that an autoscaler would make; allocatable is empty where it does not say.

    has_more: such a node may have resources that are not in allocatable.
    """

    offer: Offer
    allocatable: bytes = b""
    has_more: bool = False

    def for_class(self, runtime_class: RuntimeClass) -> Node | None:
        """One as a class wants it, of all that the offer allows; None where it allows none."""
        selector = runtime_class.node_selector
        if any(self.offer.excludes(key, value) is not None for key, value in selector):
            return None
        single = {
            key: values[0]
            for key, operator, values in self.offer.requirements
            if operator == "In" and len(values) == 1
        }
        labels = {**single, **self.offer.labels, **dict(selector)}
        # A new node is healthy.
        conditions = frozenset((runtime_class.rules or ClassRules()).conditions)
        return Node(
            "",
            {**labels, KARPENTER_POOL_LABELS[0]: self.offer.name},
            tuple(self.offer.taints),
            allocatable=self.allocatable,
            conditions=conditions,
        )


def new_node_of(raw: Raw, kind: str) -> NewNode | None:
    """None for an object that does not tell what its nodes would be. Raises DecodeError."""
    if kind == NODE_POOLS.name:
        offer = offer_of(raw, kind)
        return NewNode(offer, _largest(offer), has_more=True)
    metadata = decode(raw, _Object, kind).metadata or ObjectMeta()
    told = {
        key.removeprefix(_CAPACITY): value
        for key, value in metadata.read_annotations(f"{kind}.metadata").items()
        if key.startswith(_CAPACITY)
    }
    if not {"cpu", "memory"} <= told.keys():
        return None
    sizes = {_SIZES[key]: value for key, value in told.items() if key in _SIZES}
    if "gpu-type" in told:
        sizes[told["gpu-type"]] = told.get("gpu-count", "1")
    labels = dict(each.partition("=")[::2] for each in told.get("labels", "").split(",") if each)
    taints = taints_of(list(map(_taint, filter(None, told.get("taints", "").split(",")))))
    offer = Offer(NODE_POOL, metadata.name or "", labels, taints)
    allocatable = orjson.dumps(sizes)
    allocatable_of(allocatable)
    return NewNode(offer, allocatable)


def _taint(text: str) -> RawTaint:
    """KEY=VALUE:EFFECT."""
    entry, _, effect = text.rpartition(":")
    key, _, value = entry.partition("=")
    return RawTaint(key, value, effect)


def _largest(offer: Offer) -> bytes:
    """The largest size that a NodePool's requirements allow; empty where they tell no bound."""
    sizes = {}
    for key, operator, values in offer.requirements:
        found = next((told for end, told in _INSTANCE.items() if key.endswith(end)), None)
        numbers = [int(each) for each in values if each.isascii() and each.isdigit()]
        if found and numbers and operator in ("In", "Lt"):
            resource, unit = found
            sizes[resource] = f"{max(numbers) - (operator == 'Lt')}{unit}"
    return orjson.dumps(sizes) if {CPU, MEMORY} <= sizes.keys() else b""
