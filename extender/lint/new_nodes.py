"""Nodes that do not exist yet, as objects describe them, and whether these contradict a class.

A Karpenter NodePool has labels and taints, and sizes only if its requirements limit them. A Cluster
API object has all of these in Cluster Autoscaler's annotations. A Kueue ResourceFlavor has the
labels that Kueue adds to the pods of a job. All these programs ignore RuntimeClasses.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import orjson
from msgspec import Raw, Struct

from extender.kubernetes.decoder import (
    ObjectMeta,
    RawTaint,
    RawToleration,
    StringMap,
    decode,
    strings,
    taints_of,
    tolerations_of,
)
from extender.kubernetes.explained_pods import RawRequirement
from extender.kubernetes.kinds import NODE_POOLS
from extender.kubernetes.resources import allocatable_of
from extender.kubernetes.workloads import Found, Place
from extender.lint.lints.nodes import WELL_KNOWN, own_labels
from extender.model.finding import error
from extender.model.objects import HARD_EFFECTS, ClassRules, Node, RuntimeClass, Taint
from extender.model.pod_needs import Toleration
from extender.model.reasons import listed, shown
from extender.rules.node_checks import is_condition_taint
from extender.rules.pools import KARPENTER_POOL_LABELS
from extender.rules.resource_fit import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from extender.rules.tolerations import TolerationSet

RESOURCE_FLAVOR: Final = "ResourceFlavor"
#: The kinds that are compared with the classes, with the API group of their apiVersion.
OFFER_GROUPS: Final = {RESOURCE_FLAVOR: "kueue.x-k8s.io", NODE_POOLS.name: NODE_POOLS.group}


class _Spec(Struct, rename="camel"):
    """The spec of a ResourceFlavor, of a NodePool, and of its template."""

    node_labels: StringMap = None
    node_taints: list[RawTaint | None] | None = None
    tolerations: list[RawToleration | None] | None = None
    template: "_Object | None" = None
    requirements: list[RawRequirement | None] | None = None
    taints: list[RawTaint | None] | None = None


class _Object(Struct):
    metadata: ObjectMeta | None = None
    spec: _Spec | None = None


#: The prefix of the annotations that describe the nodes of an empty group to Cluster Autoscaler
#: (cluster-autoscaler/cloudprovider/clusterapi/README.md), and the resources by annotation.
_CAPACITY: Final = "capacity.cluster-autoscaler.kubernetes.io/"
_SIZES: Final = {"cpu": CPU, "memory": MEMORY, "ephemeral-disk": EPHEMERAL_STORAGE, "maxPods": PODS}

#: The suffixes of the labels for an instance's size at Karpenter's providers. Memory is in MiB.
_INSTANCE: Final = {
    **dict.fromkeys(("/instance-cpu", "/sku-cpu"), (CPU, "")),
    **dict.fromkeys(("/instance-memory", "/sku-memory"), (MEMORY, "Mi")),
}

#: The labels that Karpenter's providers set on nodes, in addition to WELL_KNOWN.
_PROVIDED: Final = ("karpenter.sh/capacity-type", "karpenter.k8s.aws/", "karpenter.azure.com/")

_POOL_LABELS: Final[Place] = ("spec", "template", "metadata", "labels")

#: The pairs (operator, whether a value is listed) with which a requirement excludes the value.
_EXCLUDING: Final = {("In", False), ("NotIn", True), ("DoesNotExist", False)}


@dataclass(frozen=True, slots=True)
class NewNode:
    """The nodes that an object describes. allocatable: empty if the object does not state it.

    requirements: (key, operator, values) for labels of the nodes, in order. has_more: the nodes may
    have resources that are not in allocatable. tolerations: those that Kueue adds to the pods.
    """

    pool: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: bytes = b""
    requirements: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    has_more: bool = False
    tolerations: tuple[Toleration, ...] = ()

    def _values(self, key: str) -> set[str]:
        """The values that a label may have on the nodes; empty if the object does not list them."""
        wanted = (
            values for of, operator, values in self.requirements if of == key and operator == "In"
        )
        return {self.labels[key]} if key in self.labels else set(chain.from_iterable(wanted))

    def is_about(self, key: str, value: str, asked: set[tuple[str, str]]) -> bool:
        """Whether a class's label shows the object is meant for it. asked: all classes' labels."""
        values = self._values(key)
        return value in values or bool(values and asked.isdisjoint((key, each) for each in values))

    def excludes(self, key: str, value: str) -> Place | None:
        """The place in a NodePool that excludes nodes with this label; None if none does."""
        if self.labels.get(key, value) != value:
            return (*_POOL_LABELS, key)
        for index, (of, operator, values) in enumerate(self.requirements):
            if of == key and (operator, value in values) in _EXCLUDING:
                return ("spec", "template", "spec", "requirements", index)
        told = {*self.labels, *WELL_KNOWN, *(of for of, *_ in self.requirements)}
        is_provided = self.has_more and key.startswith(_PROVIDED)
        return None if key in told or is_provided else _POOL_LABELS

    def for_class(self, runtime_class: RuntimeClass) -> Node | None:
        """A node that matches a class's nodeSelector; None if the object excludes such nodes."""
        selector = runtime_class.node_selector
        if any(self.excludes(key, value) for key, value in selector):
            return None
        single = {
            key: values[0]
            for key, operator, values in self.requirements
            if operator == "In" and len(values) == 1
        }
        labels = {**single, **self.labels, **dict(selector)}
        # A new node is assumed to meet the class's conditions.
        conditions = frozenset((runtime_class.rules or ClassRules()).conditions)
        return Node("", labels, self.taints, allocatable=self.allocatable, conditions=conditions)


def new_node_of(raw: Raw, kind: str) -> NewNode | None:
    """The nodes that an object describes; None if it describes none. Raises DecodeError."""
    read = decode(raw, _Object, kind)
    metadata = read.metadata or ObjectMeta()
    if kind == NODE_POOLS.name:
        return _of_pool(metadata.name or "", (read.spec and read.spec.template) or _Object())
    if kind == RESOURCE_FLAVOR:
        spec = read.spec or _Spec()
        given = tolerations_of(spec.tolerations)
        labels, taints = strings(spec.node_labels), taints_of(spec.node_taints)
        return NewNode(metadata.name or "", labels, taints, tolerations=given)
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
    """The taint in a text KEY=VALUE:EFFECT."""
    entry, _, effect = text.rpartition(":")
    key, _, value = entry.partition("=")
    return RawTaint(key, value, effect)


def _of_pool(name: str, template: _Object) -> NewNode:
    """The nodes of a NodePool, with the largest size that its requirements allow, if limited."""
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
    labels = dict(strings(template.metadata.labels if template.metadata else None))
    labels[KARPENTER_POOL_LABELS[0]] = name
    allocatable = orjson.dumps(sizes) if {CPU, MEMORY} <= sizes.keys() else b""
    return NewNode(name, labels, taints_of(spec.taints), allocatable, requirements, has_more=True)


#: The place of a contradiction; its text, to which the names of the classes are appended; why it
#: matters; and the fix, "" for a change of the class.
_Cause = tuple[Place, str, str, str]


def contradictions(offer: NewNode, kind: str, classes: Sequence[RuntimeClass]) -> Iterator[Found]:
    """The contradictions between an object and the classes it seems meant for, each cause once.

    It seems meant for a class if it has the class's name, if it has a label that the class asks
    for, or if it has such a label with another value that no class asks for. A NodePool is not
    meant for a class that names another one.
    """
    is_flavor = kind == RESOURCE_FLAVOR
    asked = {entry for each in classes for entry in each.node_selector}
    found: dict[_Cause, list[str]] = {}
    for each in classes:
        own = own_labels(each)
        pool = offer.pool if is_flavor else dict(own).get(KARPENTER_POOL_LABELS[0], offer.pool)
        seems_meant = pool == each.name or any(offer.is_about(*entry, asked) for entry in own)
        if pool == offer.pool and seems_meant:
            for cause in _causes(offer, is_flavor, each):
                found.setdefault(cause, []).append(each.name)
    for (place, what, why, fix), names in found.items():
        what += " by RuntimeClass " + listed(names, quote='"')
        fix = fix or f"kubectl edit runtimeclass {names[0]}"
        yield error("contradicts_class", what, why, fix, *names), place


def _causes(offer: NewNode, is_flavor: bool, runtime_class: RuntimeClass) -> Iterator[_Cause]:
    taints_at: Place = ("spec", "template", "spec", "taints")
    field = "labels"
    why = "Karpenter makes no node of this pool for pods of the class"
    if is_flavor:
        field, taints_at = "nodeLabels", ("spec", "nodeTaints")
        why = "Kueue adds its nodeLabels to the pods of a job, and admission then refuses them"
    for key, value in runtime_class.node_selector:
        place = offer.excludes(key, value)
        if is_flavor:
            place = ("spec", field, key) if key in offer.labels and place else None
        if place:
            what = f"its nodes don't have {shown(key)}={shown(value)}, which is asked for"
            yield place, what, why, f'{field}: {{{shown(key)}: "{shown(value)}"}}'
    tolerations = TolerationSet((*runtime_class.tolerations, *offer.tolerations))
    for index, taint in enumerate(offer.taints):
        judged = taint.effect in HARD_EFFECTS and not is_condition_taint(taint)
        if judged and not tolerations.tolerates(taint):
            what = f"the taint {shown(str(taint))} is not tolerated"
            unless = "pods of the class can't run on its nodes unless they tolerate it themselves"
            yield (*taints_at, index), what, unless, ""
