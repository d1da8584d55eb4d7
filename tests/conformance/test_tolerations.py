"""Taints and tolerations as Kubernetes v1.36.2 matches them."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import convert

from extender.kubernetes.decoder import RawTaint, RawToleration, taints_of, tolerations_of
from extender.model.objects import HARD_EFFECTS, Taint
from extender.model.pod_needs import Toleration
from extender.rules.tolerations import TolerationSet, find_untolerated_taint, tolerates_cordon
from tests.vectors_file import vectors

Case = dict[str, Any]


def _tolerations(case: Case, raw: list[Any]) -> TolerationSet:
    return TolerationSet(
        tolerations_of(convert(raw or [], list[RawToleration | None])),
        comparison_operators=case["comparison_operators"],
    )


@pytest.mark.parametrize("case", vectors("tolerations", "tolerates"))
def test_a_toleration_tolerates_the_taints_that_it_does_in_go(case: Case) -> None:
    (taint,) = taints_of(convert([case["taint"]], list[RawTaint | None]))
    tolerations = _tolerations(case, [case["toleration"]])
    assert tolerations.tolerates(taint) is case["tolerates"]


@pytest.mark.parametrize("case", vectors("tolerations", "untolerated"))
def test_the_first_untolerated_taint_is_found(case: Case) -> None:
    taints = taints_of(convert(case["taints"] or [], list[RawTaint | None]))
    effects = case["considered_effects"]
    considered = [each for each in taints if effects is None or each.effect in effects]
    found = find_untolerated_taint(considered, _tolerations(case, case["tolerations"]))
    expected = case["untolerated_taint"]
    wanted = taints_of(convert([expected], list[RawTaint | None]))[0] if expected else None
    assert found == wanted


@pytest.mark.parametrize("case", vectors("tolerations", "node_filters"))
def test_cordons_and_taints_refuse_as_the_in_tree_filters_do(case: Case) -> None:
    tolerations = _tolerations(case, case["tolerations"])
    taints = taints_of(convert(case["taints"] or [], list[RawTaint | None]))
    cordon_passes = not case["unschedulable"] or tolerates_cordon(tolerations)
    hard = [each for each in taints if each.effect in HARD_EFFECTS]
    taints_pass = find_untolerated_taint(hard, tolerations) is None
    expected = case["expect"]
    assert cordon_passes == (expected["NodeUnschedulable"]["code"] == "Success")
    assert taints_pass == (expected["TaintToleration"]["code"] == "Success")


KEYS = st.sampled_from(["", "a", "b"])
VALUES = st.sampled_from(["", "x", "-3", "0", "5", "7"])
EFFECTS = st.sampled_from(["", *sorted(HARD_EFFECTS)])
TOLERATIONS = st.lists(
    st.builds(
        Toleration,
        KEYS,
        st.sampled_from(["", "Equal", "Exists", "Gt", "Lt", "gt"]),
        VALUES,
        EFFECTS,
    ),
    max_size=5,
)


@given(TOLERATIONS, st.builds(Taint, KEYS, VALUES, EFFECTS), st.booleans())
@example([Toleration("a", "Gt", "7"), Toleration("a", "Gt", "0")], Taint("a", "5"), True)
@example([Toleration("a", "Gt", "0"), Toleration("a", "Gt", "7")], Taint("a", "5"), True)
@example([Toleration("a", "Lt", "0"), Toleration("a", "Lt", "7")], Taint("a", "5"), True)
@example([Toleration("a", "Lt", "7"), Toleration("a", "Lt", "0")], Taint("a", "5"), True)
def test_a_list_tolerates_what_any_of_it_tolerates(
    tolerations: list[Toleration], taint: Taint, comparison_operators: bool
) -> None:
    """Law: tolerates(list) = any(tolerates([each])), whatever is looked up at once."""

    def tolerates(some: list[Toleration]) -> bool:
        return TolerationSet(some, comparison_operators=comparison_operators).tolerates(taint)

    assert tolerates(tolerations) is any(tolerates([each]) for each in tolerations)


def test_without_the_gate_a_comparison_tolerates_nothing() -> None:
    """TaintTolerationComparisonOperators is off by default."""
    assert not TolerationSet([Toleration("a", "Gt", "1")]).tolerates(Taint("a", "5"))


@pytest.mark.parametrize(
    ("operator", "bound", "tolerated", "beyond"),
    [("Gt", 0, 2**63 - 1, 2**63), ("Lt", 0, -(2**63), -(2**63) - 1)],
)
def test_numbers_beyond_int64_are_none(
    operator: str, bound: int, tolerated: int, beyond: int
) -> None:
    tolerations = TolerationSet([Toleration("a", operator, str(bound))], comparison_operators=True)
    assert tolerations.tolerates(Taint("a", str(tolerated)))
    assert not tolerations.tolerates(Taint("a", str(beyond)))
