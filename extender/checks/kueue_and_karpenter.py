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

from extender.checks.finding import Finding, Severity
from extender.checks.node_labels import is_well_known
from extender.checks.template_fields import Found, Place
from extender.decoding.common_parts import RawTaint, RawToleration, taints_of, tolerations_of
from extender.decoding.decoder import StringMap, decode, strings
from extender.decoding.pods import RawRequirement
from extender.objects import HARD_EFFECTS, RuntimeClass, Taint, Toleration
from extender.predicates.node_checks import is_condition_taint
from extender.predicates.tolerations import TolerationSet
from extender.reasons import listed, shown

RESOURCE_FLAVOR: Final = "ResourceFlavor"
NODE_POOL: Final = "NodePool"

#: The kinds that are read, by the group of their apiVersion.
OFFER_GROUPS: Final = {RESOURCE_FLAVOR: "kueue.x-k8s.io", NODE_POOL: "karpenter.sh"}


class _Labels(Struct):
    labels: StringMap = None


class _PoolSpec(Struct):
    requirements: list[RawRequirement | None] | None = None
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
    """The nodes that an object offers: their labels and their taints.

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


def check_offer(offer: Offer, runtime_classes: Sequence[RuntimeClass]) -> Iterator[Found]:
    """What of an offer contradicts the classes that it looks meant for, each cause once."""
    asked = {entry for each in runtime_classes for entry in each.node_selector}
    labels: dict[tuple[Place, str, str], list[str]] = {}
    taints: dict[tuple[Place, Taint], list[str]] = {}
    for each in runtime_classes:
        entries = [entry for entry in each.node_selector if not is_well_known(entry[0])]
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
                taints.setdefault(((*offer.taints_at, index), taint), []).append(each.name)
    for (place, key, value), names in labels.items():
        yield _lacks_label(offer, key, value, names), place
    for (place, taint), names in taints.items():
        yield _has_taint(taint, names), place


def _is_about(offer: Offer, key: str, value: str, asked: Collection[tuple[str, str]]) -> bool:
    """Whether an entry of a class's nodeSelector shows that the offer is meant for it."""
    values = offer.values(key)
    return value in values or (bool(values) and not any((key, each) in asked for each in values))


def _lacks_label(offer: Offer, key: str, value: str, names: Sequence[str]) -> Finding:
    is_flavor, classes = offer.kind == RESOURCE_FLAVOR, listed(names, quote='"')
    return Finding(
        Severity.ERROR,
        "contradicts_class",
        f"no node of it has {shown(key)}={shown(value)}, which RuntimeClass {classes}"
        f" ask{'s' if len(names) == 1 else ''} for",
        "Kueue adds its nodeLabels to the pods of a job, and admission then refuses them"
        if is_flavor
        else "Karpenter makes no node of this pool for pods of the class",
        f'{"nodeLabels" if is_flavor else "labels"}: {{{shown(key)}: "{shown(value)}"}}',
        tuple(names),
    )


def _has_taint(taint: Taint, names: Sequence[str]) -> Finding:
    classes = listed(names, quote='"')
    return Finding(
        Severity.ERROR,
        "contradicts_class",
        f"RuntimeClass {classes} do{'es' if len(names) == 1 else ''} not tolerate its taint"
        f" {shown(str(taint))}",
        "pods of the class can't run on its nodes unless they tolerate it themselves",
        f"kubectl edit runtimeclass {names[0]}",
        tuple(names),
    )
