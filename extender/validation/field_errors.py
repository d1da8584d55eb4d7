"""The results of a validation: field errors, in the words of the API server.

Upstream: k8s.io/apimachinery/pkg/util/validation/field/errors.go, v0.36.2.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: The type of the error for a value that does not decode.
UNREADABLE: Final = "FieldValueTypeInvalid"

_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
}
# encoding/json escapes these for HTML; json.dumps does not.
_HTML_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault of one field.

    field: path such as ``scheduling.tolerations[0].key``; text: the whole sentence, path
    included; type: the machine-readable cause, such as ``FieldValueInvalid``.
    """

    field: str
    text: str
    type: str


def invalid(field: str, shown: str, detail: str) -> FieldError:
    """A malformed value; `shown` is the value as go_quote or go_json writes it."""
    return FieldError(field, f"{field}: Invalid value: {shown}: {detail}", "FieldValueInvalid")


def required(field: str, detail: str = "") -> FieldError:
    """A value that is missing or empty."""
    text = f"{field}: Required value"
    return FieldError(field, f"{text}: {detail}" if detail else text, "FieldValueRequired")


def forbidden(field: str, detail: str) -> FieldError:
    """A well-formed value that is not permitted here."""
    return FieldError(field, f"{field}: Forbidden: {detail}", "FieldValueForbidden")


def duplicate(field: str, shown: str) -> FieldError:
    """A value that has to be unique and is not."""
    return FieldError(field, f"{field}: Duplicate value: {shown}", "FieldValueDuplicate")


def too_long(field: str, limit: int) -> FieldError:
    """A value of more than `limit` bytes (the value itself is left out)."""
    text = f"{field}: Too long: may not be more than {limit} bytes"
    return FieldError(field, text, "FieldValueTooLong")


def not_supported(field: str, shown: str, supported: Sequence[str]) -> FieldError:
    """A value outside of an enumeration."""
    values = ", ".join(go_quote(value) for value in supported)
    text = f"{field}: Unsupported value: {shown}: supported values: {values}"
    return FieldError(field, text, "FieldValueNotSupported")


def type_invalid(field: str, detail: str) -> FieldError:
    """A value that does not decode: of another JSON type, or an unreadable number.

    The API server answers HTTP 400 then; its texts depend on the Go version, these do not.
    """
    text = f"{field}: {detail}" if field else detail
    return FieldError(field, text, UNREADABLE)


def go_quote(text: str) -> str:
    """Quote as Go's %q (strconv.Quote) does: how a plain string is shown."""
    return '"' + "".join(_quoted_character(character) for character in text) + '"'


def _quoted_character(character: str) -> str:
    if escape := _ESCAPES.get(character):
        return escape
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def go_json(value: object) -> str:
    """Encode as Go's encoding/json does: how anything but a plain string is shown.

    This includes Go types derived from string (operator, effect, resource name, UID).
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_HTML_ESCAPES)
