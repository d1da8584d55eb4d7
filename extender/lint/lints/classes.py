"""Lints of RuntimeClasses, and of the nodes and pods that belong to them."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import Final

from extender.explain.requirements import toleration_text
from extender.kubernetes.class_annotations import CONDITIONS, PREFIX, TERMS
from extender.lint.facts import Facts
from extender.lint.lints.nodes import INSTALL, RESTRICTED, WELL_KNOWN, is_set_by_kubelet, own_labels
from extender.model.finding import Finding, error, warning
from extender.model.objects import (
    HARD_EFFECTS,
    ClassRules,
    NodeRequirement,
    Pod,
    RuntimeClass,
    SelectorTerm,
    Taint,
)
from extender.model.pod_needs import Toleration
from extender.model.reasons import Code, listed, number_of, pairs_text, shown
from extender.model.using_objects import WaitingPod
from extender.rules.class_nodes import verdicts_of_class
from extender.rules.node_checks import is_condition_taint
from extender.rules.node_shape import readable_terms, requirements_in, unreadable
from extender.rules.tolerations import TolerationSet

#: The operators that only a node with the label can satisfy.
_NEED_LABEL: Final = frozenset({"In", "Exists", "Gt", "Lt"})


def unreadable_annotations(facts: Facts) -> Iterator[Finding]:
    for each in facts.classes:
        for annotation, fault in each.rules.faults if each.rules else ():
            name = shown(each.name)
            yield error(
                "unreadable-annotation",
                f'annotation {PREFIX}{annotation} of RuntimeClass "{name}" can\'t be read:'
                f" {_line(fault)}",
                "the class counts as one without isolation"
                if annotation == "isolation"
                else "the class matches no node, so its pods stay Pending",
                f"kubectl annotate --overwrite runtimeclass {name} {PREFIX}{annotation}=…",
                each.name,
            )


def _terms(facts: Facts) -> Iterator[tuple[RuntimeClass, ClassRules, int, SelectorTerm]]:
    """Each term in an annotation, with its class, the class's rules, and its index."""
    for each in facts.classes:
        if each.rules is not None:
            for index, term in enumerate(each.rules.terms or ()):
                yield each, each.rules, index, term


def unreadable_terms(facts: Facts) -> Iterator[Finding]:
    for each, _, index, term in _terms(facts):
        faults = [text for text in map(unreadable, requirements_in(term)) if text]
        if not requirements_in(term):
            faults = ["it has no requirement"]
        if faults:
            yield warning(
                "unreadable-term",
                f'term {index} of annotation {PREFIX}{TERMS} of RuntimeClass "{shown(each.name)}"'
                f" matches no node: {_line(faults[0])}",
                "the term is ignored silently, as kube-scheduler does with such a term of a pod",
                f"kubectl edit runtimeclass {shown(each.name)}",
                each.name,
            )


def _line(text: str) -> str:
    """A fault on one line. Each word is shortened by itself: a fault may quote a long list."""
    return " ".join(map(shown, text.split()))


def missing_conditions(facts: Facts) -> Iterator[Finding]:
    there = {pair for _, shape, _ in facts.snapshot.shapes_in_use() for pair in shape.conditions}
    for each in facts.classes:
        for kind, status in each.rules.conditions if each.rules else ():
            if (kind, status) not in there:
                yield error(
                    "missing-condition",
                    f'RuntimeClass "{shown(each.name)}" asks for the condition'
                    f" {shown(kind)}={shown(status)} (annotation {PREFIX}{CONDITIONS}), which no"
                    " node has",
                    "its pods stay Pending until a node has the condition",
                    "see that the installer sets the condition, or correct the annotation",
                    each.name,
                )


def terms_without_node(facts: Facts) -> Iterator[Finding]:
    met = [shape.met for _, shape, _ in facts.snapshot.shapes_in_use()]
    for each, rules, index, term in _terms(facts):
        needed = frozenset(requirements_in(term))
        known = set(map(frozenset, readable_terms(rules)))
        if needed in known and not any(map(needed.issubset, met)):
            yield warning(
                "term-without-node",
                f"term {index} of annotation {PREFIX}{TERMS} of RuntimeClass"
                f' "{shown(each.name)}" matches no node',
                "the nodes it was meant for run none of the class's pods",
                f"kubectl edit runtimeclass {shown(each.name)}",
                each.name,
            )


def without_node(facts: Facts) -> Iterator[Finding]:
    matching = facts.support.counts(facts.snapshot).nodes
    lonely = [each for each in facts.classes if not matching[each.name]]
    of_all = number_of(len(facts.snapshot.nodes), "node")
    for each in lonely:
        code, why = _nearest_reason(each, facts)
        yield error(
            "no-matching-node",
            f'RuntimeClass "{each.name}" matches none of {of_all}; nearest reason: {why}',
            "its pods stay Pending for ever",
            _fix(each, code, facts),
            each.name,
        )


def _fix(runtime_class: RuntimeClass, code: Code, facts: Facts) -> str:
    """code: the code of the nearest reason."""
    if code is Code.HANDLER:
        return INSTALL
    entries, own = runtime_class.node_selector, own_labels(runtime_class)
    if not entries or code is not Code.SELECTOR:
        return f"kubectl edit runtimeclass {runtime_class.name}"
    given = set(entries).difference(own)
    there = (shape.selector_entries for _, shape, _ in facts.snapshot.shapes_in_use())
    if not own or not any(map(given.issubset, there)):
        return f"add a node with {pairs_text(dict(entries))}"
    labels = (f"{shown(key)}={shown(value)}" for key, value in own)
    return f"kubectl label node NODE {' '.join(labels)}"


def _nearest_reason(runtime_class: RuntimeClass, facts: Facts) -> tuple[Code, str]:
    """The most frequent reason, a lacking label last: few nodes are meant for the class."""
    snapshot = facts.snapshot
    verdicts = verdicts_of_class(runtime_class, snapshot.shapes.shapes, facts.policy)
    nodes = Counter[tuple[Code, str]]()
    for shape_id, _, count in snapshot.shapes_in_use():
        reason = verdicts.reason(shape_id)
        if reason is not None:
            nodes[reason.code, reason.detail] += count
    return min(nodes, key=lambda most: (most[0] is Code.SELECTOR, -nodes[most], most[1]))


def self_set_labels(facts: Facts) -> Iterator[Finding]:
    for each in facts.classes:
        terms = readable_terms(each.rules) if each.rules else []
        asked = [part.key for term in terms for part in term if not part.is_field]
        keys = [*dict.fromkeys((*(key for key, _ in each.node_selector), *asked))]
        # One key that a node can't set on itself is enough to keep it out.
        own = [key for key, _ in each.node_selector if not is_set_by_kubelet(key)]
        if not keys or own or _have_protected_key(terms):
            continue
        entries = sorted(each.node_selector, key=lambda entry: entry[0] in WELL_KNOWN)
        key, value = entries[0] if entries else (keys[0], "true")
        safe = f"{RESTRICTED}/{shown(key.rpartition('/')[2])}"
        yield warning(
            "self-set-label",
            f'RuntimeClass "{each.name}" selects nodes by {listed(keys)} alone, which a kubelet may'
            " set on its own Node",
            "a compromised node can attract the pods of the class",
            f"label the nodes first: kubectl label node NODE {safe}={shown(value)}; then select by"
            f" it: nodeSelector: {{{safe}: {shown(value)!r}}}",
            each.name,
        )


def _have_protected_key(terms: Collection[tuple[NodeRequirement, ...]]) -> bool:
    """Whether there are terms, and each asks for a field or label that a node can't set itself."""
    return bool(terms) and all(
        any(
            each.is_field or (each.operator in _NEED_LABEL and not is_set_by_kubelet(each.key))
            for each in term
        )
        for term in terms
    )


def unused_tolerations(facts: Facts) -> Iterator[Finding]:
    """Tolerations for taints that no node has, whatever the effect of the taint."""
    if facts.nodes is None:
        return
    taints = {taint for node in facts.nodes for taint in node.taints}

    @cache
    def is_of_use(toleration: Toleration) -> bool:
        # A toleration without a key is meant for all taints. One for a condition taint is meant
        # for a temporary state.
        is_general = not toleration.key or is_condition_taint(Taint(toleration.key))
        return is_general or any(map(TolerationSet([toleration]).tolerates, taints))

    found = ((each, toleration) for each in facts.classes for toleration in each.tolerations)
    for each, toleration in found:
        if is_of_use(toleration):
            continue
        effect = toleration.effect if toleration.effect in HARD_EFFECTS else "NoSchedule"
        value = f"={toleration.value}" if toleration.value else ""
        yield warning(
            "unused-toleration",
            f'RuntimeClass "{each.name}" tolerates {toleration_text(toleration)}, a taint that no'
            " node has",
            "no node is reserved for the class by that taint, or the toleration is misspelt",
            f"kubectl taint node NODE {shown(toleration.key)}{shown(value)}:{effect}",
            each.name,
        )


def missing_classes(
    pods: Iterable[Pod | WaitingPod], runtime_classes: Collection[str]
) -> Iterator[Finding]:
    waiting: dict[str, list[str]] = {}
    for pod in pods:
        name = pod.runtime_class_name
        if name and name not in runtime_classes:
            waiting.setdefault(name, []).append(f"{pod.namespace or 'default'}/{pod.name}")
    for name, names in sorted(waiting.items()):
        yield error(
            "missing-class",
            f'RuntimeClass "{shown(name)}" does not exist, and'
            f" {number_of(len(names), 'pod names', 'pods name')} it: {listed(sorted(names))}",
            "pods without a node stay Pending, and running ones can't start again, until it exists",
            "create the RuntimeClass: its pods are tried again at once with serve --requeue-pods,"
            " else within 5 minutes",
        )
