"""Lints of namespaces' rules: contradictions, missing RuntimeClasses, pods that they refuse."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from extender.admission.defaults import Subject
from extender.kubernetes.namespaces import (
    ALLOWED_ANNOTATION,
    ALLOWED_POLICY,
    DEFAULT_ANNOTATION,
    OPT_IN_LABEL,
    OPTED_IN,
    REQUIRED_ANNOTATION,
    NamespaceRules,
    Violation,
    rules_of,
)
from extender.lint.facts import NamespaceFacts
from extender.model.finding import Finding, advice, error, warning
from extender.model.objects import Namespace
from extender.model.reasons import listed, shown
from extender.model.similar import most_similar


def missing_defaults(facts: NamespaceFacts) -> Iterator[Finding]:
    defaults = [(each.default, each.namespace) for each in facts.rules if each.names_default]
    for name, namespaces in _by_class(defaults):
        if name not in facts.runtime_classes:
            meant = shown(most_similar(name, facts.runtime_classes)) or "NAME"
            yield error(
                "missing-default-class",
                f'RuntimeClass "{shown(name)}" does not exist, and annotation {DEFAULT_ANNOTATION}'
                f" of {_namespaces(namespaces)} names it",
                "each pod there that names no class is refused, by a webhook or by the plugin",
                _annotate(namespaces[0], DEFAULT_ANNOTATION, meant),
                name,
            )


def defaults_not_allowed(facts: NamespaceFacts) -> Iterator[Finding]:
    defaults = [each for each in facts.rules if each.names_default]
    refused = [(each.default, each.namespace) for each in defaults if not each.allows(each.default)]
    for name, namespaces in _by_class(refused):
        yield error(
            "default-not-allowed",
            f'RuntimeClass "{shown(name)}" is the default of {_namespaces(namespaces)} by'
            f" annotation {DEFAULT_ANNOTATION}, and not allowed there by {ALLOWED_ANNOTATION}",
            "each pod there that names no class is given it, and then refused",
            _edit(namespaces),
            name,
        )


def missing_allowed(facts: NamespaceFacts) -> Iterator[Finding]:
    allowed = [(name, each.namespace) for each in facts.rules for name in each.allowed or ()]
    for name, namespaces in _by_class(allowed):
        if name not in facts.runtime_classes:
            yield warning(
                "missing-allowed-class",
                f'RuntimeClass "{shown(name)}" does not exist, and annotation {ALLOWED_ANNOTATION}'
                f" of {_namespaces(namespaces)} names it",
                "whoever creates a class of that name decides what runs there",
                _edit(namespaces),
                name,
            )


def none_allowed(facts: NamespaceFacts) -> Iterator[Finding]:
    namespaces = [each.namespace for each in facts.rules if each.required and each.allowed == ()]
    if namespaces:
        yield error(
            "required-but-none-allowed",
            f"{_namespaces(namespaces)} require{'' if len(namespaces) > 1 else 's'} a RuntimeClass"
            f" by annotation {REQUIRED_ANNOTATION}, and {ALLOWED_ANNOTATION} allows none",
            "no pod can be created there",
            _edit(namespaces),
        )


def unreadable(facts: NamespaceFacts) -> Iterator[Finding]:
    for each in facts.rules:
        if not each.is_readable:
            yield warning(
                "unreadable-required",
                f"annotation {REQUIRED_ANNOTATION} of {_namespaces([each.namespace])} is"
                f' "{shown(each.required_text)}", neither "true" nor "false"',
                "the value counts as true: an unreadable rule never allows more",
                _annotate(each.namespace, REQUIRED_ANNOTATION, "true"),
            )


def not_opted_in(facts: NamespaceFacts) -> Iterator[Finding]:
    defaults = (each.namespace for each in facts.rules if each.names_default)
    without = [each for each in defaults if each not in facts.opted_in]
    if without:
        label = f"{OPT_IN_LABEL}={OPTED_IN}"
        yield advice(
            "default-class-label",
            f"annotation {DEFAULT_ANNOTATION} of {_namespaces(without)} names a default class,"
            f" without label {label}",
            "without it kube-apiserver does not call the webhook of the chart,"
            " so pods there get no class; the policy of scheduler-config/policies/default-class"
            " needs no label",
            f"kubectl label namespace {shown(without[0])} {label}",
        )


def _by_class(pairs: Iterable[tuple[str, str]]) -> Sequence[tuple[str, Sequence[str]]]:
    """(class, namespaces) pairs, sorted by class, from (class, namespace) pairs."""
    found: dict[str, dict[str, None]] = {}
    for name, namespace in pairs:
        found.setdefault(name, {})[namespace] = None
    return [(name, [*namespaces]) for name, namespaces in sorted(found.items())]


def _namespaces(names: Sequence[str]) -> str:
    return f"namespace{'s' if len(names) > 1 else ''} {listed(names)}"


def _annotate(namespace: str, annotation: str, value: str) -> str:
    return f"kubectl annotate --overwrite namespace {shown(namespace)} {annotation}={value}"


def _edit(namespaces: Sequence[str]) -> str:
    return f"kubectl edit namespace {shown(namespaces[0])}"


#: A finding names at most this many pods and workloads.
_NAMED: Final = 50


def refused_by_policies(
    subjects: Iterable[Subject], namespaces: Mapping[str, Namespace]
) -> Iterator[Finding]:
    """A finding for each namespace and refused class; "no class" counts as a class here."""
    rules = {name: rules_of(name, each.annotations) for name, each in namespaces.items()}
    refused: dict[tuple[str, Violation, str], list[str]] = {}
    for each in subjects:
        found = rules.get(each.namespace)
        name = each.runtime_class
        violation = found and found.violation(name, takes_default=each.takes_default)
        if violation:
            told = f"{each.kind} {each.namespace}/{each.name}"
            refused.setdefault((each.namespace, violation, name), []).append(told)
    for (namespace, violation, name), names in sorted(refused.items()):
        yield error(
            "refused-by-policy",
            f"{violation.text}: {listed(sorted(names), _NAMED)}",
            f"policy {violation.policy} would refuse {'it' if len(names) == 1 else 'them'} when"
            " created again; running pods stay",
            _fix(rules[namespace], violation, name),
            *([name] if name else ()),
        )


def _fix(rules: NamespaceRules, violation: Violation, name: str) -> str:
    if violation.policy == ALLOWED_POLICY:
        allowed = shown(",".join([*(rules.allowed or ()), name or rules.default]))
        return f"name another class, or: {_annotate(rules.namespace, ALLOWED_ANNOTATION, allowed)}"
    if rules.names_default:
        # A default class does not apply to these pods.
        return "name a class in the pods"
    default = _annotate(rules.namespace, DEFAULT_ANNOTATION, "NAME")
    return f"name a class in the pods, or: {default}"
