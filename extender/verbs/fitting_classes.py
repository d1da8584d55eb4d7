"""Which RuntimeClasses could run a pod, best first (KEP-585: fitting a class to a pod's needs).

A class fits if it is allowed in the pod's namespace, isolates at least as well as requested,
supports everything that the pod uses, and lets the pod, as admission would make it, pass on at
least one node. The best is the one with the most nodes, then with the least overhead, then the
first by name, so that the same cluster always gives the same answer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from extender.admission.covering import surviving
from extender.admission.joining_terms import TooManyTermsError, joined_terms
from extender.admission.namespace_rules import NamespaceRules
from extender.decoding.class_annotations import ISOLATION_LEVELS
from extender.objects import Pod, PodResources, RuntimeClass, untimed
from extender.predicates.class_rules import unsupported_reason
from extender.predicates.node_checks import Policy
from extender.predicates.node_selector import missing_labels
from extender.predicates.resource_fit import amounts_in_billionths
from extender.reasons import shown
from extender.snapshot import Snapshot
from extender.validation.quantity import parse_quantity
from extender.verbs.explain.candidate_nodes import Candidates, nodes_of
from extender.verbs.explain.effort import Effort
from extender.verbs.explain.explanation import explain
from extender.verbs.explain.origin import normal

#: The level of a class that states none.
_LEAST: Final = ISOLATION_LEVELS[0]


@dataclass(frozen=True, slots=True)
class Fit:
    """One class: on how many nodes the pod passes with it, or why it does not fit."""

    runtime_class: RuntimeClass
    nodes: int = 0
    reason: str = ""

    @property
    def fits(self) -> bool:
        return not self.reason


def fit(
    pod: Pod,
    snapshot: Snapshot,
    policy: Policy,
    rules: NamespaceRules | None = None,
    isolation: str = "",
    effort: Effort | None = None,
) -> Sequence[Fit]:
    """All classes, those that fit first and best first, then the others by name.

    pod is as decoding.explained_pods reads it; whatever its own class has merged into it is
    ignored. rules are those of its namespace, None where they are not known. isolation is a level,
    "" for any.
    """
    classes = snapshot.runtime_classes
    bare = _without_class(pod, classes.get(pod.runtime_class_name))
    candidates = nodes_of(snapshot)
    found = [
        _judge(bare, each, candidates, policy, rules, isolation, effort)
        for each in classes.values()
    ]
    return sorted(found, key=_rank)


def _judge(
    pod: Pod,
    runtime_class: RuntimeClass,
    candidates: Candidates,
    policy: Policy,
    rules: NamespaceRules | None,
    isolation: str,
    effort: Effort | None,
) -> Fit:
    refusal = rules.refusal(runtime_class.name) if rules is not None else ""
    if refusal:
        return Fit(runtime_class, reason=refusal)
    has = runtime_class.isolation or _LEAST
    if isolation and ISOLATION_LEVELS.index(has) < ISOLATION_LEVELS.index(isolation):
        said = f"isolation {has}" if runtime_class.isolation else "no isolation declared"
        return Fit(runtime_class, reason=f"{said}, {isolation} is asked for")
    unsupported = unsupported_reason(pod, runtime_class)
    if unsupported is not None:
        return Fit(runtime_class, reason=unsupported.text)
    try:
        admitted = as_admitted(pod, runtime_class)
    except TooManyTermsError as error:
        return Fit(runtime_class, reason=f"the terms of class and pod together have {error}")
    explanation = explain(admitted, runtime_class, candidates, policy, effort=effort)
    if not explanation.feasible:
        return Fit(runtime_class, reason=explanation.summary.rstrip("."))
    return Fit(runtime_class, explanation.feasible)


def as_admitted(pod: Pod, runtime_class: RuntimeClass) -> Pod:
    """The pod as admission makes it for a class (admission.merging); a conflict stays one.

    Raises TooManyTermsError.
    """
    own = pod.tolerations
    both = (*own, *map(untimed, runtime_class.tolerations))
    terms = joined_terms(pod.node_affinity, runtime_class.rules)
    return replace(
        pod,
        runtime_class_name=runtime_class.name,
        node_selector={**dict(runtime_class.node_selector), **pod.node_selector},
        tolerations=tuple(both[place] for place in surviving(own, both[len(own) :])),
        node_affinity=pod.node_affinity if terms is None else terms,
        overhead=runtime_class.overhead,
        resources=_with_overhead(pod.resources, runtime_class),
    )


def _with_overhead(
    resources: PodResources | None, runtime_class: RuntimeClass
) -> PodResources | None:
    if resources is None:
        return None
    return replace(resources, overhead=amounts_in_billionths(runtime_class.overhead))


def _without_class(pod: Pod, runtime_class: RuntimeClass | None) -> Pod:
    """The pod without what its class has merged into it, if it has all of that."""
    if runtime_class is None:
        return replace(pod, runtime_class_name="")
    given = {normal(each) for each in runtime_class.tolerations}
    own = {normal(each) for each in pod.tolerations}
    selector = dict(pod.node_selector)
    if given <= own and not missing_labels(runtime_class.node_selector, selector):
        for key, _ in runtime_class.node_selector:
            del selector[key]
        kept = tuple(each for each in pod.tolerations if normal(each) not in given)
        pod = replace(pod, node_selector=selector, tolerations=kept)
    return replace(pod, runtime_class_name="", overhead={})


def _rank(each: Fit) -> tuple[bool, int, Decimal, Decimal, str]:
    overhead = each.runtime_class.overhead if each.fits else {}
    memory, cpu = (_amount(overhead.get(name, "0")) for name in ("memory", "cpu"))
    return not each.fits, -each.nodes, memory, cpu, each.runtime_class.name


def _amount(text: str) -> Decimal:
    try:
        return parse_quantity(text)
    except ValueError:
        # No API server has seen such a class.
        return Decimal(0)


def best(found: Iterable[Fit]) -> Fit | None:
    """The best class, None where none fits."""
    return next((each for each in found if each.fits), None)


#: The number of classes that a message names of those that do not fit.
_TOLD: Final = 8


def why_none(found: Sequence[Fit], isolation: str) -> str:
    """Why no class could be chosen, for the pod's author."""
    told = "; ".join(
        f'"{shown(each.runtime_class.name)}": {shown(each.reason)}' for each in found[:_TOLD]
    )
    more = len(found) - _TOLD
    rest = f"; and {more} more" if more > 0 else ""
    return f"no RuntimeClass of isolation {isolation} fits: {told or 'there is none at all'}{rest}"
