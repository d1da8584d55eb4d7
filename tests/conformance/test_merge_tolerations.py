"""MergeTolerations and its superset relation as Kubernetes v1.36.2 has them."""

from typing import Any

import pytest

from extender.admission.merging import covers, surviving
from extender.model.pod_needs import Toleration
from tests.vectors_file import raw_vectors, vectors

Case = dict[str, Any]

NAMED: dict[str, Any] = raw_vectors("merge_tolerations")["named_tolerations"]


def toleration(raw: dict[str, Any]) -> Toleration:
    return Toleration(
        raw.get("key") or "",
        raw.get("operator") or "",
        raw.get("value") or "",
        raw.get("effect") or "",
        raw.get("tolerationSeconds"),
    )


@pytest.mark.parametrize("case", vectors("merge_tolerations", "superset_of"))
def test_a_toleration_covers_the_others_that_it_does_in_go(case: Case) -> None:
    one = toleration(NAMED[case["toleration"]])
    for name in case["superset_of"]:
        assert covers(one, toleration(NAMED[name])), name
    for name in case["not_superset_of"]:
        assert not covers(one, toleration(NAMED[name])), name


@pytest.mark.parametrize("case", vectors("merge_tolerations", "superset_pairs"))
def test_pairs_cover_each_other_as_in_go(case: Case) -> None:
    assert covers(toleration(case["super"]), toleration(case["sub"])) is case["is_superset"]


@pytest.mark.parametrize("case", vectors("merge_tolerations", "merge"))
def test_lists_are_merged_as_in_go(case: Case) -> None:
    of_pod = [toleration(raw) for raw in case["pod"] or []]
    of_class = [toleration(raw) for raw in case["runtime_class"] or []]
    both = [*of_pod, *of_class]
    merged = [both[place] for place in surviving(of_pod, of_class)]
    assert merged == [toleration(raw) for raw in case["merged"]]
    if case["merging_again_changes_nothing"]:
        again = [*merged, *of_class]
        assert [again[place] for place in surviving(merged, of_class)] == merged
