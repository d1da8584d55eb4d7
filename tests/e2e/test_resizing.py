"""In-place resize of a bound pod that evicts others: kube-scheduler asks about its own node again.

Alpha and off; one control plane of its own, since gates of kube-apiserver can't be turned while it
runs. There is no kubelet: the test writes the condition by which it defers a resize.
"""

from typing import Any, Final

import pytest

from tests.e2e.cluster import PODS, Cluster, cluster, scheduler_minor, sized
from tests.e2e.gates import knows_gate
from tests.e2e.test_groups import asked, asking, value
from tests.processes import until

GATE: Final = "InPlacePodVerticalScalingSchedulerPreemption"
FLAG: Final = f"--feature-gates={GATE}=true"


def defer_resize(where: Cluster, name: str, cpu: str) -> None:
    """Ask for more, and say as its kubelet does that there is no room now."""
    kind = "application/strategic-merge-patch+json"
    document = {"spec": {"containers": sized(cpu)}}
    assert where.request("PATCH", f"{PODS}/{name}/resize", document, kind)[0] == 200
    deferred = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "x"}
    conditions = [*where.pod(name)["status"]["conditions"], deferred]
    status = {"phase": "Running", "conditions": conditions}
    where.patch(f"{PODS}/{name}/status", {"status": status})


@pytest.mark.parametrize("drifted", [False, True], ids=["as it was", "its node lost the label"])
def test_a_bound_pod_gets_room_on_its_own_node_whatever_its_labels_say_today(drifted: bool) -> None:
    if not knows_gate(GATE, (1, scheduler_minor())):
        pytest.skip(f"no gate {GATE}")
    with cluster("--disable-admission-plugins=ServiceAccount", FLAG) as where:
        where.add_priorities()
        where.add_class("gvisor", "runsc", {"sandbox": "gvisor"})
        room = {"cpu": "4", "memory": "8Gi", "pods": "100"}
        here: dict[str, Any] = {"capacity": room, "allocatable": room, "handlers": ["", "runsc"]}
        where.add_node("own", {"sandbox": "gvisor"}, **here)
        with where.serving("--requeue-pods") as server, where.kube_scheduler(asking(server), FLAG):
            where.add_pod("grows", "gvisor", priorityClassName="high", containers=sized("1"))
            until(lambda: where.node_of("grows") == "own")
            kept: dict[str, Any] = {"terminationGracePeriodSeconds": 0}
            where.add_pod("gives-way", priorityClassName="low", containers=sized("3"), **kept)
            until(lambda: where.node_of("gives-way") == "own")
            where.add_node("other", {"sandbox": "gvisor"}, **here)
            if drifted:
                until(lambda: value(server, "runtimeclass_nodes") == 2)
                where.patch("/api/v1/nodes/own", {"metadata": {"labels": {"sandbox": None}}})
                until(lambda: value(server, "runtimeclass_nodes") == 1)
            filtered = asked(server, "filter")
            defer_resize(where, "grows", "3")
            until(lambda: where.request("GET", f"{PODS}/gives-way")[0] == 404)
            assert asked(server, "preempt") == 1
            # Asked once more now that there is room; the rest is the kubelet's.
            until(lambda: asked(server, "filter") > filtered)
            assert where.node_of("grows") == "own"
            assert value(server, "refused_pods") == 0
            assert value(server, "pods_rejected_total") == 0
            assert value(server, "requeued_pods_total") == 0
