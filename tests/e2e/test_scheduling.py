"""The real kube-scheduler asks the real service about a real cluster."""

import re

from tests.e2e.cluster import Cluster
from tests.fakes.apiserver import NODES
from tests.processes import until

#: kube-scheduler's flush of pods that nothing wakes comes after 5 minutes: within this time it is
#: surely something else that has woken a pod.
WOKEN_SECONDS = 30.0

TIMES = 50


def test_each_reason_is_told_with_its_number_of_nodes(instead: Cluster) -> None:
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    instead.add_node("n1")
    instead.add_node("n2", {"sandbox": "gvisor"}, handlers=["", "runc"])
    instead.add_node("n3", {"sandbox": "gvisor"}, handlers=["", "runc"])
    instead.add_node("n4", {"sandbox": "gvisor"}, taints=[taint])
    instead.add_class("gvisor", "runsc", {"sandbox": "gvisor"})
    with instead.scheduling():
        instead.add_pod("web", "gvisor")
        message = instead.told("web")
    assert '2 nodes don\'t match RuntimeClass "gvisor" (no runtime handler "runsc")' in message
    assert '1 nodes don\'t match RuntimeClass "gvisor" (nodeSelector sandbox=gvisor)' in message
    assert "1 node(s) had untolerated taint" in message


def test_a_class_created_after_its_pod_wakes_it_with_requeue(instead: Cluster) -> None:
    """kube-scheduler since 1.32 tries a refused pod once more as soon as it has written the pod's
    condition. A class that comes between the two needs no requeueing: therefore several pods.
    """
    instead.add_node("n1", {"sandbox": "gvisor"})
    with instead.scheduling("--requeue-pods") as server:
        for number in range(5):
            pod, name = f"web{number}", f"gvisor{number}"
            instead.add_pod(pod, name)
            instead.refused(pod, "RuntimeClass not found")
            instead.add_class(name, "runsc", {"sandbox": "gvisor"})
            assert instead.bound(pod, WOKEN_SECONDS) == "n1"
        # Counted once the API server has answered; the pod may be bound before that. More than
        # once where kube-scheduler had the news before the service.
        counted = re.compile(rb"^runtimeclass_extender_requeued_pods_total [1-9]", re.MULTILINE)
        until(lambda: counted.search(server.request("GET", "/metrics")[1]) is not None)


def test_a_node_labelled_while_a_pod_is_pending_gets_it_each_time(instead: Cluster) -> None:
    """With the flag that every shipped manifest has. kube-scheduler and the service hear of the
    label at the same time; the service waits 30 ms for the news (unit/test_node_wait.py), which on
    a machine that is busy with other things is not always enough.
    """
    for number in range(TIMES):
        instead.add_node(f"n{number}")
        # A class each: the next pod must not profit from the label before.
        instead.add_class(f"gvisor{number}", "runsc", {"sandbox": f"gvisor{number}"})
    bound = 0
    with instead.scheduling("--requeue-pods"):
        for number in range(TIMES):
            pod, node = f"web{number}", f"n{number}"
            instead.add_pod(pod, f"gvisor{number}")
            instead.refused(pod, "nodeSelector")
            labels = {"sandbox": f"gvisor{number}"}
            instead.patch(f"{NODES}/{node}", {"metadata": {"labels": labels}})
            assert instead.bound(pod, WOKEN_SECONDS) == node
            bound += 1
    print(f"bound {bound} of {TIMES}")
    assert bound == TIMES


def test_a_class_created_with_its_pod_is_found_at_once(instead: Cluster) -> None:
    """Nothing wakes a pod that was refused for a class just created: it must not be refused."""
    instead.add_node("n1", {"sandbox": "gvisor"})
    with instead.scheduling():
        for number in range(20):
            instead.add_class(f"gvisor{number}", "runsc", {"sandbox": "gvisor"})
            instead.add_pod(f"web{number}", f"gvisor{number}")
        for number in range(20):
            assert instead.bound(f"web{number}", WOKEN_SECONDS) == "n1"
