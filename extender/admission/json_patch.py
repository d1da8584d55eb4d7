"""Changes → JSON Patch (RFC 6902), as small as possible, and correct for null and absent fields.

"add" to a member of an object replaces what is there, null included, so that it is right whether
the field is absent, null or empty.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from extender.admission.joining_terms import Terms
from extender.admission.merging import Changes, MergedTolerations
from extender.admission.reviewed_pod import ReviewedPod
from extender.objects import SelectorRequirement, SelectorTerm, fields_of

#: Up to this many tolerations are appended one by one; kube-apiserver copies the list each time.
MAX_APPENDED: Final = 16

Operation = dict[str, object]

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def encode_patch(operations: list[Operation]) -> bytes:
    return msgspec.json.encode(operations)


def patch(pod: ReviewedPod, changes: Changes) -> list[Operation]:
    """The operations that make the changes; empty when there are none. Raises DecodeError."""
    operations = []
    if changes.runtime_class_name is not None:
        operations.append(add("/spec/runtimeClassName", changes.runtime_class_name))
    if changes.overhead is not None:
        operations.append(add("/spec/overhead", changes.overhead))
    if changes.node_selector:
        operations += _node_selector(pod, changes.node_selector)
    if changes.tolerations is not None:
        operations += _tolerations(pod, changes.tolerations)
    if changes.terms is not None:
        operations.append(_required_terms(pod, changes.terms))
    return operations


def pointer(*keys: str) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)


def add(path: str, value: object) -> Operation:
    """The operation that sets what a JSON pointer points to."""
    return {"op": "add", "path": path, "value": value}


def _node_selector(pod: ReviewedPod, entries: Mapping[str, str]) -> list[Operation]:
    if pod.node_selector() is None:
        return [add("/spec/nodeSelector", entries)]
    return [add(pointer("spec", "nodeSelector", key), value) for key, value in entries.items()]


def _required_terms(pod: ReviewedPod, terms: Terms) -> Operation:
    """The affinity is made as far as it is not there; what else stands in it is left alone."""
    affinity, of_nodes = pod.affinity()
    required = required_json(terms)
    if of_nodes:
        return add(f"/spec/affinity/nodeAffinity/{REQUIRED}", required)
    if affinity:
        return add("/spec/affinity/nodeAffinity", {REQUIRED: required})
    return add("/spec/affinity", {"nodeAffinity": {REQUIRED: required}})


def required_json(terms: Terms) -> dict[str, object]:
    """A required node affinity of these terms, as the API writes it."""
    return {"nodeSelectorTerms": [_term(each) for each in terms]}


def _term(term: SelectorTerm) -> dict[str, list[dict[str, object]]]:
    parts = {"matchExpressions": term.match_expressions, "matchFields": term.match_fields}
    return {name: list(map(_requirement, part)) for name, part in parts.items() if part}


def _requirement(each: SelectorRequirement) -> dict[str, object]:
    fields: dict[str, object] = {"key": each.key, "operator": each.operator}
    return {**fields, "values": list(each.values)} if each.values else fields


def _tolerations(pod: ReviewedPod, merged: MergedTolerations) -> list[Operation]:
    path = "/spec/tolerations"
    added = [fields_of(each) for each in merged.added]
    if not merged.kept:
        return [add(path, added)]
    if not merged.dropped and len(added) <= MAX_APPENDED:
        return [add(f"{path}/-", item) for item in added]
    items = pod.toleration_items()
    kept: list[Raw | Operation] = [items[place] for place in merged.kept]
    return [{"op": "replace", "path": path, "value": [*kept, *added]}]
