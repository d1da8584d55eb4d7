"""Validity of ObjectMeta for an object without a namespace.

Upstream: k8s.io/apimachinery v0.36.2, pkg/api/validation/objectmeta.go and
pkg/apis/meta/v1/validation/validation.go ValidateManagedFields.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from extender.validation.field_errors import (
    FieldError,
    forbidden,
    go_json,
    go_quote,
    invalid,
    too_long,
)
from extender.validation.fields import (
    read_boolean,
    read_integer,
    read_list,
    read_object,
    read_text,
    read_text_map,
    read_texts,
    read_time,
)
from extender.validation.name_rules import (
    byte_length,
    dns1123_subdomain_faults,
    label_errors,
    label_key_faults,
    subdomain_name_errors,
)

ANNOTATIONS_MAX_BYTES = 256 * 1024  # keys and values together
MANAGER_MAX_BYTES = 128
SUBRESOURCE_MAX_BYTES = 256

_OWNER_TEXTS = ("apiVersion", "kind", "name", "uid")
_OWNER_FLAGS = ("controller", "blockOwnerDeletion")
_MANAGED_FIELDS_TEXTS = ("manager", "operation", "apiVersion", "fieldsType", "subresource")


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """The parts of an object's metadata that are validated; "" stands for an absent one.

    An owner is a dict in the order of its Go type.
    """

    name: str
    generate_name: str
    namespace: str
    generation: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner_references: list[dict[str, object]]
    finalizers: list[str]
    managed_fields: list[dict[str, str]]


def decode_metadata(value: object, field: str) -> ObjectMeta:
    """Read ObjectMeta from decoded JSON. Raises FieldTypeError, also for a field left out here."""
    raw = read_object(value, field)

    def text(name: str) -> str:
        return read_text(raw.get(name), f"{field}.{name}")

    def integer(name: str) -> int:
        return read_integer(raw.get(name), f"{field}.{name}") or 0

    name, generate_name, namespace = text("name"), text("generateName"), text("namespace")
    text("uid"), text("resourceVersion")
    generation = integer("generation")
    for time in ("creationTimestamp", "deletionTimestamp"):
        read_time(raw.get(time), f"{field}.{time}")
    integer("deletionGracePeriodSeconds")
    return ObjectMeta(
        name=name,
        generate_name=generate_name,
        namespace=namespace,
        generation=generation,
        labels=read_text_map(raw.get("labels"), f"{field}.labels"),
        annotations=read_text_map(raw.get("annotations"), f"{field}.annotations"),
        owner_references=_decode_owners(raw.get("ownerReferences"), f"{field}.ownerReferences"),
        finalizers=read_texts(raw.get("finalizers"), f"{field}.finalizers"),
        managed_fields=_decode_managed_fields(raw.get("managedFields"), f"{field}.managedFields"),
    )


def _decode_owners(value: object, field: str) -> list[dict[str, object]]:
    owners = []
    for index, item in enumerate(read_list(value, field)):
        path = f"{field}[{index}]"
        raw = read_object(item, path)
        owner: dict[str, object] = {
            name: read_text(raw.get(name), f"{path}.{name}") for name in _OWNER_TEXTS
        }
        flags = {name: read_boolean(raw.get(name), f"{path}.{name}") for name in _OWNER_FLAGS}
        owners.append(owner | {name: flag for name, flag in flags.items() if flag is not None})
    return owners


def _decode_managed_fields(value: object, field: str) -> list[dict[str, str]]:
    entries = []
    for index, item in enumerate(read_list(value, field)):
        path = f"{field}[{index}]"
        raw = read_object(item, path)
        entries.append(
            {name: read_text(raw.get(name), f"{path}.{name}") for name in _MANAGED_FIELDS_TEXTS}
        )
    return entries


def metadata_errors(meta: ObjectMeta, field: str) -> list[FieldError]:
    """ValidateObjectMeta for a cluster-scoped object named by a DNS subdomain, on creation."""
    errors = []
    if meta.generate_name:
        faults = dns1123_subdomain_faults(_mask_trailing_dash(meta.generate_name))
        path = f"{field}.generateName"
        errors += [invalid(path, go_quote(meta.generate_name), fault) for fault in faults]
    errors += subdomain_name_errors(meta.name, f"{field}.name")
    if meta.namespace:
        errors.append(forbidden(f"{field}.namespace", "not allowed on this type"))
    if meta.generation < 0:
        fault = "must be greater than or equal to 0"
        errors.append(invalid(f"{field}.generation", str(meta.generation), fault))
    errors += label_errors(meta.labels, f"{field}.labels")
    errors += _annotation_errors(meta.annotations, f"{field}.annotations")
    errors += _owner_errors(meta.owner_references, f"{field}.ownerReferences")
    errors += _finalizer_errors(meta.finalizers, f"{field}.finalizers")
    errors += _managed_fields_errors(meta.managed_fields, f"{field}.managedFields")
    return errors


def _annotation_errors(annotations: Mapping[str, str], field: str) -> list[FieldError]:
    errors = []
    for key in sorted(annotations):
        # Go lowers each letter to one letter; this is the only one of which Python makes two.
        lowered = key.replace("\u0130", "i").lower()
        errors += [invalid(field, go_quote(key), fault) for fault in label_key_faults(lowered)]
    size = sum(byte_length(key) + byte_length(value) for key, value in annotations.items())
    if size > ANNOTATIONS_MAX_BYTES:
        errors.append(too_long(field, ANNOTATIONS_MAX_BYTES))
    return errors


def _owner_errors(owners: list[dict[str, object]], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    controller = ""
    for owner in owners:
        errors += _single_owner_errors(owner, field)
        if owner.get("controller") is not True:
            continue
        current = f"{owner['kind']}/{owner['name']}"
        if controller:
            fault = (
                'Only one reference can have Controller set to true. Found "true" in references '
                f"for {controller} and {current}"
            )
            errors.append(invalid(field, go_json(owners), fault))
        else:
            controller = current
    return errors


def _single_owner_errors(owner: dict[str, object], field: str) -> list[FieldError]:
    errors = []
    api_version = str(owner["apiVersion"])
    group, _, version = api_version.rpartition("/")
    if "/" in group or not version:
        shown = go_quote(api_version)
        errors.append(invalid(f"{field}.apiVersion", shown, "version must not be empty"))
    empty = [name for name in ("kind", "name", "uid") if not owner[name]]
    errors += [invalid(f"{field}.{name}", go_quote(""), "must not be empty") for name in empty]
    if (group, version, owner["kind"]) == ("", "v1", "Event"):
        fault = "/v1, Kind=Event is disallowed from being an owner"
        errors.append(invalid(field, go_json(owner), fault))
    return errors


def _finalizer_errors(finalizers: list[str], field: str) -> list[FieldError]:
    errors = []
    for name in finalizers:
        errors += [invalid(field, go_quote(name), fault) for fault in label_key_faults(name)]
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        fault = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid(field, go_json(finalizers), fault))
    return errors


def _managed_fields_errors(entries: list[dict[str, str]], field: str) -> list[FieldError]:
    errors = []
    for index, entry in enumerate(entries):
        path = f"{field}[{index}]"
        operation, fields_type = entry["operation"], entry["fieldsType"]
        if operation not in {"Apply", "Update"}:
            fault = "must be `Apply` or `Update`"
            errors.append(invalid(f"{path}.operation", go_json(operation), fault))
        if fields_type not in {"", "FieldsV1"}:
            fault = "must be `FieldsV1`"
            errors.append(invalid(f"{path}.fieldsType", go_quote(fields_type), fault))
        errors += _manager_errors(entry["manager"], f"{path}.manager")
        if byte_length(entry["subresource"]) > SUBRESOURCE_MAX_BYTES:
            errors.append(too_long(f"{path}.subresource", SUBRESOURCE_MAX_BYTES))
    return errors


def _manager_errors(manager: str, field: str) -> list[FieldError]:
    errors = []
    if byte_length(manager) > MANAGER_MAX_BYTES:
        errors.append(too_long(field, MANAGER_MAX_BYTES))
    position = 0
    for character in manager:
        if not character.isprintable():
            fault = f"invalid character U+{ord(character):04X} (at position {position})"
            errors.append(invalid(field, go_quote(manager), fault))
        position += byte_length(character)
    return errors


def _mask_trailing_dash(prefix: str) -> str:
    # A prefix may end in a dash, since the generated name continues after it.
    return f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
