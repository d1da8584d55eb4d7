"""Validity of tolerations.

Upstream: pkg/apis/core/validation/validation.go ValidateTolerations, v1.36.2.
"""

from collections.abc import Sequence

from extender.objects import Toleration
from extender.validation.field_errors import FieldError, go_json, go_quote, invalid, not_supported
from extender.validation.fields import (
    read_integer,
    read_list,
    read_object,
    read_text,
)
from extender.validation.name_rules import label_key_faults, label_value_faults

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_EMPTY_KEY_FAULT = (
    'operator must be Exists when `key` is empty, which means "match all values and all keys"'
)
_SECONDS_FAULT = "effect must be 'NoExecute' when `tolerationSeconds` is set"


def decode_tolerations(value: object, field: str) -> list[Toleration]:
    """Read a list of tolerations; null is none. Raises FieldTypeError."""
    items = enumerate(read_list(value, field))
    return [_decode_toleration(item, f"{field}[{index}]") for index, item in items]


def _decode_toleration(value: object, field: str) -> Toleration:
    fields = read_object(value, field)
    texts = {
        name: read_text(fields.get(name), f"{field}.{name}")
        for name in ("key", "operator", "value", "effect")
    }
    seconds = read_integer(fields.get("tolerationSeconds"), f"{field}.tolerationSeconds")
    return Toleration(**texts, seconds=seconds)


def toleration_errors(tolerations: Sequence[Toleration], field: str) -> list[FieldError]:
    """Check decoded tolerations; field is their path, such as ``scheduling.tolerations``.

    Of a RuntimeClass: a pod's may have the operators Lt and Gt, with the gate
    TaintTolerationComparisonOperators. The order is upstream's.
    """
    errors = []
    for index, toleration in enumerate(tolerations):
        path = f"{field}[{index}]"
        errors += _key_errors(toleration, path)
        errors += _operator_errors(toleration, path)
        if toleration.effect and toleration.effect not in EFFECTS:
            errors.append(not_supported(f"{path}.effect", go_json(toleration.effect), EFFECTS))
    return errors


def _key_errors(toleration: Toleration, path: str) -> list[FieldError]:
    key, operator, _, effect, seconds = toleration
    faults = label_key_faults(key) if key else []
    errors = [invalid(f"{path}.key", go_quote(key), fault) for fault in faults]
    if not key and operator != "Exists":
        errors.append(invalid(f"{path}.operator", go_json(operator), _EMPTY_KEY_FAULT))
    if seconds is not None and effect != "NoExecute":
        errors.append(invalid(f"{path}.effect", go_json(effect), _SECONDS_FAULT))
    return errors


def _operator_errors(toleration: Toleration, path: str) -> list[FieldError]:
    operator, value = toleration.operator, toleration.value
    field = f"{path}.operator"
    if operator in {"", "Equal"}:
        faults = label_value_faults(value)
        return [invalid(field, go_quote(value), ";".join(faults))] if faults else []
    if operator == "Exists":
        fault = "value must be empty when `operator` is 'Exists'"
        return [invalid(field, go_quote(value), fault)] if value else []
    if operator not in {"Lt", "Gt"}:
        return [not_supported(field, go_json(operator), ("Equal", "Exists"))]
    return [not_supported(field, go_json(operator), ("Equal", "Exists", "Lt", "Gt"))]
