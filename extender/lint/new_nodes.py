"""Nodes that do not exist yet, as objects tell of them, and whether these contradict a class.

A NodePool of Karpenter tells labels and taints, and of sizes only what its requirements say; an
object of Cluster API tells all by Cluster Autoscaler's annotations. A ResourceFlavor tells the
labels that Kueue puts into the pods of a job. None of them looks at RuntimeClasses.
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
from extender.lint.lints.nodes import WELL_KNOWN
from extender.model.finding import error
from extender.model.objects import HARD_EFFECTS, ClassRules, Node, RuntimeClass, Taint
from extender.model.pod_needs import Toleration
from extender.model.reasons import listed, shown
from extender.rules.node_checks import is_condition_taint
from extender.rules.pools import KARPENTER_POOL_LABELS
from extender.rules.resource_fit import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from extender.rules.tolerations import TolerationSet

RESOURCE_FLAVOR: Final = "ResourceFlavor"
#: The kinds that are held to the classes, by the group of their apiVersion.
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


#: The annotations by which Cluster Autoscaler knows the nodes of a group that has none
#: (cluster-autoscaler/cloudprovider/clusterapi/README.md), and their names of resources.
_CAPACITY: Final = "capacity.cluster-autoscaler.kubernetes.io/"
_SIZES: Final = {"cpu": CPU, "memory": MEMORY, "ephemeral-disk": EPHEMERAL_STORAGE, "maxPods": PODS}

#: The ends of the labels by which Karpenter's providers tell an instance's size, the memory in MiB.
_INSTANCE: Final = {
    **dict.fromkeys(("/instance-cpu", "/sku-cpu"), (CPU, "")),
    **dict.fromkeys(("/instance-memory", "/sku-memory"), (MEMORY, "Mi")),
}

_POOL_LABELS: Final[Place] = ("spec", "template", "metadata", "labels")

#: A requirement's operator, and whether its values have a value that it then excludes.
_EXCLUDING: Final = {("In", False), ("NotIn", True), ("DoesNotExist", False)}


@dataclass(frozen=True, slots=True)
class NewNode:
    """The nodes that an object offers; allocatable is empty where it does not say.

    requirements: (key, operator, values) of labels that a node may have, in order. has_more: such a
    node may have resources that are not in allocatable. tolerations: given by Kueue to the pods.
    """

    pool: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: bytes = b""
    requirements: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    has_more: bool = False
    tolerations: tuple[Toleration, ...] = ()

    def _values(self, key: str) -> set[str]:
        """The values of a label that its nodes will have; none where it does not say."""
        wanted = (
            values for of, operator, values in self.requirements if of == key and operator == "In"
        )
        return {self.labels[key]} if key in self.labels else set(chain.from_iterable(wanted))

    def is_about(self, key: str, value: str, asked: set[tuple[str, str]]) -> bool:
        """Whether a label that a class asks for, of all that are asked for, shows it is meant."""
        values = self._values(key)
        return value in values or (
            bool(values) and asked.isdisjoint((key, each) for each in values)
        )

    def excludes(self, key: str, value: str) -> Place | None:
        """The place in a NodePool that says that no node has this label; None where none does."""
        if self.labels.get(key, value) != value:
            return (*_POOL_LABELS, key)
        for index, (of, operator, values) in enumerate(self.requirements):
            if of == key and (operator, value in values) in _EXCLUDING:
                return ("spec", "template", "spec", "requirements", index)
        told = {*self.labels, *WELL_KNOWN, *(of for of, *_ in self.requirements)}
        return None if key in told else _POOL_LABELS

    def for_class(self, runtime_class: RuntimeClass) -> Node | None:
        """One as a class wants it, of all that is allowed; None where none is."""
        selector = runtime_class.node_selector
        if any(self.excludes(key, value) for key, value in selector):
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


#: Where and how an object contradicts classes, whose names follow; why that counts, and the
#: fix, where it is not a change of the class.
_Cause = tuple[Place, str, str, str]


def contradictions(offer: NewNode, kind: str, classes: Sequence[RuntimeClass]) -> Iterator[Found]:
    """Between an object and the classes that it looks meant for, each cause once.

    It is taken to be meant for a class if it has the class's name, gives a label that the class
    asks for, or gives another value of such a label, and no class asks for that value.
    """
    asked = {entry for each in classes for entry in each.node_selector}
    found: dict[_Cause, list[str]] = {}
    for each in classes:
        own = [(key, value) for key, value in each.node_selector if key not in WELL_KNOWN]
        if offer.pool == each.name or any(offer.is_about(*entry, asked) for entry in own):
            for cause in _causes(offer, kind == RESOURCE_FLAVOR, each):
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
