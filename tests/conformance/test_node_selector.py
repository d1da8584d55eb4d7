"""nodeSelector and required node affinity as Kubernetes v1.36.2 matches them."""

import json
from typing import Any

import pytest

from extender.decoding import RawPod, decode, explained_pod_of
from extender.predicates.node_selector import RequiredNodeAffinity, missing_labels
from tests.vectors_file import vectors

Case = dict[str, Any]


def _matches(case: Case) -> bool:
    spec = {"nodeSelector": case["node_selector"], "affinity": case.get("affinity")}
    pod = explained_pod_of(decode(json.dumps({"spec": spec}).encode(), RawPod))
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
