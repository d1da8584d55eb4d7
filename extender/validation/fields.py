"""Read values of decoded JSON or YAML as the Go types of the API.

A null is the zero value of its Go type; a value of another type makes the whole object
undecodable. Upstream: sigs.k8s.io/json as kube-apiserver v1.36.2 uses it (case-sensitive
names, unknown fields ignored), sigs.k8s.io/yaml for keys that are no strings.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime

from extender.validation.field_errors import FieldError, type_invalid

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
)


class FieldTypeError(ValueError):
    """The object does not decode; `error` says which field and why."""

    def __init__(self, field: str, detail: str) -> None:
        self.error: FieldError = type_invalid(field, detail)
        super().__init__(self.error.text)


def read_text(value: object, field: str) -> str:
    """A string; null is "". Raises FieldTypeError."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong_type(field, "string", value)
    # Go has no lone surrogates: its decoder puts U+FFFD in their place.
    return _LONE_SURROGATE.sub("\ufffd", value)


def read_object(value: object, field: str) -> dict[str, object]:
    """An object; null is {}. Raises FieldTypeError."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong_type(field, "object", value)
    return {_read_key(key, field): item for key, item in value.items()}


def read_list(value: object, field: str) -> Sequence[object]:
    """A list; null is (). Raises FieldTypeError."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise _wrong_type(field, "list", value)
    return value


def read_texts(value: object, field: str) -> list[str]:
    """A list of strings. Raises FieldTypeError."""
    items = enumerate(read_list(value, field))
    return [read_text(item, f"{field}[{index}]") for index, item in items]


def read_text_map(value: object, field: str) -> dict[str, str]:
    """An object of strings, such as labels. Raises FieldTypeError."""
    items = read_object(value, field).items()
    return {key: read_text(item, f"{field}[{key}]") for key, item in items}


def read_integer(value: object, field: str) -> int | None:
    """An int64, or None for null. Raises FieldTypeError, also for 1.0 as Go does."""
    if value is None:
        return None
    # bool is an int to Python
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_type(field, "integer", value)
    if not INT64_MIN <= value <= INT64_MAX:
        raise FieldTypeError(field, "Invalid value: integer out of the range of int64")
    return value


def read_boolean(value: object, field: str) -> bool | None:
    """A boolean, or None for null. Raises FieldTypeError."""
    if value is None or isinstance(value, bool):
        return value
    raise _wrong_type(field, "boolean", value)


def read_time(value: object, field: str) -> datetime | None:
    """An RFC 3339 time, in UTC, or None for null.

    A datetime, which PyYAML makes of an unquoted time, is accepted. Raises FieldTypeError.
    """
    if value is None:
        return None
    try:
        return _read_moment(value, field).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        if isinstance(error, FieldTypeError):
            raise
        raise FieldTypeError(field, "Invalid value: not a time as RFC 3339 writes it") from error


def _read_moment(value: object, field: str) -> datetime:
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    text = read_text(value, field)
    if not _RFC3339.fullmatch(text):
        raise FieldTypeError(field, "Invalid value: not a time as RFC 3339 writes it")
    return datetime.fromisoformat(text)


def _read_key(key: object, field: str) -> str:
    # YAML has keys of other types; sigs.k8s.io/yaml writes booleans and integers as text.
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int) and INT64_MIN <= key <= INT64_MAX:
        return str(key)
    if not isinstance(key, str):
        raise FieldTypeError(field, f"Invalid type: expected string as key, got {type_name(key)}")
    return read_text(key, field)


def _wrong_type(field: str, expected: str, value: object) -> FieldTypeError:
    got = type_name(value)
    unquoted = expected == "string" and got in {"boolean", "integer", "number", "timestamp"}
    hint = " (quote it in YAML)" if unquoted else ""
    return FieldTypeError(field, f"Invalid type: expected {expected}, got {got}{hint}")


def type_name(value: object) -> str:
    """What JSON or YAML calls the type of a decoded value."""
    # In this order: bool is an int to Python.
    names: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (type(None), "null"),
        (bool, "boolean"),
        (int, "integer"),
        (float, "number"),
        (str, "string"),
        (date, "timestamp"),
        (Mapping, "object"),
        ((list, tuple), "list"),
    )
    for kind, name in names:
        if isinstance(value, kind):
            return name
    return type(value).__name__
