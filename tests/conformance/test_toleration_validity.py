"""validate_tolerations against recorded answers of Kubernetes v1.36.2."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.validation import FieldError, validate_runtimeclass, validate_tolerations

VECTORS = Path(__file__).parents[1] / "vectors" / "tolerations.json"
CASES: list[dict[str, Any]] = json.loads(VECTORS.read_text(encoding="utf-8"))[
    "pod_toleration_validity"
]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{case['id']} {case['name']}") for case in CASES]
)
def test_answers_as_kubernetes_does(case: dict[str, Any]) -> None:
    errors = validate_tolerations(
        case["tolerations"],
        "spec.tolerations",
        comparison_operators=case["comparison_operators"],
    )
    assert (errors == []) is case["valid"]
    assert errors == [FieldError(**expected) for expected in case["errors"]]


CANONICAL = "must be a valid decimal integer in canonical form"


@pytest.mark.parametrize(
    ("value", "faults"),
    [
        pytest.param("-9223372036854775808", [], id="least int64"),
        pytest.param("+5", [CANONICAL], id="plus sign, which ParseInt takes"),
        pytest.param("007", [CANONICAL], id="leading zeros, which ParseInt takes"),
        pytest.param("-0", [CANONICAL], id="minus zero"),
        pytest.param(
            "-", [CANONICAL, 'strconv.ParseInt: parsing "-": invalid syntax'], id="sign alone"
        ),
        pytest.param(
            "", ["must be non-empty", 'strconv.ParseInt: parsing "": invalid syntax'], id="empty"
        ),
        pytest.param(
            "٣", [CANONICAL, 'strconv.ParseInt: parsing "٣": invalid syntax'], id="other script"
        ),
        pytest.param(
            "1\n", [CANONICAL, 'strconv.ParseInt: parsing "1\\n": invalid syntax'], id="newline"
        ),
        pytest.param(
            "9" * 5000,
            [f'strconv.ParseInt: parsing "{"9" * 5000}": value out of range'],
            id="more digits than Python converts",
        ),
    ],
)
def test_comparison_operators_need_a_canonical_int64(value: str, faults: list[str]) -> None:
    tolerations = [{"key": "a", "operator": "Gt", "value": value}]
    errors = validate_tolerations(tolerations, "spec.tolerations", comparison_operators=True)
    assert [error.text.split(": ", 3)[3] for error in errors] == faults


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
    of_pod = validate_tolerations(tolerations, "scheduling.tolerations")
    of_class = validate_runtimeclass(obj)
    assert of_class[: len(of_pod)] == of_pod
    added = of_class[len(of_pod) :]
    assert {error.type for error in added} <= {"FieldValueDuplicate"}
    fields = ("key", "operator", "value", "effect")
    identities = {tuple(item.get(name, "") for name in fields) for item in tolerations}
    assert len(added) == len(tolerations) - len(identities)


@settings(max_examples=200, deadline=None)
@given(tolerations=TOLERATIONS)
def test_the_gate_changes_nothing_for_other_operators(tolerations: list[dict[str, object]]) -> None:
    """Law: a toleration without Gt is judged alike with the gate on and off."""
    plain = [item for item in tolerations if item.get("operator") != "Gt"]
    off = validate_tolerations(plain, "spec.tolerations")
    assert validate_tolerations(plain, "spec.tolerations", comparison_operators=True) == off
