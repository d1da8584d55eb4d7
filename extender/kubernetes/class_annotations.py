"""The annotations of a RuntimeClass that add to its fields, read once for each class.

An annotation that can't be read becomes a fault. No node passes if an annotation other than
`isolation` has a fault (rules.node_checks).
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from extender.kubernetes.yaml_documents import yaml_documents
from extender.model.objects import ClassRules, Condition, SelectorRequirement, SelectorTerm

PREFIX: Final = "runtimeclass-extender/"

#: The annotations, without their prefix.
TERMS: Final = "node-selector-terms"
CONDITIONS: Final = "node-conditions"
UNSUPPORTED: Final = "unsupported"
ISOLATION: Final = "isolation"

_ANNOTATIONS: Final = frozenset(f"{PREFIX}{n}" for n in (TERMS, CONDITIONS, UNSUPPORTED, ISOLATION))

#: On a RuntimeClass: its isolation level. On a Pod: the lowest level that the pod accepts.
ISOLATION_ANNOTATION: Final = f"{PREFIX}{ISOLATION}"

#: Pod features that not every runtime supports. Words such as `resource:NAME` name further ones.
FEATURES: Final = (
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "privileged",
    "hostPath",
    "hostPorts",
    "blockDevices",
    "imageVolumes",
    "subPath",
    "ephemeralContainers",
    "procMountUnmasked",
    "sysctls",
    "localhostSeccomp",
    "appArmor",
    "seLinux",
    "podLevelResources",
    "capabilities",
    "deviceClaims",
    "inPlaceResize",
)
RESOURCE: Final = "resource:"
CAPABILITY: Final = "capability:"
VOLUME: Final = "volume:"

#: From the weakest to the strongest.
ISOLATION_LEVELS: Final = ("none", "sandbox", "vm", "confidential")

#: The limit for each class: a changed node is tested against 1,000 requirements in 0.2 ms.
MAX_REQUIREMENTS: Final = 1000

#: The one field of a Node that kube-apiserver lets a Pod select by.
_NAME_FIELD: Final = "metadata.name"

_NAME: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]{0,314}[A-Za-z0-9])?"
_CONDITION: Final = re.compile(rf"({_NAME})(?:\s*=\s*({_NAME}))?")

#: The pattern of the text after each prefix. containerd converts a container's capability to upper
#: case and adds CAP_ (2.1.9, WithCapabilities). ALL stands for every capability.
_PREFIXES: Final = {RESOURCE: _NAME, CAPABILITY: "(?!CAP_)[A-Z][A-Z_]*", VOLUME: "[a-zA-Z]+"}
_WORD: Final = re.compile("|".join(f"{prefix}(?:{name})" for prefix, name in _PREFIXES.items()))

T = TypeVar("T")


class _Requirement(Struct, forbid_unknown_fields=True):
    key: str
    operator: str
    values: list[str] | None = None


class _Term(Struct, rename="camel", forbid_unknown_fields=True):
    match_expressions: list[_Requirement] | None = None
    match_fields: list[_Requirement] | None = None


class _Selector(Struct, rename="camel", forbid_unknown_fields=True):
    node_selector_terms: list[_Term]


def rules_of(annotations: Mapping[str, str]) -> ClassRules | None:
    """The rules in a class's annotations; None if it has none of these annotations."""
    if _ANNOTATIONS.isdisjoint(annotations):
        return None
    faults: list[tuple[str, str]] = []

    def read(name: str, reader: Callable[[str], T], nothing: T) -> T:
        if f"{PREFIX}{name}" not in annotations:
            return nothing
        try:
            return reader(annotations[f"{PREFIX}{name}"])
        except ValueError as error:
            faults.append((name, str(error)))
            return nothing

    return ClassRules(
        read(TERMS, _terms, None),
        read(CONDITIONS, _conditions, ()),
        read(UNSUPPORTED, _features, ()),
        read(ISOLATION, _level, ""),
        tuple(faults),
    )


def _terms(text: str) -> tuple[SelectorTerm, ...]:
    """Read a list of terms from JSON or YAML, bare or under nodeSelectorTerms as in a Pod."""
    documents = list(yaml_documents(text.encode("utf-8", "replace")))
    if len(documents) != 1:
        raise ValueError(f"expected one list of terms, got {len(documents)} documents")
    try:
        if isinstance(documents[0], dict):
            terms = msgspec.convert(documents[0], _Selector).node_selector_terms
        else:
            terms = msgspec.convert(documents[0], list[_Term])
    except msgspec.ValidationError as error:
        said = str(error).replace("`", "")
        raise ValueError(said[:1].lower() + said[1:]) from None
    read = tuple(
        SelectorTerm(_requirements(each.match_expressions), _requirements(each.match_fields))
        for each in terms
    )
    for field in (field for term in read for field in term.match_fields):
        if field.key != _NAME_FIELD:
            raise ValueError(f'matchFields: there is no field "{field.key}" of a Node')
    count = sum(len(each.match_expressions) + len(each.match_fields) for each in read)
    if max(count, len(read)) > MAX_REQUIREMENTS:
        raise ValueError(f"more than {MAX_REQUIREMENTS:,} requirements")
    return read


def _requirements(raw: list[_Requirement] | None) -> tuple[SelectorRequirement, ...]:
    return tuple(
        SelectorRequirement(each.key, each.operator, tuple(each.values or ())) for each in raw or ()
    )


def _entries(text: str) -> tuple[str, ...]:
    """The entries of a comma-separated list, without duplicates."""
    return tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))


def _conditions(text: str) -> tuple[Condition, ...]:
    found: list[Condition] = []
    for each in _entries(text):
        parts = _CONDITION.fullmatch(each)
        if parts is None:
            raise ValueError(f'"{each}" is neither TYPE nor TYPE=STATUS')
        found.append((parts[1], parts[2] or "True"))
    return tuple(dict.fromkeys(found))


def _features(text: str) -> tuple[str, ...]:
    entries = _entries(text)
    for each in entries:
        if each not in FEATURES and not _WORD.fullmatch(each):
            raise ValueError(
                f'unknown word "{each}"; there are {", ".join(FEATURES)}, {RESOURCE}NAME,'
                f" {CAPABILITY}NAME (as NET_ADMIN) and {VOLUME}TYPE (as nfs)"
            )
    return entries


def _level(text: str) -> str:
    level = text.strip()
    if level not in ISOLATION_LEVELS:
        raise ValueError(f'"{level}" is none of {", ".join(ISOLATION_LEVELS)}')
    return level
