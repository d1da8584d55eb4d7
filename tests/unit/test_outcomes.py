"""Pods that got no node: which of them are remembered, which facts, and how long."""

from dataclasses import replace
from typing import Any

import pytest

from extender.model.objects import Pod
from extender.model.pod_needs import MAX_FEW, Toleration
from extender.verbs.outcomes import FORGET_SECONDS, MAX_NAME, MAX_TOLD, RefusedPods
from tests.clocks import Clock

POD = Pod("default", "web", "u", "kata")


@pytest.mark.parametrize("field", ["namespace", "name", "uid", "runtime_class_name"])
def test_a_pod_of_names_that_no_object_can_have_is_not_remembered(field: str) -> None:
    for size in (MAX_NAME, MAX_NAME + 1):
        changed: dict[str, Any] = {field: "x" * size}
        refused, pod = RefusedPods(Clock()), replace(POD, **changed)
        assert [refused.refuse(pod), refused.refuse(pod)] == [False, size == MAX_NAME]
        assert len(refused) == (size == MAX_NAME)


def test_a_refusal_is_forgotten_once_it_is_older_than_ten_minutes() -> None:
    clock = Clock()
    refused = RefusedPods(clock)
    refused.refuse(POD)
    clock.now += FORGET_SECONDS
    assert len(refused.pods()) == 1
    clock.now += 1
    assert len(refused.pods()) == 0


def test_reasons_are_kept_of_the_pods_that_were_refused_last() -> None:
    refused = RefusedPods(Clock())
    for number in range(MAX_TOLD + 1):
        refused.refuse(replace(POD, uid=str(number)), ((number, "text"),))
    assert [refused.reasons(str(number)) for number in (0, 1)] == [(), ((1, "text"),)]


def test_small_needs_are_kept_and_shared() -> None:
    long = replace(POD, tolerations=(Toleration("t", "Exists"),) * (MAX_FEW + 1))
    refused = RefusedPods(Clock(), keep_needs=True)
    for number, pod in enumerate((long, POD, POD)):
        refused.refuse(replace(pod, uid=str(number)))
    needs = [each.needs for each in refused.pods()]
    assert needs[0] is None
    assert needs[1] is needs[2] == POD.needs
    refused = RefusedPods(Clock())
    refused.refuse(POD)
    assert refused.pods()[0].needs is None
