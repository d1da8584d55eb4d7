"""Static fit is what kube-scheduler's NodeResourcesFit says of an empty node."""

import json
from typing import Any, Final

import pytest

from extender.kubernetes.decoder import DecodeError
from extender.kubernetes.explained_pods import explained_pod
from extender.kubernetes.resources import amounts_of
from extender.model.objects import PodResources
from extender.rules.resource_fit import Insufficient, amount_text, counted, insufficient, request_of
from tests.cases_file import cases
from tests.vectors_file import raw_vectors

CASES: Final = raw_vectors("static_fit")["cases"]

#: Where we count 1m more: kube-apiserver rounds amounts up to thousandths, but what the pod's own
#: requests default to only once it has been added up.
ROUNDED_BEFORE: Final = {213}


def _resources_of(spec: dict[str, Any]) -> PodResources:
    resources = explained_pod(json.dumps({"spec": spec}).encode()).resources
    assert resources is not None
    return resources


def _lacking(spec: dict[str, Any], allocatable: dict[str, str]) -> list[Insufficient]:
    return insufficient(request_of(_resources_of(spec)), counted(amounts_of(allocatable, "")))


def test_random_pods_ask_for_and_lack_what_kube_scheduler_says() -> None:
    """Pods that are stored, and others to which kube-apiserver will add requests."""
    refused = fits = 0
    for case in (each for number, each in enumerate(CASES) if number not in ROUNDED_BEFORE):
        total = request_of(_resources_of(case["spec"])).total
        # Of the resource pods a node has room for so many; what a pod asks of it means nothing.
        asked = {name: amount for name, amount in total.items() if amount and name != "pods"}
        assert asked == case["asked"], case
        for node in case["nodes"]:
            found = [each.resource for each in _lacking(case["spec"], node["allocatable"])]
            assert sorted(found) == node["lacking"], case
            refused += bool(found)
            fits += not found
    assert min(refused, fits) > len(CASES) / 4, "the cases do not show both"


@pytest.mark.parametrize("amount", ["1e999999999", "9" * 30, "1" + "0" * 500])
def test_an_amount_beyond_all_nodes_is_lacking_at_once(amount: str) -> None:
    spec = {"containers": [{"resources": {"requests": {"memory": amount}}}] * 100}
    assert [each.resource for each in _lacking(spec, {"memory": "1Ei"})] == ["memory"]


def test_what_is_no_quantity_is_told_with_its_place() -> None:
    spec = {"initContainers": [{"resources": {"requests": {"memory": "1Gb"}}}]}
    with pytest.raises(DecodeError, match=r"initContainers\[0\].resources.requests\[memory\]: "):
        _resources_of(spec)


@cases
def test_amounts_read_as_people_write_them(resource: str, amount: int, text: str) -> None:
    assert amount_text(resource, amount) == text
