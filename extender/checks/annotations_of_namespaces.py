"""Whether the rules of namespaces can be kept, and name RuntimeClasses that exist."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches

from extender.admission.namespace_rules import (
    ALLOWED_ANNOTATION,
    DEFAULT_ANNOTATION,
    OPT_IN_LABEL,
    OPTED_IN,
    REQUIRED_ANNOTATION,
    NamespaceRules,
    rules_of,
)
from extender.checks.finding import Finding, Severity
from extender.objects import Namespace
from extender.reasons import listed, shown


def check_namespaces(
    namespaces: Mapping[str, Namespace], runtime_classes: Collection[str]
) -> Iterator[Finding]:
    """What is wrong with the annotations of the namespaces, which are given by name."""
    rules = [rules_of(name, namespaces[name].annotations) for name in sorted(namespaces)]
    yield from _missing_defaults(rules, runtime_classes)
    yield from _defaults_not_allowed(rules)
    yield from _missing_allowed(rules, runtime_classes)
    yield from _impossible(rules)
    yield from _unreadable(rules)
    yield from _not_opted_in(rules, namespaces)


def _missing_defaults(
    rules: Iterable[NamespaceRules], runtime_classes: Collection[str]
) -> Iterator[Finding]:
    missing = _by_class(rules, lambda each: [each.default] if each.names_default else [])
    for name, namespaces in sorted(missing.items()):
        if name in runtime_classes:
            continue
        yield Finding(
            Severity.ERROR,
            "missing-default-class",
            f'RuntimeClass "{shown(name)}" does not exist, and annotation {DEFAULT_ANNOTATION} of'
            f" {_namespaces(namespaces)} names it",
            "each pod there that names no class is refused, by a webhook or by the plugin",
            _annotate(namespaces[0], DEFAULT_ANNOTATION, _meant(name, runtime_classes)),
            (name,),
        )


def _defaults_not_allowed(rules: Iterable[NamespaceRules]) -> Iterator[Finding]:
    refused = _by_class(
        rules,
        lambda each: [each.default] if each.names_default and not each.allows(each.default) else [],
    )
    for name, namespaces in sorted(refused.items()):
        yield Finding(
            Severity.ERROR,
            "default-not-allowed",
            f'RuntimeClass "{shown(name)}" is the default of {_namespaces(namespaces)} by'
            f" annotation {DEFAULT_ANNOTATION}, and not allowed there by {ALLOWED_ANNOTATION}",
            "each pod there that names no class is given it, and then refused",
            f"kubectl edit namespace {shown(namespaces[0])}",
            (name,),
        )


def _missing_allowed(
    rules: Iterable[NamespaceRules], runtime_classes: Collection[str]
) -> Iterator[Finding]:
    missing = _by_class(rules, lambda each: each.allowed or ())
    for name, namespaces in sorted(missing.items()):
        if name in runtime_classes:
            continue
        (meant,) = get_close_matches(name, runtime_classes, 1) or ("",)
        yield Finding(
            Severity.WARNING,
            "missing-allowed-class",
            f'RuntimeClass "{shown(name)}" does not exist, and annotation {ALLOWED_ANNOTATION} of'
            f" {_namespaces(namespaces)} names it",
            f'pods there can\'t use "{shown(meant)}", if that was meant'
            if meant
            else "whoever creates a class of that name decides what runs there",
            f"kubectl edit namespace {shown(namespaces[0])}",
            (name,),
        )


def _impossible(rules: Iterable[NamespaceRules]) -> Iterator[Finding]:
    namespaces = [each.namespace for each in rules if each.required and each.allowed == ()]
    if namespaces:
        yield Finding(
            Severity.ERROR,
            "required-but-none-allowed",
            f"{_namespaces(namespaces)} require{'' if len(namespaces) > 1 else 's'} a RuntimeClass"
            f" by annotation {REQUIRED_ANNOTATION}, and {ALLOWED_ANNOTATION} allows none",
            "no pod can be created there",
            f"kubectl edit namespace {shown(namespaces[0])}",
        )


def _unreadable(rules: Iterable[NamespaceRules]) -> Iterator[Finding]:
    for each in rules:
        if not each.is_readable:
            yield Finding(
                Severity.WARNING,
                "unreadable-required",
                f"annotation {REQUIRED_ANNOTATION} of {_namespaces([each.namespace])} is"
                f' "{shown(each.required_text)}", neither "true" nor "false"',
                "it is taken for true: what can't be read opens nothing",
                _annotate(each.namespace, REQUIRED_ANNOTATION, "true"),
            )


def _not_opted_in(
    rules: Iterable[NamespaceRules], namespaces: Mapping[str, Namespace]
) -> Iterator[Finding]:
    without = [
        each.namespace
        for each in rules
        if each.names_default and namespaces[each.namespace].labels.get(OPT_IN_LABEL) != OPTED_IN
    ]
    if without:
        label = f"{OPT_IN_LABEL}={OPTED_IN}"
        yield Finding(
            Severity.ADVICE,
            "default-class-label",
            f"annotation {DEFAULT_ANNOTATION} of {_namespaces(without)} names a default class,"
            f" without label {label}",
            "the webhook of scheduler-config/webhook sees no pod there, and gives none a class; the"
            " policy of scheduler-config/policies/default-class needs no label",
            f"kubectl label namespace {shown(without[0])} {label}",
        )


def _by_class(
    rules: Iterable[NamespaceRules], classes_of: Callable[[NamespaceRules], Iterable[str]]
) -> Mapping[str, list[str]]:
    """Class → the namespaces of which it is said, in their order."""
    found: dict[str, list[str]] = {}
    for each in rules:
        for name in dict.fromkeys(classes_of(each)):
            found.setdefault(name, []).append(each.namespace)
    return found


def _namespaces(names: list[str]) -> str:
    return f"namespace{'s' if len(names) > 1 else ''} {listed(names)}"


def _meant(name: str, runtime_classes: Collection[str]) -> str:
    (meant,) = get_close_matches(name, runtime_classes, 1) or ("NAME",)
    return shown(meant)


def _annotate(namespace: str, annotation: str, value: str) -> str:
    return f"kubectl annotate --overwrite namespace {shown(namespace)} {annotation}={value}"
