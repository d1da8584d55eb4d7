"""The annotations of a RuntimeClass that add to its fields, read once for each class.

An annotation that can't be read becomes a fault: then no node passes (rules.node_checks).
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

#: On a RuntimeClass: how well it keeps its pods apart; on a Pod: the least that it may get.
ISOLATION_ANNOTATION: Final = f"{PREFIX}{ISOLATION}"

#: What a pod may use that not every runtime can give it; beside words such as `resource:NAME`.
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

#: Each requirement is asked of every node that changes: a thousand take 0.2 ms.
MAX_REQUIREMENTS: Final = 1000

#: The one field of a Node that kube-apiserver lets a Pod select by.
_NAME_FIELD: Final = "metadata.name"

_NAME: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]{0,314}[A-Za-z0-9])?"
_CONDITION: Final = re.compile(rf"({_NAME})(?:\s*=\s*({_NAME}))?")

#: By the beginning of a word, what follows it. A container's capability is made upper case and
#: given CAP_ (containerd 2.1.9, WithCapabilities); ALL stands for every one.
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
    """The rules in a class's annotations; None where it has no such annotation."""
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
    """The list, by itself or under the key that it has in a Pod, as JSON or YAML."""
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
    """Each of a list once."""
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
