"""Which pods are starting, which are stranded, and which have drifted."""

import json
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from extender.kubernetes.decoder import decode
from extender.kubernetes.pods import RawPod, placed_pod_of
from extender.model.objects import Handler, Node, RuntimeClass, Taint
from extender.model.pod_needs import Features
from extender.model.reasons import age_text
from extender.model.using_objects import PlacedPod, Wait
from extender.rules.node_checks import HandlerCheck, Policy
from extender.rules.pod_state import Placement, State, group_of, wait_of
from tests.cases_file import cases
from tests.stores import snapshot_of

LABELS: Final = {"sandbox": "kata", "zone": "a"}
KATA: Final = RuntimeClass(
    "kata",
    "kata",
    (("sandbox", "kata"), ("zone", "a")),
    overhead={"cpu": "1", "memory": "160Mi"},
    creation_timestamp="2026-03-01T00:00:00Z",
)
OVERHEAD: Final = {"cpu": "1000m", "memory": "160Mi"}
NODES: Final = [
    Node("good", LABELS, (), frozenset({Handler("kata", user_namespaces=True), Handler("")})),
    Node("bare", {}, (), frozenset({Handler("kata"), Handler("")})),
    Node("broken", LABELS, (), frozenset({Handler("runc"), Handler("")})),
    Node("silent", LABELS),
    Node("tainted", LABELS, (Taint("gpu", "", "NoSchedule"),), frozenset({Handler("kata")})),
]
SNAPSHOT: Final = snapshot_of(NODES, [KATA])


def judged(policy: Policy | None = None, **fields: Any) -> tuple[State, str]:
    usual = {"runtime_class_name": "kata", "node": "good", "overhead": OVERHEAD}
    return Placement(SNAPSHOT, policy or Policy()).judge(PlacedPod("d", "p", **usual | fields))


@cases
def test_a_pod_that_would_be_refused_today_is_stranded_and_one_made_otherwise_has_drifted(
    state: str, fields: dict[str, Any], said: str
) -> None:
    if "features" in fields:
        fields = fields | {"features": Features(**fields["features"])}
    found, reason = judged(**fields)
    assert found == state
    assert said in reason


@cases
def test_other_pods_run_and_wait(fields: dict[str, Any]) -> None:
    assert judged(**fields) == (State.RUNNING, "")
    assert judged(**fields | {"node": ""}) == (State.PENDING, "")


SINCE: Final = "2026-11-22T11:30:38Z"


@cases
def test_a_pod_on_a_node_without_a_sandbox_is_starting(
    phase: str, condition: list[Any] | None, node: str, state: State
) -> None:
    """condition: its type and status; an old kubelet may write [null]."""
    conditions: Any = condition
    if condition and condition[0]:
        kind, value = condition
        conditions = [{"type": kind, "status": value, "lastTransitionTime": SINCE}]
    spec = {"nodeName": node, "runtimeClassName": "kata", "overhead": OVERHEAD}
    status = {"phase": phase, "conditions": conditions}
    document = {"metadata": {"name": "p"}, "spec": spec, "status": status}
    pod = placed_pod_of(decode(json.dumps(document).encode(), RawPod))
    now = datetime(2026, 11, 22, 11, 44, 40, tzinfo=UTC)
    found, reason = Placement(SNAPSHOT, Policy(), now).judge(pod)
    assert found == state
    if found is State.STARTING:
        assert reason.startswith(f"no sandbox has started for 14m since {SINCE}: kubectl describe")
        assert ("no runtime handler" in reason) is (node == "broken")
    assert group_of(pod, {}).example.starting_since == ("" if found is State.STARTING else None)


@cases
def test_an_age_is_told_in_one_unit(since: str, age: str) -> None:
    assert age_text(since, datetime(2026, 11, 22, 12, tzinfo=UTC)) == age


def test_the_flags_of_matching_count() -> None:
    strict, off = Policy(HandlerCheck.STRICT), Policy(HandlerCheck.OFF)
    assert judged(strict, node="silent")[0] is State.STRANDED
    assert judged(off, node="broken")[0] is State.RUNNING


@pytest.mark.parametrize("node", ["", "good"])
def test_a_long_node_selector_is_not_kept(node: str) -> None:
    """--watch-pods, which counts Pending pods too, kept whole selectors: up to 1.4 MB a pod."""
    selector = {f"key-{number}": "v" for number in range(10_000)}
    pod = PlacedPod("d", "p", "kata", node, node_selector=selector, overhead=OVERHEAD)
    assert not group_of(pod, {"kata": KATA}).node_selector


def waits(message: str, runtime_class: RuntimeClass | None = KATA, **spec: Any) -> Wait:
    """What a pod that asks for LABELS waits for; judged by its group, as the gauges do it."""
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    spec = {"runtimeClassName": "kata", "nodeSelector": LABELS, **spec}
    raw = {"metadata": {"name": "p"}, "spec": spec, "status": {"conditions": [condition]}}
    pod = placed_pod_of(decode(json.dumps(raw).encode(), RawPod))
    return wait_of(group_of(pod, {}).example, runtime_class)


@cases
def test_a_pod_waits_for_what_kube_scheduler_said_last(message: str, why: str) -> None:
    assert waits(message) == why


def test_labels_that_no_node_has_are_the_class_s_unless_the_pod_asks_for_others() -> None:
    said = "0/5 nodes are available: 5 node(s) didn't match Pod's node affinity/selector."
    affinity: dict[str, Any] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}
    }
    assert waits(said) is Wait.RUNTIME_CLASS
    assert waits(said, nodeSelector={**LABELS, "disk": "ssd"}) is Wait.OTHER
    assert waits(said, affinity=affinity) is Wait.OTHER
    assert waits(said, None) is Wait.OTHER
    assert waits(said, RuntimeClass("kata", "kata")) is Wait.OTHER
