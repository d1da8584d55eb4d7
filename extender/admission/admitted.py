"""A pod or template with what admission makes of it, as the object would be written."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from extender.admission.json_patch import REQUIRED, required_json
from extender.admission.merging import AdmissionRefusal, Changes, Merge, mutate, not_found, validate
from extender.admission.reviewed_pod import ReviewedPod
from extender.objects import RuntimeClass, fields_of

Json = dict[str, Any]


def reviewed(pod: Mapping[str, Any]) -> ReviewedPod:
    """The pod as admission reads it. Raises DecodeError."""
    return ReviewedPod(Raw(msgspec.json.encode(pod)))


def admitted_spec(
    spec: Json,
    pod: ReviewedPod,
    runtime_class: RuntimeClass | None,
    merge: Merge = Merge.ALL,
    given: str | None = None,
) -> Json | AdmissionRefusal:
    """The spec as it is stored; the same object where nothing changes.

    runtime_class is the one that the pod names or is given, None where there is none of that name;
    given is the name of one that the pod does not name itself. Raises DecodeError.
    """
    name = pod.runtime_class_name if given is None else given
    if name is None:
        return validate(pod, None) or spec
    if runtime_class is None:
        return not_found(name)
    changes = mutate(pod, runtime_class, merge)
    if isinstance(changes, AdmissionRefusal):
        return changes
    if changes.overhead is None:
        # What has an overhead already, or must have none.
        refusal = validate(pod, runtime_class)
        if refusal is not None:
            return refusal
    return _changed(spec, changes, given)


def _changed(spec: Json, changes: Changes, given: str | None) -> Json:
    changed: Json = {}
    if given is not None:
        changed["runtimeClassName"] = given
    if changes.overhead is not None:
        changed["overhead"] = dict(changes.overhead)
    if changes.node_selector:
        changed["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **changes.node_selector}
    merged = changes.tolerations
    if merged is not None:
        own = spec.get("tolerations") or []
        kept = [own[place] for place in merged.kept]
        changed["tolerations"] = [*kept, *map(fields_of, merged.added)]
    if changes.terms is not None:
        affinity = spec.get("affinity") or {}
        of_nodes = affinity.get("nodeAffinity") or {}
        of_nodes = {**of_nodes, REQUIRED: required_json(changes.terms)}
        changed["affinity"] = {**affinity, "nodeAffinity": of_nodes}
    return {**spec, **changed} if changed else spec
