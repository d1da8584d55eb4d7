"""Pods that kube-scheduler tries as a group: it asks about each pod, again in each placement.

A placement is a subset of the nodes (pkg/scheduler/schedule_one_podgroup.go, v1.36.2).
"""

from typing import Any

import orjson
import pytest

from extender.model.objects import Node, RuntimeClass
from extender.verbs.endpoint import FilterVerb
from extender.verbs.outcomes import MAX_MEMBERS, PLACEMENT_SECONDS, RefusedPods
from tests.asking import answered
from tests.clocks import Clock
from tests.services import service_over
from tests.stores import store_of

GVISOR = RuntimeClass("gvisor", "runsc", (("sandbox", "gvisor"),))
GROUP: dict[str, Any] = {"schedulingGroup": {"podGroupName": "train"}}


class Scheduler:
    """Asks about a pod as in placements of one node each."""

    def __init__(self) -> None:
        self.clock = Clock()
        store = store_of([Node("plain"), Node("sandboxed", {"sandbox": "gvisor"})], [GVISOR])
        self.refused = RefusedPods(self.clock)
        self._filter = FilterVerb(service_over(store, refused=self.refused))

    def passes(self, node: str, name: str = "web", **spec: Any) -> bool:
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        pod = {"metadata": metadata, "spec": {"runtimeClassName": "gvisor", **spec}}
        body = {"Pod": pod, "Nodes": None, "NodeNames": [node]}
        answer, _ = answered(self._filter, orjson.dumps(body))
        return bool(answer["NodeNames"])

    @property
    def remembered(self) -> int:
        return len(self.refused.pods())


def test_a_member_is_remembered_where_it_passes_in_no_placement() -> None:
    scheduler = Scheduler()
    assert not scheduler.passes("plain", **GROUP)
    assert scheduler.remembered == 1
    assert scheduler.passes("sandboxed", **GROUP)
    assert not scheduler.passes("plain", **GROUP)
    assert scheduler.remembered == 0
    scheduler.clock.now += PLACEMENT_SECONDS
    assert not scheduler.passes("plain", **GROUP)
    assert scheduler.remembered == 1


def test_that_one_member_passes_says_nothing_of_another() -> None:
    scheduler = Scheduler()
    assert scheduler.passes("sandboxed", "one", **GROUP)
    for _ in range(3):
        assert not scheduler.passes("plain", "two", **GROUP)
    assert [pod.name for pod in scheduler.refused.pods()] == ["two"]


@pytest.mark.parametrize("spec", [{}, {"schedulingGroup": None}, {"schedulingGroup": {}}], ids=str)
def test_other_pods_are_remembered_at_once(spec: dict[str, Any]) -> None:
    scheduler = Scheduler()
    assert scheduler.passes("sandboxed", **spec)
    assert not scheduler.passes("plain", **spec)
    assert scheduler.remembered == 1


def test_members_that_passed_are_bounded() -> None:
    scheduler = Scheduler()
    for number in range(MAX_MEMBERS + 10):
        assert scheduler.passes("sandboxed", f"p{number}", **GROUP)
    assert not scheduler.passes("plain", f"p{MAX_MEMBERS + 9}", **GROUP)
    assert scheduler.remembered == 0
    assert not scheduler.passes("plain", "p0", **GROUP)
    assert scheduler.remembered == 1
