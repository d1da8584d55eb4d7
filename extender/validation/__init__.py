"""Whether objects are what kube-apiserver v1.36.2 would accept. Pure, no I/O.

Answers are lists of FieldError, empty for a valid object, in the texts of the API server.
"""

from extender.validation.field_errors import FieldError
from extender.validation.name_rules import validate_node_name
from extender.validation.overhead import is_scalar_resource, unreadable_amount
from extender.validation.quantity import (
    amounts_equal_in_pods,
    billionths,
    canonical_quantity,
    parse_quantity,
    trimmed_quantity,
)
from extender.validation.runtimeclass_rules import validate_runtimeclass

__all__ = [
    "FieldError",
    "amounts_equal_in_pods",
    "billionths",
    "canonical_quantity",
    "is_scalar_resource",
    "parse_quantity",
    "trimmed_quantity",
    "unreadable_amount",
    "validate_node_name",
    "validate_runtimeclass",
]
