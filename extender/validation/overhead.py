"""Validity of overhead.podFixed.

Upstream: pkg/apis/core/validation/validation.go ValidateContainerResourceRequirements and
pkg/apis/core/helper/helpers.go, v1.36.2: the overhead is checked as if it were the limits of a
container, which is why its errors name ``overhead.limits``.
"""

from collections.abc import Mapping
from decimal import ROUND_UP, Decimal
from typing import Any, Final

from extender.validation.field_errors import (
    UNREADABLE,
    FieldError,
    forbidden,
    go_json,
    go_quote,
    invalid,
)
from extender.validation.fields import FieldTypeError, read_object, read_text
from extender.validation.name_rules import label_key_faults
from extender.validation.quantity import (
    canonical_quantity,
    is_integral,
    parse_quantity,
    trimmed_quantity,
)

HUGE_PAGES_PREFIX = "hugepages-"

#: The path of the amounts in a RuntimeClass.
_POD_FIXED: Final = "overhead.podFixed"

#: Characters of an amount that are shown to a person.
_MAX_SHOWN: Final = 100

_CONTAINER_RESOURCES = {"cpu", "memory", "ephemeral-storage"}
_INTEGER_RESOURCES = {
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
}
_STANDARD_RESOURCES = (
    _CONTAINER_RESOURCES
    | _INTEGER_RESOURCES
    | {
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "storage",
        "requests.storage",
    }
)


def decode_pod_fixed(pod_fixed: object, field: str) -> dict[str, str]:
    """Read overhead.podFixed: the quantities, as text, by resource name. Raises FieldTypeError."""
    field = f"{field}.podFixed"
    items = read_object(pod_fixed, field).items()
    return {name: _read_quantity(value, f"{field}[{name}]") for name, value in items}


def _read_quantity(value: object, field: str) -> str:
    if value is None:
        return "0"
    try:
        text = _quantity_text(value, field)
        parse_quantity(text)
    except FieldTypeError:
        raise
    except ValueError as error:
        raise FieldTypeError(field, str(error)) from error
    return text


def _quantity_text(value: object, field: str) -> str:
    # A JSON number is read as its text; bool is an int to Python.
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return trimmed_quantity(read_text(value, field))
    return go_json(None)  # not a quantity: the parser refuses it with Go's text


def unreadable_amount(error: FieldError, obj: Mapping[str, Any]) -> str:
    """The error of an amount that is no quantity, as a person reads it: with the amount, without
    the grammar.

    obj is the RuntimeClass that has it. Empty for any other error.
    """
    name = error.field.removeprefix(f"{_POD_FIXED}[").removesuffix("]")
    if error.type != UNREADABLE or f"{_POD_FIXED}[{name}]" != error.field:
        return ""
    amount = go_json(obj["overhead"]["podFixed"].get(name))
    shown = amount if len(amount) <= _MAX_SHOWN else f"{amount[:_MAX_SHOWN]}…"
    return f"{error.field}: {shown} is no quantity, such as 250m, 1.5 or 128Mi"


def overhead_errors(pod_fixed: Mapping[str, str], field: str) -> list[FieldError]:
    """The errors of a decoded podFixed, in the order of the names (Go's order is random)."""
    errors = []
    for name, text in sorted(pod_fixed.items()):
        path = f"{field}.limits[{name}]"
        errors += _resource_name_errors(name, path)
        errors += _amount_errors(name, text, path)
    has_huge_pages = any(name.startswith(HUGE_PAGES_PREFIX) for name in pod_fixed)
    if has_huge_pages and not {"cpu", "memory"} & pod_fixed.keys():
        errors.append(forbidden(field, "HugePages require cpu or memory"))
    return errors


def _resource_name_errors(name: str, path: str) -> list[FieldError]:
    faults = label_key_faults(name)
    is_huge_page = name.startswith(HUGE_PAGES_PREFIX)
    if "/" not in name:
        quota_name = name.removeprefix("requests.").startswith(HUGE_PAGES_PREFIX)
        if not faults and name not in _STANDARD_RESOURCES and not quota_name:
            faults = ["must be a standard resource type or fully qualified"]
        if name not in _CONTAINER_RESOURCES and not is_huge_page:
            faults = [*faults, "must be a standard resource for containers"]
    elif not _is_native(name) and not _is_extended(name):
        faults = [*faults, "doesn't follow extended resource name standard"]
    return [invalid(path, go_json(name), fault) for fault in faults]


def _amount_errors(name: str, text: str, path: str) -> list[FieldError]:
    value, shown = parse_quantity(text), canonical_quantity(text)
    errors = []
    if value < 0:
        errors.append(invalid(path, go_quote(shown), "must be greater than or equal to 0"))
    if (name in _INTEGER_RESOURCES or _is_extended(name)) and not is_integral(value):
        errors.append(invalid(path, go_json(shown), "must be an integer"))
    if name.startswith(HUGE_PAGES_PREFIX) and not _is_divisible(value, name):
        fault = f"{shown} is not positive integer multiple of {name}"
        errors.append(invalid(path, go_quote(shown), fault))
    return errors


def is_scalar_resource(name: str) -> bool:
    """Whether kube-scheduler counts a resource beside cpu, memory and ephemeral-storage.

    Upstream: pkg/scheduler/util/utils.go IsScalarResourceName, v1.36.2.
    """
    return (
        name.startswith((HUGE_PAGES_PREFIX, "attachable-volumes-"))
        or "kubernetes.io/" in name
        or _is_extended(name)
    )


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    if _is_native(name) or name.startswith("requests."):
        return False
    return not label_key_faults(f"requests.{name}")


def _is_divisible(value: Decimal, name: str) -> bool:
    """Whether an amount is a multiple of the page size its resource is named for."""
    try:
        page = parse_quantity(name.removeprefix(HUGE_PAGES_PREFIX))
    except ValueError:
        return False
    # Go divides by zero for a page beyond int64; the bounds also keep int() small.
    if not 0 < page < 2**63 or not is_integral(page):
        return False
    if value.copy_abs() >= 2**63:
        return True  # an amount beyond int64 counts as zero
    return int(value.to_integral_value(rounding=ROUND_UP)) % int(page) == 0
