"""Nodes that do not exist yet, as an autoscaler's objects tell of them.

A NodePool of Karpenter tells labels and taints, and of sizes only what its requirements say; an
object of Cluster API tells all by Cluster Autoscaler's annotations.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import orjson
from msgspec import Raw, Struct

from extender.kubernetes.decoder import ObjectMeta, RawTaint, decode, strings, taints_of
from extender.kubernetes.explained_pods import RawRequirement
from extender.kubernetes.kinds import NODE_POOLS
from extender.kubernetes.resources import allocatable_of
from extender.lint.lints.nodes import WELL_KNOWN
from extender.model.objects import ClassRules, Node, RuntimeClass, Taint
from extender.rules.pools import KARPENTER_POOL_LABELS
from extender.rules.resource_fit import CPU, EPHEMERAL_STORAGE, MEMORY, PODS


class _Spec(Struct):
    """The spec of a NodePool, and of its template."""

    template: "_Object | None" = None
    requirements: list[RawRequirement | None] | None = None
    taints: list[RawTaint | None] | None = None


class _Object(Struct):
    metadata: ObjectMeta | None = None
    spec: _Spec | None = None


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

    requirements: (key, operator, values) of labels that a node may have, in order. has_more: such a
    node may have resources that are not in allocatable.
    """

    pool: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: bytes = b""
    requirements: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    has_more: bool = False

    def _may_have(self, key: str, value: str) -> bool:
        if key in self.labels:
            return self.labels[key] == value
        told = [(operator, values) for of, operator, values in self.requirements if of == key]
        excluded = any(
            (operator == "In" and value not in values)
            or (operator == "NotIn" and value in values)
            or operator == "DoesNotExist"
            for operator, values in told
        )
        return not excluded and (bool(told) or key in WELL_KNOWN)

    def for_class(self, runtime_class: RuntimeClass) -> Node | None:
        """One as a class wants it, of all that is allowed; None where none is."""
        selector = runtime_class.node_selector
        if not all(self._may_have(key, value) for key, value in selector):
            return None
        single = {
            key: values[0]
            for key, operator, values in self.requirements
            if operator == "In" and len(values) == 1
        }
        labels = {**single, **self.labels, **dict(selector)}
        # A new node is healthy.
        conditions = frozenset((runtime_class.rules or ClassRules()).conditions)
        return Node(
            "",
            {**labels, KARPENTER_POOL_LABELS[0]: self.pool},
            self.taints,
            allocatable=self.allocatable,
            conditions=conditions,
        )


def new_node_of(raw: Raw, kind: str) -> NewNode | None:
    """None for an object that does not tell what its nodes would be. Raises DecodeError."""
    read = decode(raw, _Object, kind)
    metadata = read.metadata or ObjectMeta()
    if kind == NODE_POOLS.name:
        return _of_pool(metadata.name or "", (read.spec and read.spec.template) or _Object())
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
    allocatable = orjson.dumps(sizes)
    allocatable_of(allocatable)
    return NewNode(metadata.name or "", labels, taints, allocatable)


def _taint(text: str) -> RawTaint:
    """KEY=VALUE:EFFECT."""
    entry, _, effect = text.rpartition(":")
    key, _, value = entry.partition("=")
    return RawTaint(key, value, effect)


def _of_pool(name: str, template: _Object) -> NewNode:
    """The size is the largest that the requirements allow, if they tell a bound."""
    spec, sizes = template.spec or _Spec(), {}
    requirements = tuple(
        (each.key or "", each.operator or "", tuple(value or "" for value in each.values or ()))
        for each in filter(None, spec.requirements or ())
    )
    for key, operator, values in requirements:
        found = next((told for end, told in _INSTANCE.items() if key.endswith(end)), None)
        numbers = [int(each) for each in values if each.isascii() and each.isdigit()]
        if found and numbers and operator in ("In", "Lt"):
            resource, unit = found
            sizes[resource] = f"{max(numbers) - (operator == 'Lt')}{unit}"
    labels = strings(template.metadata.labels if template.metadata else None)
    allocatable = orjson.dumps(sizes) if {CPU, MEMORY} <= sizes.keys() else b""
    return NewNode(name, labels, taints_of(spec.taints), allocatable, requirements, has_more=True)
