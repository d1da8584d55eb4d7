"""Changes → JSON Patch (RFC 6902), as small as possible, and correct for null and absent fields.

"add" to a member of an object replaces what is there, null included, so that it is right whether
the field is absent, null or empty.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from extender.admission.merging import Changes, MergedTolerations, Terms
from extender.admission.reviewed_pod import ReviewedPod
from extender.model.objects import SelectorRequirement, SelectorTerm
from extender.model.pod_needs import fields_of

#: The last key of a path that stands for the place behind a list.
APPEND: Final = "-"

Json = dict[str, Any]
Path = tuple[str, ...]

#: "add": the path within the pod, and the value there.
Operation = tuple[Path, object]

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def patch(pod: ReviewedPod, changes: Changes) -> list[Operation]:
    """The operations that make the changes; empty when there are none. Raises DecodeError."""
    operations: list[Operation] = []
    if changes.runtime_class_name is not None:
        operations.append((("spec", "runtimeClassName"), changes.runtime_class_name))
    if changes.overhead is not None:
        operations.append((("spec", "overhead"), changes.overhead))
    if changes.node_selector:
        path = ("spec", "nodeSelector")
        if pod.node_selector() is None:
            operations.append((path, changes.node_selector))
        else:
            operations += (((*path, key), each) for key, each in changes.node_selector.items())
    if changes.tolerations is not None:
        operations += _tolerations(pod, changes.tolerations)
    if changes.terms is not None:
        operations.append(_required_terms(pod, changes.terms))
    return operations


def encode_patch(operations: Sequence[Operation]) -> bytes:
    return msgspec.json.encode(
        [{"op": "add", "path": _pointer(path), "value": value} for path, value in operations]
    )


def _pointer(path: Path) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)


def apply(document: Json, operations: Sequence[Operation]) -> None:
    """Change a pod as kube-apiserver does with the patch."""
    for (*above, last), value in operations:
        found: Any = document
        for key in above:
            found = found[int(key)] if isinstance(found, list) else found[key]
        plain = msgspec.json.decode(msgspec.json.encode(value))
        if last == APPEND:
            found.append(plain)
        else:
            found[last] = plain


def _required_terms(pod: ReviewedPod, terms: Terms) -> Operation:
    """The affinity is made as far as it is not there; what else stands in it is left alone."""
    affinity, of_nodes = pod.affinity()
    required: object = {"nodeSelectorTerms": [_term(each) for each in terms]}
    path = ["spec", "affinity", "nodeAffinity", REQUIRED]
    for there in (of_nodes, affinity):
        if not there:
            required = {path.pop(): required}
    return tuple(path), required


def _term(term: SelectorTerm) -> dict[str, list[dict[str, object]]]:
    parts = {"matchExpressions": term.match_expressions, "matchFields": term.match_fields}
    return {name: list(map(_requirement, part)) for name, part in parts.items() if part}


def _requirement(each: SelectorRequirement) -> dict[str, object]:
    fields: dict[str, object] = {"key": each.key, "operator": each.operator}
    return {**fields, "values": list(each.values)} if each.values else fields


def _tolerations(pod: ReviewedPod, merged: MergedTolerations) -> list[Operation]:
    path = ("spec", "tolerations")
    added = [fields_of(each) for each in merged.added]
    items = pod.toleration_items()
    if items and len(merged.kept) == len(items):
        return [((*path, APPEND), item) for item in added]
    return [(path, [*(items[place] for place in merged.kept), *added])]
