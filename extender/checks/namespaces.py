"""Whether the classes that namespaces give to their pods by default exist."""

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from extender.admission.default_class import DEFAULT_ANNOTATION, NO_DEFAULT
from extender.checks.finding import Finding, Severity
from extender.verdict import shown

#: Names given where a finding is about many namespaces.
_NAMED: Final = 5


def check_namespaces(
    annotations: Mapping[str, Mapping[str, str]], runtime_classes: Collection[str]
) -> Iterator[Finding]:
    """Namespaces whose default class does not exist; annotations are theirs, by name."""
    missing: dict[str, list[str]] = {}
    for namespace, of_namespace in annotations.items():
        name = of_namespace.get(DEFAULT_ANNOTATION, "")
        if name and name != NO_DEFAULT and name not in runtime_classes:
            missing.setdefault(name, []).append(namespace)
    for name, namespaces in sorted(missing.items()):
        namespaces.sort()
        listed = ", ".join(map(shown, namespaces[:_NAMED]))
        more = f" and {len(namespaces) - _NAMED} more" if len(namespaces) > _NAMED else ""
        (meant,) = get_close_matches(name, runtime_classes, 1) or ("NAME",)
        yield Finding(
            Severity.ERROR,
            "missing-default-class",
            f'RuntimeClass "{shown(name)}" does not exist, and annotation {DEFAULT_ANNOTATION} of'
            f" namespace{'s' if len(namespaces) > 1 else ''} {listed}{more} names it",
            "a webhook that runs with --default-class refuses each pod there that names no class",
            f"kubectl annotate --overwrite namespace {shown(namespaces[0])}"
            f" {DEFAULT_ANNOTATION}={shown(meant)}",
            (name,),
        )
