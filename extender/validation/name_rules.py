"""Syntax of names, label keys and label values.

Upstream: k8s.io/apimachinery v0.36.2, pkg/util/validation/validation.go (its texts count
"characters") and pkg/api/validate/content/{kube,dns,decimal_int}.go (its texts count "bytes"); both
measure UTF-8 bytes. Each check returns a sentence for each fault, none if the text is valid.
"""

import re
from collections.abc import Mapping

from extender.validation.field_errors import FieldError, go_quote, invalid, required
from extender.validation.fields import FieldTypeError, read_text

LABEL_MAX_BYTES = 63
SUBDOMAIN_MAX_BYTES = 253

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + r"(\." + _LABEL + ")*"
_NAME_PART = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_NAME_PART})?"

# Used with fullmatch only: "$" would accept a trailing newline.
_LABEL_RE = re.compile(_LABEL)
_SUBDOMAIN_RE = re.compile(_SUBDOMAIN)
_NAME_PART_RE = re.compile(_NAME_PART)
_LABEL_VALUE_RE = re.compile(_LABEL_VALUE)

_LABEL_FAULT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    f"for validation is '{_LABEL}')"
)
_SUBDOMAIN_FAULT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    f"for validation is '{_SUBDOMAIN}')"
)
_NAME_PART_FAULT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    f"validation is '{_NAME_PART}')"
)
_LABEL_VALUE_FAULT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    f"or '12345', regex used for validation is '{_LABEL_VALUE}')"
)


def byte_length(text: str) -> int:
    """Length as Go counts it, in UTF-8 bytes."""
    return len(text.encode())


def dns1123_label_faults(text: str) -> list[str]:
    """IsDNS1123Label."""
    faults = []
    if byte_length(text) > LABEL_MAX_BYTES:
        faults.append(f"must be no more than {LABEL_MAX_BYTES} characters")
    if not _LABEL_RE.fullmatch(text):
        dotted = _SUBDOMAIN_RE.fullmatch(text)
        faults.append("must not contain dots" if dotted else _LABEL_FAULT)
    return faults


def dns1123_subdomain_faults(text: str, *, unit: str = "characters") -> list[str]:
    """IsDNS1123Subdomain; `unit` is the word for bytes in upstream's text."""
    faults = []
    if byte_length(text) > SUBDOMAIN_MAX_BYTES:
        faults.append(f"must be no more than {SUBDOMAIN_MAX_BYTES} {unit}")
    if not _SUBDOMAIN_RE.fullmatch(text):
        faults.append(_SUBDOMAIN_FAULT)
    return faults


def label_key_faults(text: str) -> list[str]:
    """IsQualifiedName, which is IsLabelKey: a name with an optional DNS prefix and "/"."""
    parts = text.split("/")
    if len(parts) > 2:
        example = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_NAME_PART_FAULT} {example}"]
    faults = [] if len(parts) == 1 else _prefix_faults(parts[0])
    name = parts[-1]
    if not name:
        faults.append("name part must be non-empty")
    elif byte_length(name) > LABEL_MAX_BYTES:
        faults.append(f"name part must be no more than {LABEL_MAX_BYTES} bytes")
    if not _NAME_PART_RE.fullmatch(name):
        faults.append(f"name part {_NAME_PART_FAULT}")
    return faults


def _prefix_faults(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    return [f"prefix part {fault}" for fault in dns1123_subdomain_faults(prefix, unit="bytes")]


def label_value_faults(text: str) -> list[str]:
    """IsValidLabelValue."""
    faults = []
    if byte_length(text) > LABEL_MAX_BYTES:
        faults.append(f"must be no more than {LABEL_MAX_BYTES} bytes")
    if not _LABEL_VALUE_RE.fullmatch(text):
        faults.append(_LABEL_VALUE_FAULT)
    return faults


def label_errors(labels: Mapping[str, str], field: str) -> list[FieldError]:
    """ValidateLabels: keys and values, in the order of the keys (Go's is random)."""
    errors = []
    for key, value in sorted(labels.items()):
        errors += [invalid(field, go_quote(key), fault) for fault in label_key_faults(key)]
        errors += [invalid(field, go_quote(value), fault) for fault in label_value_faults(value)]
    return errors


def subdomain_name_errors(name: str, field: str) -> list[FieldError]:
    """The name of an object whose name is a DNS subdomain, such as a RuntimeClass or a Node."""
    if not name:
        return [required(field, "name or generateName is required")]
    return [invalid(field, go_quote(name), fault) for fault in dns1123_subdomain_faults(name)]


def validate_node_name(name: object) -> list[FieldError]:
    """Check the metadata.name of a Node: a DNS subdomain of at most 253 bytes.

    Never raises; a name that is no string is a FieldValueTypeInvalid.
    Upstream: pkg/apis/core/validation.ValidateNodeName, v1.36.2.
    """
    field = "metadata.name"
    try:
        return subdomain_name_errors(read_text(name, field), field)
    except FieldTypeError as failure:
        return [failure.error]
