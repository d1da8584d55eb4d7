"""Groups of pods on a kube-scheduler that places them together, which is alpha in 1.36.

One control plane of its own: gates of kube-apiserver can't be turned while it runs.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from tests.e2e.cluster import Cluster, cluster
from tests.processes import Server, running, until

_GATES: Final = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
_SCHEDULER_GATES: Final = f"{_GATES},GangScheduling=true"
_GROUPS: Final = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
_ZONE: Final = "topology.kubernetes.io/zone"

MEMBERS: Final = 3


@pytest.fixture(scope="module")
def where() -> Iterator[Cluster]:
    flags = ("--disable-admission-plugins=ServiceAccount", _GATES)
    try:
        with cluster(*flags, "--runtime-config=scheduling.k8s.io/v1alpha2=true") as started:
            if started.request("GET", _GROUPS)[0] != 200:
                pytest.skip("no PodGroup v1alpha2")
            yield started
    except AssertionError as error:
        pytest.skip(f"no such gates: {error}")


@contextmanager
def scheduling(where: Cluster) -> Iterator[Server]:
    kubeconfig = str(where.kubeconfig("extender"))
    with running("serve", "--bind", "127.0.0.1:0", "--kubeconfig", kubeconfig) as server:
        until(lambda: server.request("GET", "/readyz")[0] == 200)
        extender = {
            "urlPrefix": server.url,
            "filterVerb": "filter",
            "preemptVerb": "preempt",
            "nodeCacheCapable": True,
        }
        with where.kube_scheduler({"extenders": [extender]}, _SCHEDULER_GATES):
            yield server


def value(server: Server, name: str) -> float:
    """The sum of a metric's samples."""
    text = server.request("GET", "/metrics")[1].decode()
    pattern = rf"^runtimeclass_extender_{name}(?:\{{.*\}})? (\S+)$"
    return sum(map(float, re.findall(pattern, text, re.MULTILINE)))


def add_group(where: Cluster, name: str, **constraints: Any) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": MEMBERS}}, **constraints}
    where.create(_GROUPS, {"metadata": {"name": name}, "spec": spec})
    for number in range(MEMBERS):
        where.add_pod(f"{name}{number}", "gvisor", schedulingGroup={"podGroupName": name})


def test_a_group_that_passed_in_one_zone_is_not_counted_as_refused_in_the_others(
    where: Cluster,
) -> None:
    for zone in "abc":
        handlers = ["", "runsc"] if zone == "b" else ["", "runc"]
        where.add_node(f"n-{zone}", {_ZONE: zone}, handlers=handlers)
    where.add_class("gvisor", "runsc")
    with scheduling(where) as server:
        topology = {"schedulingConstraints": {"topology": [{"key": _ZONE}]}}
        add_group(where, "train", **topology)
        names = [f"train{number}" for number in range(MEMBERS)]
        until(lambda: all(where.node_of(name) == "n-b" for name in names))
        # All members were tried in each zone; those where none passes count as attempts.
        assert value(server, "pods_rejected_total") >= MEMBERS
        assert value(server, "refused_pods") == 0


def test_a_group_that_fits_nowhere_says_so_and_each_member_is_remembered(where: Cluster) -> None:
    where.clear()
    where.add_node("n1", handlers=["", "runc"])
    where.add_class("gvisor", "runsc")
    with scheduling(where) as server:
        add_group(where, "serve")
        until(lambda: 'no runtime handler "runsc"' in where.message_of("serve0"))
        until(lambda: value(server, "refused_pods") == MEMBERS)
