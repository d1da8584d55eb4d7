"""Static fit is what kube-scheduler's NodeResourcesFit says of an empty node."""

import json
import random
from typing import Any, Final

import pytest

from extender.decoding.decoder import DecodeError, decode
from extender.decoding.resource_amounts import RawResourcesPod, amounts_of, resources_of
from extender.objects import MARK
from extender.predicates.resource_fit import (
    Insufficient,
    amount_text,
    counted,
    insufficient,
    request_of,
)
from tests.conformance.in_tree_fit import lacking

PODS: Final = 12_000
NODES_PER_POD: Final = 2

_AMOUNTS: Final = {
    "cpu": ["0", "1m", "100m", "1", "1500m", "0.0001", "2", "333u", "2.5", "4"],
    "memory": ["0", "1", "64Mi", "160Mi", "1Gi", "1.5Gi", "1G", "999999999", "2Gi", "500m", "1e9"],
    "ephemeral-storage": ["0", "1Gi", "10G", "100Mi"],
    "hugepages-2Mi": ["0", "2Mi", "4Mi", "64Mi"],
    "example.com/gpu": ["0", "1", "2"],
    "example.kubernetes.io/odd": ["1", "3"],
    "attachable-volumes-csi-x": ["1", "2"],
    "storage": ["1Gi"],
    "pods": ["0", "1", "110"],
}


def _resources(chance: random.Random, most: int = 4) -> dict[str, str]:
    names = chance.sample(sorted(_AMOUNTS), chance.randrange(most))
    return {name: chance.choice(_AMOUNTS[name]) for name in names}


def _container(chance: random.Random, *, init: bool = False) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c"}
    if chance.random() < 0.9:
        container["resources"] = {"requests": _resources(chance)}
    if init and chance.random() < 0.5:
        container["restartPolicy"] = chance.choice(["Always", "Always", "Never"])
    return container


def _spec(chance: random.Random) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [_container(chance) for _ in range(chance.randrange(4))]}
    if chance.random() < 0.6:
        spec["initContainers"] = [
            _container(chance, init=True) for _ in range(chance.randrange(1, 5))
        ]
    if chance.random() < 0.4:
        spec["resources"] = {"requests": _resources(chance)}
    if chance.random() < 0.5:
        spec["overhead"] = _resources(chance, 3)
    return spec


def _lacking(spec: dict[str, Any], allocatable: dict[str, str]) -> list[Insufficient]:
    pod = decode(json.dumps({"spec": spec}).encode(), RawResourcesPod)
    return insufficient(request_of(resources_of(pod)), counted(amounts_of(allocatable, "")))


def test_random_pods_lack_on_random_nodes_what_kube_scheduler_says_they_lack() -> None:
    chance = random.Random(1936)
    refused = fits = 0
    for _ in range(PODS):
        spec = _spec(chance)
        for _ in range(NODES_PER_POD):
            node = {
                name: chance.choice(amounts)
                for name, amounts in _AMOUNTS.items()
                if name == "pods" or chance.random() < 0.8
            }
            found = _lacking(spec, node)
            expected = lacking(spec, node)
            assert {each.resource for each in found} == expected, (spec, node)
            assert len(found) == len(expected)
            refused += bool(expected)
            fits += not expected
    assert min(refused, fits) > PODS / 4, "the pods do not show both"


def test_the_overhead_is_told_from_what_the_pod_asks_for_itself() -> None:
    spec = {
        "containers": [{"resources": {"requests": {"memory": "1888Mi"}}}],
        "overhead": {"memory": "160Mi"},
    }
    (found,) = _lacking(spec, {"memory": "1Gi"})
    texts = [amount_text("memory", each) for each in (found.asked, found.overhead)]
    assert (*texts, amount_text("memory", found.allocatable)) == ("2Gi", "160Mi", "1Gi")


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        pytest.param(
            {"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, 2000, id="a container's"
        ),
        pytest.param({"resources": {"limits": {"cpu": "3"}}}, 3000, id="the pod's"),
        pytest.param(
            {
                "resources": {"limits": {"cpu": "3"}},
                "containers": [{"resources": {"requests": {"cpu": "1"}}}],
            },
            1000,
            id="the pod's, where a container asks",
        ),
    ],
)
def test_a_limit_stands_for_a_request_that_is_not_there(spec: dict[str, Any], asked: int) -> None:
    pod = decode(json.dumps({"spec": spec}).encode(), RawResourcesPod)
    assert request_of(resources_of(pod)).total == {"cpu": asked}


def test_the_mark_of_our_own_is_no_resource_that_a_node_could_lack() -> None:
    spec = {"containers": [{"resources": {"requests": {MARK: "1"}}}]}
    assert _lacking(spec, {"cpu": "1"}) == []


@pytest.mark.parametrize("amount", ["1e999999999", "9" * 30, "1" + "0" * 5000])
def test_an_amount_beyond_all_nodes_is_lacking_at_once(amount: str) -> None:
    spec = {"containers": [{"resources": {"requests": {"memory": amount}}}] * 100}
    assert [each.resource for each in _lacking(spec, {"memory": "1Ei"})] == ["memory"]


def test_what_is_no_quantity_is_told_with_its_place() -> None:
    pod = {"spec": {"initContainers": [{"resources": {"requests": {"memory": "1Gb"}}}]}}
    with pytest.raises(DecodeError, match=r"initContainers\[0\].resources.requests\[memory\]: "):
        resources_of(decode(json.dumps(pod).encode(), RawResourcesPod, "Pod"), "Pod")


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 250, "250m"),
        ("cpu", 2000, "2"),
        ("memory", 0, "0"),
        ("memory", 160 * 2**20, "160Mi"),
        ("memory", 1000, "1000"),
        ("memory", 2**64, "16Ei"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("example.com/gpu", 1024, "1024"),
    ],
)
def test_amounts_read_as_people_write_them(resource: str, amount: int, text: str) -> None:
    assert amount_text(resource, amount) == text
