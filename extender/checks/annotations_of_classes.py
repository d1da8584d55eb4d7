"""Lints of the annotations that say more of a RuntimeClass, and classes that say the same."""

from collections.abc import Iterator, Sequence

from extender.checks.finding import Finding, Severity
from extender.decoding.class_annotations import CONDITIONS, PREFIX, TERMS
from extender.objects import ClassRules, RuntimeClass
from extender.predicates.shape_parts import readable_terms, requirements_in, unreadable
from extender.reasons import listed, shown
from extender.snapshot import Snapshot
from extender.verbs.class_index import constraint_key


def check_annotations(classes: Sequence[RuntimeClass], snapshot: Snapshot) -> Iterator[Finding]:
    """Those about nodes need at least one node."""
    for each in classes:
        if each.rules is not None:
            yield from _unreadable(each, each.rules)
            if snapshot.nodes:
                yield from _missing_conditions(each, each.rules, snapshot)
                yield from _terms_without_node(each, each.rules, snapshot)
    yield from _same(classes)


def _unreadable(runtime_class: RuntimeClass, rules: ClassRules) -> Iterator[Finding]:
    name = shown(runtime_class.name)
    for annotation, fault in rules.faults:
        yield Finding(
            Severity.ERROR,
            "unreadable-annotation",
            f'annotation {PREFIX}{annotation} of RuntimeClass "{name}" can\'t be read:'
            f" {_line(fault)}",
            "the class counts as one without isolation"
            if annotation == "isolation"
            else "the class matches no node, so its pods stay Pending",
            f"kubectl annotate --overwrite runtimeclass {name} {PREFIX}{annotation}=…",
            (runtime_class.name,),
        )
    for index, term in enumerate(rules.terms or ()):
        faults = [text for text in map(unreadable, requirements_in(term)) if text]
        if not requirements_in(term):
            faults = ["it has no requirement"]
        if faults:
            yield Finding(
                Severity.WARNING,
                "unreadable-term",
                f'term {index} of annotation {PREFIX}{TERMS} of RuntimeClass "{name}" matches no'
                f" node: {_line(faults[0])}",
                "kube-scheduler drops such a term of a pod without a word, and so does the class",
                f"kubectl edit runtimeclass {name}",
                (runtime_class.name,),
            )


def _line(text: str) -> str:
    """Each word by itself, as a fault may quote a long list."""
    return " ".join(map(shown, text.split()))


def _missing_conditions(
    runtime_class: RuntimeClass, rules: ClassRules, snapshot: Snapshot
) -> Iterator[Finding]:
    there = {pair for _, shape, _ in snapshot.shapes_in_use() for pair in shape.conditions}
    for kind, status in rules.conditions:
        if (kind, status) not in there:
            yield Finding(
                Severity.ERROR,
                "missing-condition",
                f'RuntimeClass "{shown(runtime_class.name)}" asks for the condition'
                f" {shown(kind)}={shown(status)} (annotation {PREFIX}{CONDITIONS}), which no node"
                " has",
                "its pods stay Pending until one has it",
                "see that the installer sets the condition, or mend its name in the annotation",
                (runtime_class.name,),
            )


def _terms_without_node(
    runtime_class: RuntimeClass, rules: ClassRules, snapshot: Snapshot
) -> Iterator[Finding]:
    met = [shape.met for _, shape, _ in snapshot.shapes_in_use()]
    known = set(map(frozenset, readable_terms(rules)))
    for index, term in enumerate(rules.terms or ()):
        needed = frozenset(requirements_in(term))
        if needed in known and not any(map(needed.issubset, met)):
            yield Finding(
                Severity.WARNING,
                "term-without-node",
                f"term {index} of annotation {PREFIX}{TERMS} of RuntimeClass"
                f' "{shown(runtime_class.name)}" matches no node',
                "the nodes it was meant for run none of the class's pods",
                f"kubectl edit runtimeclass {shown(runtime_class.name)}",
                (runtime_class.name,),
            )


def _same(classes: Sequence[RuntimeClass]) -> Iterator[Finding]:
    """Classes that differ in nothing but their names and what others write about them."""
    alike: dict[object, list[str]] = {}
    for each in classes:
        key = (
            constraint_key(each),
            each.handler,
            frozenset(each.overhead.items()),
            each.rules and (each.rules.unsupported, each.rules.isolation),
        )
        alike.setdefault(key, []).append(each.name)
    for names in alike.values():
        if len(names) > 1:
            yield Finding(
                Severity.ADVICE,
                "same-class",
                f"RuntimeClasses {listed(names)} differ in nothing but their names",
                "whoever chooses one of them chooses between nothing",
                f"runtimeclass-extender can-delete {shown(names[-1])}",
                tuple(names),
            )
