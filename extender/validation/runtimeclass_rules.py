"""Validity of RuntimeClass objects, as kube-apiserver sees it.

Upstream: pkg/apis/node/validation/validation.go, v1.36.2. The declarative validation of that
version only shadows these rules (they are marked alpha) and adds no error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from extender.objects import Toleration
from extender.validation.field_errors import (
    FieldError,
    duplicate,
    go_json,
    go_quote,
    invalid,
    required,
)
from extender.validation.fields import FieldTypeError, read_object, read_text, read_text_map
from extender.validation.metadata import (
    ObjectMeta,
    decode_metadata,
    metadata_errors,
)
from extender.validation.name_rules import dns1123_label_faults, label_errors
from extender.validation.overhead import decode_pod_fixed, overhead_errors
from extender.validation.toleration_rules import decode_tolerations, toleration_errors


@dataclass(frozen=True, slots=True)
class _RuntimeClass:
    metadata: ObjectMeta
    handler: str
    pod_fixed: Mapping[str, str]
    node_selector: Mapping[str, str]
    tolerations: list[Toleration]


def validate_runtimeclass(obj: Mapping[str, object]) -> list[FieldError]:
    """Check a new RuntimeClass (node.k8s.io/v1) as kube-apiserver does on creation.

    obj: decoded JSON or YAML, with values of any type; apiVersion, kind and unknown fields are
    ignored. Lt and Gt are refused in a RuntimeClass whether the gate
    TaintTolerationComparisonOperators is on or off (v1.36.2). The name is required: generateName
    alone is not enough, since names are generated before validation. Never raises; an object that
    does not decode is a single FieldValueTypeInvalid. Where Go's order is random (maps), errors
    come in the order of the keys. Upstream: pkg/apis/node/validation.ValidateRuntimeClass, v1.36.2.
    """
    try:
        runtime_class = _decode(obj)
    except FieldTypeError as failure:
        return [failure.error]
    errors = metadata_errors(runtime_class.metadata, "metadata")
    errors += _handler_errors(runtime_class.handler)
    errors += overhead_errors(runtime_class.pod_fixed, "overhead")
    errors += label_errors(runtime_class.node_selector, "scheduling.nodeSelector")
    errors += _toleration_errors(runtime_class.tolerations, "scheduling.tolerations")
    return errors


def _decode(obj: object) -> _RuntimeClass:
    raw = read_object(obj, "")
    overhead = read_object(raw.get("overhead"), "overhead")
    scheduling = read_object(raw.get("scheduling"), "scheduling")
    selector, tolerations = scheduling.get("nodeSelector"), scheduling.get("tolerations")
    return _RuntimeClass(
        metadata=decode_metadata(raw.get("metadata"), "metadata"),
        handler=read_text(raw.get("handler"), "handler"),
        pod_fixed=decode_pod_fixed(overhead.get("podFixed"), "overhead"),
        node_selector=read_text_map(selector, "scheduling.nodeSelector"),
        tolerations=decode_tolerations(tolerations, "scheduling.tolerations"),
    )


def _handler_errors(handler: str) -> list[FieldError]:
    if not handler:
        return [required("handler")]
    return [invalid("handler", go_quote(handler), fault) for fault in dns1123_label_faults(handler)]


def _toleration_errors(tolerations: Sequence[Toleration], field: str) -> list[FieldError]:
    errors = toleration_errors(tolerations, field)
    seen = set()
    for index, toleration in enumerate(tolerations):
        # tolerationSeconds is no part of a toleration's identity
        identity = toleration[:4]
        if identity in seen:
            errors.append(duplicate(f"{field}[{index}]", _shown(toleration)))
        seen.add(identity)
    return errors


def _shown(toleration: Toleration) -> str:
    # The internal Go type has no JSON names, so its fields appear under their Go names.
    names = ("Key", "Operator", "Value", "Effect", "TolerationSeconds")
    return go_json(dict(zip(names, toleration, strict=True)))
