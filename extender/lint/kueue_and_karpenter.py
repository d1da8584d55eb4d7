"""Kueue's ResourceFlavors and Karpenter's NodePools against the classes they look meant for.

Neither looks at RuntimeClasses: Kueue puts a flavor's nodeLabels into the pods of a job, Karpenter
makes nodes with a pool's labels and taints. No other tool checks whether that agrees with a class.

An offer is taken to be meant for a class in three cases: it has the class's name; it gives a label
that the class asks for; it gives another value of such a label, and no class asks for that value.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import Raw, Struct

from extender.kubernetes.decoder import (
    RawTaint,
    RawToleration,
    StringMap,
    decode,
    strings,
    taints_of,
    tolerations_of,
)
from extender.kubernetes.explained_pods import RawRequirement
from extender.kubernetes.workloads import Found, Place
from extender.lint.lints.nodes import WELL_KNOWN
from extender.model.finding import error
from extender.model.objects import HARD_EFFECTS, RuntimeClass, Taint
from extender.model.pod_needs import Toleration
from extender.model.reasons import listed, shown
from extender.rules.node_checks import is_condition_taint
from extender.rules.tolerations import TolerationSet

RESOURCE_FLAVOR: Final = "ResourceFlavor"
NODE_POOL: Final = "NodePool"

#: The kinds that are read, by the group of their apiVersion.
OFFER_GROUPS: Final = {RESOURCE_FLAVOR: "kueue.x-k8s.io", NODE_POOL: "karpenter.sh"}


_LABELS_AT: Final[Mapping[str, Place]] = {
    RESOURCE_FLAVOR: ("spec", "nodeLabels"),
    NODE_POOL: ("spec", "template", "metadata", "labels"),
}
_TAINTS_AT: Final[Mapping[str, Place]] = {
    RESOURCE_FLAVOR: ("spec", "nodeTaints"),
    NODE_POOL: ("spec", "template", "spec", "taints"),
}


class _Metadata(Struct):
    name: str | None = None
    labels: StringMap = None


class _Spec(Struct, rename="camel"):
    """The spec of a ResourceFlavor, of a NodePool, or of a NodePool's template."""

    node_labels: StringMap = None
    node_taints: list[RawTaint | None] | None = None
    tolerations: list[RawToleration | None] | None = None
    template: "_Object | None" = None
    requirements: list[RawRequirement | None] | None = None
    taints: list[RawTaint | None] | None = None


class _Object(Struct):
    metadata: _Metadata | None = None
    spec: _Spec | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """The nodes that an object offers: their labels and their taints.

    requirements: (key, operator, values) of labels that a node of a pool may have, in order.
    tolerations: given by Kueue to every pod that uses the flavor.
    """

    kind: str
    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    requirements: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def values(self, key: str) -> Collection[str]:
        """The values of a label that its nodes will have; none where the offer does not say."""
        if key in self.labels:
            return (self.labels[key],)
        return {
            value
            for wanted, operator, values in self.requirements
            if wanted == key and operator == "In"
            for value in values
        }

    def excludes(self, key: str, value: str) -> Place | None:
        """The place that says that none of its nodes has this label; None where there is none."""
        if self.labels.get(key, value) != value:
            return (*_LABELS_AT[self.kind], key)
        for index, (wanted, operator, values) in enumerate(self.requirements):
            excluded = (
                (operator == "In" and value not in values)
                or (operator == "NotIn" and value in values)
                or operator == "DoesNotExist"
            )
            if wanted == key and excluded:
                return ("spec", "template", "spec", "requirements", index)
        is_told = key in self.labels or any(wanted == key for wanted, _, _ in self.requirements)
        if self.kind == NODE_POOL and not is_told and key not in WELL_KNOWN:
            return _LABELS_AT[self.kind]
        return None


def offer_of(raw: Raw, kind: str) -> Offer:
    """Read one object of a kind in OFFER_GROUPS. Raises DecodeError."""
    read = decode(raw, _Object, kind)
    name = (read.metadata.name if read.metadata else None) or ""
    spec = read.spec or _Spec()
    if kind == RESOURCE_FLAVOR:
        labels, taints = strings(spec.node_labels), taints_of(spec.node_taints)
        return Offer(kind, name, labels, taints, tolerations=tolerations_of(spec.tolerations))
    template = spec.template or _Object()
    labels = strings(template.metadata.labels if template.metadata else None)
    pool = template.spec or _Spec()
    requirements = tuple(
        (each.key or "", each.operator or "", tuple(value or "" for value in each.values or ()))
        for each in filter(None, pool.requirements or ())
    )
    return Offer(kind, name, labels, taints_of(pool.taints), requirements)


def check_offer(offer: Offer, runtime_classes: Sequence[RuntimeClass]) -> Iterator[Found]:
    """Contradictions between an offer and the classes that it looks meant for, each cause once."""
    asked = {entry for each in runtime_classes for entry in each.node_selector}
    labels: dict[tuple[Place, str, str], list[str]] = {}
    taints: dict[tuple[Place, Taint], list[str]] = {}
    for each in runtime_classes:
        entries = [entry for entry in each.node_selector if entry[0] not in WELL_KNOWN]
        if offer.name != each.name and not any(_is_about(offer, *one, asked) for one in entries):
            continue
        for key, value in each.node_selector:
            place = offer.excludes(key, value)
            if place is not None:
                labels.setdefault((place, key, value), []).append(each.name)
        tolerations = TolerationSet((*each.tolerations, *offer.tolerations))
        for index, taint in enumerate(offer.taints):
            judged = taint.effect in HARD_EFFECTS and not is_condition_taint(taint)
            if judged and not tolerations.tolerates(taint):
                taints.setdefault(((*_TAINTS_AT[offer.kind], index), taint), []).append(each.name)
    is_flavor = offer.kind == RESOURCE_FLAVOR
    for (place, key, value), names in labels.items():
        told = listed(names, quote='"')
        entry = f'{{{shown(key)}: "{shown(value)}"}}'
        finding = error(
            "contradicts_class",
            f"its nodes don't have {shown(key)}={shown(value)}, which RuntimeClass {told}"
            f" ask{'s' if len(names) == 1 else ''} for",
            "Kueue adds its nodeLabels to the pods of a job, and admission then refuses them"
            if is_flavor
            else "Karpenter makes no node of this pool for pods of the class",
            f"nodeLabels: {entry}" if is_flavor else f"labels: {entry}",
            *names,
        )
        yield finding, place
    for (place, taint), names in taints.items():
        told = listed(names, quote='"')
        finding = error(
            "contradicts_class",
            f"RuntimeClass {told} do{'es' if len(names) == 1 else ''} not tolerate the taint"
            f" {shown(str(taint))}",
            "pods of the class can't run on its nodes unless they tolerate it themselves",
            f"kubectl edit runtimeclass {names[0]}",
            *names,
        )
        yield finding, place


def _is_about(offer: Offer, key: str, value: str, asked: Collection[tuple[str, str]]) -> bool:
    """Whether an entry of a class's nodeSelector shows that the offer is meant for it."""
    values = offer.values(key)
    return value in values or (bool(values) and not any((key, each) in asked for each in values))
