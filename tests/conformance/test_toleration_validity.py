"""Tolerations of a RuntimeClass against recorded answers of Kubernetes v1.36.2."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.validation.field_errors import FieldError
from extender.validation.fields import FieldTypeError
from extender.validation.runtimeclass_rules import validate_runtimeclass
from extender.validation.toleration_rules import decode_tolerations, toleration_errors

VECTORS = Path(__file__).parents[1] / "vectors" / "tolerations.json"
CASES: list[dict[str, Any]] = json.loads(VECTORS.read_text(encoding="utf-8"))[
    "pod_toleration_validity"
]


def errors_of(tolerations: object, field: str) -> list[FieldError]:
    try:
        return toleration_errors(decode_tolerations(tolerations, field), field)
    except FieldTypeError as failure:
        return [failure.error]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{case['id']} {case['name']}")
        for case in CASES
        if not case["comparison_operators"]
    ],
)
def test_answers_as_kubernetes_does(case: dict[str, Any]) -> None:
    errors = errors_of(case["tolerations"], "spec.tolerations")
    assert (errors == []) is case["valid"]
    assert errors == [FieldError(**expected) for expected in case["errors"]]


TEXTS = st.sampled_from(["", "a", "a b", "Exists", "Equal", "Gt", "NoSchedule", "NoExecute", "5"])
TOLERATIONS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "key": TEXTS,
            "operator": TEXTS,
            "value": TEXTS,
            "effect": TEXTS,
            "tolerationSeconds": st.none() | st.integers(-5, 5),
        },
    ),
    max_size=5,
)


@settings(max_examples=200, deadline=None)
@given(tolerations=TOLERATIONS)
def test_a_runtimeclass_only_adds_that_tolerations_are_unique(
    tolerations: list[dict[str, object]],
) -> None:
    """Law: a RuntimeClass has the errors of a pod's tolerations, then duplicates and no more."""
    obj = {
        "metadata": {"name": "foo"},
        "handler": "bar",
        "scheduling": {"tolerations": tolerations},
    }
    of_pod = errors_of(tolerations, "scheduling.tolerations")
    of_class = validate_runtimeclass(obj)
    assert of_class[: len(of_pod)] == of_pod
    added = of_class[len(of_pod) :]
    assert {error.type for error in added} <= {"FieldValueDuplicate"}
    fields = ("key", "operator", "value", "effect")
    identities = {tuple(item.get(name, "") for name in fields) for item in tolerations}
    assert len(added) == len(tolerations) - len(identities)
