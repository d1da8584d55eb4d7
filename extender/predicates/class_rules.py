"""The checks that annotations of a RuntimeClass add; a class without them has none.

An annotation that can't be read refuses every node, so that a misspelt one never allows more.
"""

from collections.abc import Iterator

from extender.decoding.class_annotations import CONDITIONS, TERMS, UNSUPPORTED
from extender.objects import Condition, Pod, RuntimeClass
from extender.predicates.kubelet import Check
from extender.predicates.shape_parts import readable_terms
from extender.reasons import (
    Code,
    Reason,
    annotation_unreadable,
    condition_lacking,
    none_of_terms,
    terms_mismatch,
    unsupported,
)
from extender.shape import Shape


def unsupported_words(uses: frozenset[str] | None, runtime_class: RuntimeClass) -> tuple[str, ...]:
    """What a pod uses although its class says that its pods can't, in the class's order."""
    rules = runtime_class.rules
    if rules is None or not uses:
        return ()
    return tuple(word for word in rules.unsupported if word in uses)


def unsupported_reason(pod: Pod, runtime_class: RuntimeClass) -> Reason | None:
    """Depends on the pod alone: no node can run it."""
    words = unsupported_words(pod.uses, runtime_class)
    return unsupported(runtime_class.name, words[0]) if words else None


def readable_checks(runtime_class: RuntimeClass) -> Iterator[Check]:
    """Refuses every node if the list of what the class's pods can't use is unreadable."""
    rules = runtime_class.rules
    if rules is not None and rules.has_fault(UNSUPPORTED):
        reason = annotation_unreadable(Code.UNSUPPORTED, runtime_class.name, UNSUPPORTED)
        yield lambda _: reason


def term_checks(runtime_class: RuntimeClass) -> Iterator[Check]:
    """A node must match one of the class's node-selector-terms, if it has any."""
    rules, name = runtime_class.rules, runtime_class.name
    if rules is None:
        return
    if rules.has_fault(TERMS):
        unreadable = annotation_unreadable(Code.SELECTOR, name, TERMS)
        yield lambda _: unreadable
    elif rules.terms is not None:
        count, terms = len(rules.terms), readable_terms(rules)
        # With several alternatives, no single requirement is the cause.
        only = terms[0] if count == 1 and terms else None

        def check(shape: Shape) -> Reason | None:
            if any(map(shape.met.issuperset, terms)):
                return None
            if only is None:
                return none_of_terms(name, count)
            return terms_mismatch(name, (each for each in only if each not in shape.met))

        yield check


def condition_checks(runtime_class: RuntimeClass) -> Iterator[Check]:
    """A node must have each condition of the class's node-conditions, with its status."""
    rules, name = runtime_class.rules, runtime_class.name
    if rules is None:
        return
    if rules.has_fault(CONDITIONS):
        unreadable = annotation_unreadable(Code.CONDITION, name, CONDITIONS)
        yield lambda _: unreadable
    for condition in rules.conditions:
        lacking = condition_lacking(name, condition)
        yield _has(condition, lacking)


def _has(condition: Condition, lacking: Reason) -> Check:
    return lambda shape: None if condition in shape.conditions else lacking
