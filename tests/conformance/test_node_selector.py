"""nodeSelector and required node affinity as Kubernetes v1.36.2 matches them."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extender.kubernetes.explained_pods import explained_pod
from extender.model.objects import SelectorRequirement, SelectorTerm
from extender.rules.node_selector import RequiredNodeAffinity, missing_labels
from tests.vectors_file import vectors

Case = dict[str, Any]


def _matches(case: Case) -> bool:
    spec = {"nodeSelector": case["node_selector"], "affinity": case.get("affinity")}
    pod = explained_pod(json.dumps({"spec": spec}).encode())
    labels = case["labels"] or {}
    if missing_labels(pod.node_selector.items(), labels):
        return False
    if pod.node_affinity is None:
        return True
    return RequiredNodeAffinity(pod.node_affinity).matches(labels, case.get("node_name", ""))


@pytest.mark.parametrize("case", vectors("node_selector", "node_selector"))
def test_a_node_selector_matches_labels_literally(case: Case) -> None:
    assert _matches(case) is case["match"]


@pytest.mark.parametrize("case", vectors("node_selector", "required_node_affinity"))
def test_required_node_affinity_matches_as_in_go(case: Case) -> None:
    assert _matches(case) is case["match"]


@pytest.mark.parametrize(
    ("prefix", "name", "parses"),
    [
        ("a" * 253, "b", True),
        ("a" * 254, "b", False),
        (f"{'a' * 126}.{'b' * 126}", "c" * 63, True),
        (f"{'a' * 127}.{'b' * 126}", "c", False),
        ("a", "b" * 64, False),
    ],
)
def test_a_label_key_has_a_prefix_of_at_most_253_characters(
    prefix: str, name: str, parses: bool
) -> None:
    """IsQualifiedName and IsDNS1123Subdomain of apimachinery/pkg/util/validation."""
    key = f"{prefix}/{name}"
    affinity = RequiredNodeAffinity([SelectorTerm((SelectorRequirement(key, "Exists"),))])
    assert (not affinity.unreadable) is parses
    assert affinity.matches({key: ""}, "n") is parses


INT64 = st.integers(-(2**63), 2**63 - 1)


@given(
    bound=st.integers(0, 2**63 - 1),
    value=st.one_of(st.none(), INT64, st.integers(0, 20)),
    zeros=st.integers(0, 3),
)
@example(bound=5, value=5, zeros=0)
@example(bound=5, value=6, zeros=1)
@example(bound=5, value=-6, zeros=0)
def test_gt_and_lt_compare_whole_numbers(bound: int, value: int | None, zeros: int) -> None:
    """Gt: there is a value, and it is above the bound; Lt: below. Leading zeros do not matter."""
    number = "0" * zeros + str(bound)
    labels = {} if value is None else {"k": str(value)}
    for operator, expected in (
        ("Gt", value is not None and value > bound),
        ("Lt", value is not None and value < bound),
    ):
        term = SelectorTerm((SelectorRequirement("k", operator, (number,)),))
        assert RequiredNodeAffinity([term]).matches(labels, "n") is expected


@pytest.mark.parametrize(
    "value", ["", "x", "5.0", "1_0", "٣", str(-(2**63) - 1), str(2**63), "6" * 5000]
)
@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_a_label_that_is_no_int64_is_neither_above_nor_below(operator: str, value: str) -> None:
    term = SelectorTerm((SelectorRequirement("k", operator, ("5",)),))
    assert not RequiredNodeAffinity([term]).matches({"k": value}, "n")


@pytest.mark.parametrize("values", [(), ("1", "2"), ("x",), (str(2**63),), ("-5",)])
@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_a_bound_that_is_not_one_int64_makes_a_term_unreadable(
    operator: str, values: tuple[str, ...]
) -> None:
    affinity = RequiredNodeAffinity([SelectorTerm((SelectorRequirement("k", operator, values),))])
    assert [each.field for each in affinity.unreadable] == ["matchExpressions[0]"]
    assert not affinity.matches({"k": "7"}, "n")


@pytest.mark.parametrize(
    ("operator", "value", "matches"),
    [("In", "", True), ("In", "n", False), ("NotIn", "", False), ("NotIn", "n", True)],
)
def test_a_field_that_a_node_does_not_have_is_empty(
    operator: str, value: str, matches: bool
) -> None:
    """extractNodeFields knows metadata.name alone; any other field is "", as in fields.Set.Get."""
    term = SelectorTerm((), (SelectorRequirement("spec.unschedulable", operator, (value,)),))
    assert RequiredNodeAffinity([term]).matches({}, "n") is matches
