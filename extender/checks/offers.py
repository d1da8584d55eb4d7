"""Kueue's ResourceFlavors and Karpenter's NodePools against the classes they look meant for.

Neither looks at RuntimeClasses: Kueue puts a flavor's nodeLabels into the pods of a job, Karpenter
makes nodes with a pool's labels and taints. Whether that agrees with a class, nobody else checks.

An offer is meant for a class that has its name, or that asks for a label that it gives.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import Raw, Struct

from extender.checks.finding import Finding, Severity
from extender.checks.node_labels import is_well_known
from extender.checks.template_places import Found, Place
from extender.decoding import (
    RawTaint,
    RawToleration,
    StringList,
    StringMap,
    decode,
    strings,
    taints_of,
    tolerations_of,
)
from extender.objects import HARD_EFFECTS, RuntimeClass, Taint, Toleration
from extender.predicates.runtimeclass import is_condition_taint
from extender.predicates.tolerations import TolerationSet
from extender.verdict import shown

RESOURCE_FLAVOR: Final = "ResourceFlavor"
NODE_POOL: Final = "NodePool"

#: The kinds that are read, by the group of their apiVersion.
OFFER_GROUPS: Final = {RESOURCE_FLAVOR: "kueue.x-k8s.io", NODE_POOL: "karpenter.sh"}


class _Requirement(Struct):
    key: str | None = None
    operator: str | None = None
    values: StringList = None


class _Labels(Struct):
    labels: StringMap = None


class _PoolSpec(Struct):
    requirements: list[_Requirement | None] | None = None
    taints: list[RawTaint | None] | None = None


class _PoolTemplate(Struct):
    metadata: _Labels | None = None
    spec: _PoolSpec | None = None


class _Spec(Struct, rename="camel"):
    node_labels: StringMap = None
    node_taints: list[RawTaint | None] | None = None
    tolerations: list[RawToleration | None] | None = None
    template: _PoolTemplate | None = None


class _Named(Struct):
    name: str | None = None


class _RawOffer(Struct):
    metadata: _Named | None = None
    spec: _Spec | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """Nodes that something offers: what they are labelled with, and their taints.

    requirements: (key, operator, values) of labels that a node of a pool may have, in order.
    tolerations: what is given to every pod that gets there.
    """

    kind: str
    name: str
    labels: Mapping[str, str]
    labels_at: Place
    taints: tuple[Taint, ...]
    taints_at: Place
    requirements: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    def gives(self, key: str, value: str) -> bool:
        """Whether its nodes are said to have this label."""
        return self.labels.get(key) == value or any(
            wanted == key and operator == "In" and value in values
            for wanted, operator, values in self.requirements
        )

    def excludes(self, key: str, value: str) -> Place | None:
        """Where it says that no node of it has this label; None where it does not."""
        if self.labels.get(key, value) != value:
            return (*self.labels_at, key)
        for index, (wanted, operator, values) in enumerate(self.requirements):
            excluded = (
                (operator == "In" and value not in values)
                or (operator == "NotIn" and value in values)
                or operator == "DoesNotExist"
            )
            if wanted == key and excluded:
                return ("spec", "template", "spec", "requirements", index)
        is_told = key in self.labels or any(wanted == key for wanted, _, _ in self.requirements)
        if self.kind == NODE_POOL and not is_told and not is_well_known(key):
            return self.labels_at
        return None


def offer_of(raw: Raw, kind: str) -> Offer:
    """Read one object of a kind in OFFER_GROUPS. Raises DecodeError."""
    read = decode(raw, _RawOffer, kind)
    name = (read.metadata.name if read.metadata else None) or ""
    spec = read.spec or _Spec()
    if kind == RESOURCE_FLAVOR:
        return Offer(
            kind,
            name,
            strings(spec.node_labels),
            ("spec", "nodeLabels"),
            taints_of(spec.node_taints),
            ("spec", "nodeTaints"),
            tolerations=tolerations_of(spec.tolerations),
        )
    template = spec.template or _PoolTemplate()
    pool = template.spec or _PoolSpec()
    return Offer(
        kind,
        name,
        strings(template.metadata.labels if template.metadata else None),
        ("spec", "template", "metadata", "labels"),
        taints_of(pool.taints),
        ("spec", "template", "spec", "taints"),
        tuple(
            (each.key or "", each.operator or "", tuple(value or "" for value in each.values or ()))
            for each in pool.requirements or ()
            if each is not None
        ),
    )


def check_offer(offer: Offer, runtime_classes: Iterable[RuntimeClass]) -> Iterator[Found]:
    """What of an offer contradicts a class that it looks meant for."""
    for each in runtime_classes:
        entries = [entry for entry in each.node_selector if not is_well_known(entry[0])]
        if offer.name == each.name or any(offer.gives(key, value) for key, value in entries):
            yield from _labels(offer, each)
            yield from _taints(offer, each)


def _labels(offer: Offer, runtime_class: RuntimeClass) -> Iterator[Found]:
    for key, value in runtime_class.node_selector:
        place = offer.excludes(key, value)
        if place is None:
            continue
        entry = f"{shown(key)}={shown(value)}"
        why = (
            "Kueue adds its nodeLabels to the pods of a job, and admission then refuses them"
            if offer.kind == RESOURCE_FLAVOR
            else "Karpenter makes no node of this pool for pods of the class"
        )
        yield (
            Finding(
                Severity.ERROR,
                "contradicts_class",
                f'no node of it has {entry}, which RuntimeClass "{runtime_class.name}" asks for',
                why,
                f"{'nodeLabels' if offer.kind == RESOURCE_FLAVOR else 'labels'}: {{{shown(key)}:"
                f' "{shown(value)}"}}',
                (runtime_class.name,),
            ),
            place,
        )


def _taints(offer: Offer, runtime_class: RuntimeClass) -> Iterator[Found]:
    tolerations = TolerationSet((*runtime_class.tolerations, *offer.tolerations))
    for index, taint in enumerate(offer.taints):
        judged = taint.effect in HARD_EFFECTS and not is_condition_taint(taint)
        if judged and not tolerations.tolerates(taint):
            yield (
                Finding(
                    Severity.ERROR,
                    "contradicts_class",
                    f'RuntimeClass "{runtime_class.name}" does not tolerate its taint'
                    f" {shown(str(taint))}",
                    "pods of the class can't run on its nodes unless they tolerate it themselves",
                    f"kubectl edit runtimeclass {runtime_class.name}",
                    (runtime_class.name,),
                ),
                (*offer.taints_at, index),
            )
