"""Validity of tolerations.

Upstream: pkg/apis/core/validation/validation.go ValidateTolerations, v1.36.2.
"""

import re
from collections.abc import Sequence

from extender.objects import Toleration
from extender.validation.errors import FieldError, go_json, go_quote, invalid, not_supported
from extender.validation.fields import (
    INT64_MAX,
    INT64_MIN,
    FieldTypeError,
    read_integer,
    read_list,
    read_object,
    read_text,
)
from extender.validation.names import decimal_integer_faults, label_key_faults, label_value_faults

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_EMPTY_KEY_FAULT = (
    'operator must be Exists when `key` is empty, which means "match all values and all keys"'
)
_SECONDS_FAULT = "effect must be 'NoExecute' when `tolerationSeconds` is set"
_SIGNED_DIGITS = re.compile("[+-]?[0-9]+")
# The digits of 2**63, the widest number an int64 can be asked to hold.
_INT64_DIGITS = 19


def validate_tolerations(
    tolerations: object, field_path: str, *, comparison_operators: bool = False
) -> list[FieldError]:
    """Check the tolerations of a pod (which may hold duplicates) or of a RuntimeClass.

    tolerations: decoded JSON, as a rule a list of objects; field_path: such as
    ``spec.tolerations``; comparison_operators: the gate TaintTolerationComparisonOperators.
    Never raises; what does not decode is a single FieldValueTypeInvalid.
    Upstream: pkg/apis/core/validation.ValidateTolerations, v1.36.2, its order included.
    """
    try:
        decoded = decode_tolerations(tolerations, field_path)
    except FieldTypeError as failure:
        return [failure.error]
    return toleration_errors(decoded, field_path, comparison_operators=comparison_operators)


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


def toleration_errors(
    tolerations: Sequence[Toleration], field: str, *, comparison_operators: bool
) -> list[FieldError]:
    """validate_tolerations for tolerations already decoded."""
    errors = []
    for index, toleration in enumerate(tolerations):
        path = f"{field}[{index}]"
        errors += _key_errors(toleration, path)
        errors += _operator_errors(toleration, path, comparison_operators=comparison_operators)
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


def _operator_errors(
    toleration: Toleration, path: str, *, comparison_operators: bool
) -> list[FieldError]:
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
    if not comparison_operators:
        return [not_supported(field, go_json(operator), ("Equal", "Exists", "Lt", "Gt"))]
    faults = decimal_integer_faults(value) + _parse_int_faults(value)
    return [invalid(f"{path}.value", go_quote(value), fault) for fault in faults]


def _parse_int_faults(text: str) -> list[str]:
    """What strconv.ParseInt(text, 10, 64) says."""
    if not _SIGNED_DIGITS.fullmatch(text):
        return [f"strconv.ParseInt: parsing {go_quote(text)}: invalid syntax"]
    # int() refuses more than 4,300 digits: count them first.
    digits = text.lstrip("+-").lstrip("0")
    number = int(f"{text[0] if text[0] == '-' else ''}{digits[: _INT64_DIGITS + 1] or '0'}")
    if INT64_MIN <= number <= INT64_MAX:
        return []
    return [f"strconv.ParseInt: parsing {go_quote(text)}: value out of range"]
