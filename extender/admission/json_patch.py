"""Changes to a pod as a small JSON Patch (RFC 6902), correct for null and absent fields too.

The operation "add" replaces the value of an existing field, null included. So it is correct whether
the field is absent, null or empty.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from extender.model.objects import SelectorRequirement, SelectorTerm
from extender.model.pod_needs import Toleration, fields_of

#: As the last key of a path: the end of a list.
APPEND: Final = "-"

Json = dict[str, Any]
Path = tuple[str, ...]

#: An "add" operation: the path within the pod, and the new value.
Operation = tuple[Path, object]

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def encode_patch(operations: Sequence[Operation]) -> bytes:
    return msgspec.json.encode(
        [{"op": "add", "path": _pointer(path), "value": value} for path, value in operations]
    )


def _pointer(path: Path) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)


def apply(document: Json, operations: Sequence[Operation]) -> None:
    """Change a pod in place, as kube-apiserver does with the patch."""
    for (*above, last), value in operations:
        found: Any = document
        for key in above:
            found = found[int(key)] if isinstance(found, list) else found[key]
        plain = msgspec.json.decode(msgspec.json.encode(value))
        if last == APPEND:
            found.append(plain)
        else:
            found[last] = plain


def new_labels(own: Mapping[str, str] | None, wanted: Iterable[tuple[str, str]]) -> list[Operation]:
    """The operations that add wanted labels to a nodeSelector. own: None if the pod has none."""
    path = ("spec", "nodeSelector")
    lacking = {key: value for key, value in wanted if key not in (own or {})}
    if own is None:
        return [(path, lacking)] if lacking else []
    return [((*path, key), value) for key, value in lacking.items()]


def merged_tolerations(
    own: Sequence[Raw], of_class: Sequence[Toleration], stay: Sequence[int]
) -> list[Operation]:
    """The operations that keep `stay`: indexes in the pod's tolerations followed by the class's."""
    path, count = ("spec", "tolerations"), len(own)
    kept = [own[place] for place in stay if place < count]
    added = [fields_of(of_class[place - count]) for place in stay if place >= count]
    if own and len(kept) == count:
        return [((*path, APPEND), item) for item in added]
    return [(path, [*kept, *added])]


def required_terms(
    there: tuple[Mapping[str, Raw], Mapping[str, Raw]], terms: Iterable[SelectorTerm]
) -> Operation:
    """The operation for the required node affinity. Other fields of the affinity are kept.

    there: the existing fields of the pod's affinity and of its nodeAffinity.
    """
    required: object = {"nodeSelectorTerms": list(map(_term, terms))}
    path = ["spec", "affinity", "nodeAffinity", REQUIRED]
    for fields in reversed(there):
        if not fields:
            required = {path.pop(): required}
    return tuple(path), required


def _term(term: SelectorTerm) -> dict[str, list[dict[str, object]]]:
    parts = {"matchExpressions": term.match_expressions, "matchFields": term.match_fields}
    return {name: list(map(_requirement, part)) for name, part in parts.items() if part}


def _requirement(each: SelectorRequirement) -> dict[str, object]:
    fields: dict[str, object] = {"key": each.key, "operator": each.operator}
    return {**fields, "values": list(each.values)} if each.values else fields
