"""Pods that kube-scheduler tries as a group: asked about one by one, and again in each placement.

As pkg/scheduler/schedule_one_podgroup.go does it (v1.36.2): a placement is a part of the nodes.
"""

from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from extender.cluster.snapshot_store import SnapshotStore
from extender.http.health import Health
from extender.http.service import Service
from extender.http.verb_routes import FilterRoute
from extender.metrics import Metrics
from extender.objects import Node, RuntimeClass
from extender.refused_pods import MAX_MEMBERS, PLACEMENT_SECONDS, RefusedPods
from tests.clocks import Clock

GVISOR = RuntimeClass("gvisor", "runsc", (("sandbox", "gvisor"),))
GROUP: dict[str, Any] = {"schedulingGroup": {"podGroupName": "train"}}


@dataclass
class Scheduler:
    """Asks about a pod, node by node as in placements of one node each."""

    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        store = SnapshotStore()
        store.replace_all([Node("plain"), Node("sandboxed", {"sandbox": "gvisor"})], [GVISOR])
        self.refused = RefusedPods(self.clock)
        health = Health(lambda: store.snapshot)
        self._filter = FilterRoute(Service(store, Metrics(), health, self.refused))

    def passes(self, node: str, name: str = "web", **spec: Any) -> bool:
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        pod = {"metadata": metadata, "spec": {"runtimeClassName": "gvisor", **spec}}
        body = {"Pod": pod, "Nodes": None, "NodeNames": [node]}
        chunks, _ = self._filter(orjson.dumps(body))
        return bool(orjson.loads(b"".join(chunks))["NodeNames"])

    @property
    def remembered(self) -> int:
        return len(self.refused.pods())


def test_a_member_that_passed_in_one_placement_is_not_without_a_node_in_the_next() -> None:
    scheduler = Scheduler()
    assert not scheduler.passes("plain", **GROUP)
    assert scheduler.remembered == 1
    assert scheduler.passes("sandboxed", **GROUP)
    assert not scheduler.passes("plain", **GROUP)
    assert scheduler.remembered == 0


def test_a_member_that_is_refused_later_is() -> None:
    scheduler = Scheduler()
    assert scheduler.passes("sandboxed", **GROUP)
    scheduler.clock.now += PLACEMENT_SECONDS
    assert not scheduler.passes("plain", **GROUP)
    assert scheduler.remembered == 1


def test_a_member_that_passes_nowhere_is_remembered() -> None:
    scheduler = Scheduler()
    assert scheduler.passes("sandboxed", "one", **GROUP)
    for _ in range(3):
        assert not scheduler.passes("plain", "two", **GROUP)
    assert [pod.name for pod in scheduler.refused.pods()] == ["two"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="no group"),
        pytest.param({"schedulingGroup": None}, id="null"),
        pytest.param({"schedulingGroup": {}}, id="a group of no name"),
        pytest.param({"schedulingGroup": {"podGroupName": "x" * 254}}, id="no name of an object"),
    ],
)
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
