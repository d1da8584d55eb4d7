"""Groups of pods on a kube-scheduler that places them together, which no version does by default.

One control plane of its own: gates of kube-apiserver can't be turned while it runs.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from extender.kubernetes.versions import Span
from tests.e2e.cluster import PODS, Cluster, cluster, scheduler_minor, sized
from tests.e2e.gates import knows_gate
from tests.fakes.apiserver import Json
from tests.processes import Server, until

_GATES: Final = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "GangScheduling")

#: The versions in which kube-apiserver serves PodGroups, by API version (k8s.io/api v0.37.1).
_API_VERSIONS: Final = {
    "scheduling.k8s.io/v1alpha2": Span((1, 36), (1, 36)),
    "scheduling.k8s.io/v1beta1": Span((1, 37)),
}

#: kube-scheduler asks extenders which victims of a pod of a group may be evicted; later it finds
#: victims for the whole group, and asks the filter only (pkg/scheduler/schedule_one.go, v1.37.1).
_ASKS_TO_PREEMPT: Final = Span((1, 35), (1, 36))

_ZONE: Final = "topology.kubernetes.io/zone"

MEMBERS: Final = 3


def gates() -> str:
    """The flag that switches groups on, in kube-apiserver and kube-scheduler."""
    version = (1, scheduler_minor())
    known = [f"{gate}=true" for gate in _GATES if knows_gate(gate, version)]
    return f"--feature-gates={','.join(known)}"


def groups_path() -> str:
    return f"/apis/{_api_version()}/namespaces/default/podgroups"


def _api_version() -> str:
    version = (1, scheduler_minor())
    found = [name for name, span in _API_VERSIONS.items() if span.holds(version)]
    if not found:
        pytest.skip("PodGroup exists since 1.36")
    return found[0]


@pytest.fixture(scope="module")
def where() -> Iterator[Cluster]:
    flags = ("--disable-admission-plugins=ServiceAccount", gates())
    with cluster(*flags, f"--runtime-config={_api_version()}=true") as started:
        assert started.request("GET", groups_path())[0] == 200
        yield started


@contextmanager
def scheduling(where: Cluster, *flags: str) -> Iterator[Server]:
    with where.serving(*flags) as server, where.kube_scheduler(asking(server), gates()):
        yield server


def asking(*servers: Server, by_name: bool = True) -> Json:
    """A configuration with which a kube-scheduler asks services one after the other."""
    verbs = {"filterVerb": "filter", "preemptVerb": "preempt", "nodeCacheCapable": by_name}
    extenders = [{"urlPrefix": server.url, **verbs} for server in servers]
    return {"percentageOfNodesToScore": 100, "extenders": extenders}


def value(server: Server, name: str, label: str = "") -> float:
    """The sum of a metric's samples that have a label, if any is named."""
    text = server.request("GET", "/metrics")[1].decode()
    labels = rf"\{{.*{label}.*\}}" if label else r"(?:\{.*\})?"
    pattern = rf"^runtimeclass_extender_{name}{labels} (\S+)$"
    return sum(map(float, re.findall(pattern, text, re.MULTILINE)))


def asked(server: Server, verb: str) -> float:
    """The requests of a verb."""
    return value(server, "requests_total", f'verb="{verb}"')


def add_group(where: Cluster, name: str, **group: Any) -> list[str]:
    """The names of its pods; a priorityClassName and containers are given to them too."""
    shared = {key: group.pop(key) for key in ("containers",) if key in group}
    if "priorityClassName" in group:
        shared["priorityClassName"] = group["priorityClassName"]
    spec = {"schedulingPolicy": {"gang": {"minCount": MEMBERS}}, **group}
    where.create(groups_path(), {"metadata": {"name": name}, "spec": spec})
    names = [f"{name}{number}" for number in range(MEMBERS)]
    for each in names:
        where.add_pod(each, "gvisor", schedulingGroup={"podGroupName": name}, **shared)
    return names


def asked_after_the_first(minor: int) -> int:
    """The members asked about where none passes; 1.37 stops where the group can't fit any more."""
    return 1 if minor >= 37 else MEMBERS


def test_a_group_that_passed_in_one_zone_is_not_counted_as_refused_in_the_others(
    where: Cluster,
) -> None:
    for zone in "abc":
        handlers = ["", "runsc"] if zone == "b" else ["", "runc"]
        where.add_node(f"n-{zone}", {_ZONE: zone}, handlers=handlers)
    where.add_class("gvisor", "runsc")
    with scheduling(where) as server:
        topology = {"schedulingConstraints": {"topology": [{"key": _ZONE}]}}
        names = add_group(where, "train", **topology)
        until(lambda: all(where.node_of(name) == "n-b" for name in names))
        # Members were tried in each zone; those in the two where none passes count as attempts.
        assert value(server, "pods_rejected_total") >= 2 * asked_after_the_first(where.minor)
        assert value(server, "refused_pods") == 0


def test_a_group_that_fits_nowhere_says_so_and_who_was_asked_about_is_remembered(
    where: Cluster,
) -> None:
    where.clear()
    where.add_node("n1", handlers=["", "runc"])
    where.add_class("gvisor", "runsc")
    with scheduling(where) as server:
        add_group(where, "serve")
        until(lambda: 'no runtime handler "runsc"' in where.message_of("serve0"))
        remembered = asked_after_the_first(where.minor)
        until(lambda: value(server, "refused_pods") == remembered)


def test_a_handler_that_appears_wakes_the_whole_group(where: Cluster) -> None:
    """kube-scheduler wakes nobody for it; one member whose annotation changes wakes all."""
    where.clear()
    where.add_node("n1", handlers=["", "runc"])
    where.add_class("gvisor", "runsc")
    with scheduling(where, "--requeue-pods") as server:
        names = add_group(where, "late")
        until(lambda: 'no runtime handler "runsc"' in where.message_of("late0"))
        until(lambda: value(server, "refused_pods") > 0)
        where.set_handlers("n1", "", "runsc")
        until(lambda: all(where.node_of(name) == "n1" for name in names), 60)


def test_a_group_evicts_nobody_from_a_node_that_the_filter_refuses(where: Cluster) -> None:
    """Since 1.37 kube-scheduler asks the filter only; preempt is for pods that are alone."""
    where.clear()
    where.add_priorities()
    room = {"cpu": str(MEMBERS), "memory": "256Gi", "pods": "100"}
    for node, handler in (("a-wrong", "runc"), ("b-right", "runsc"), ("c-wrong", "runc")):
        where.add_node(node, handlers=["", handler], capacity=room, allocatable=room)
    where.add_class("gvisor", "runsc")
    one = {"containers": sized("1")}
    alone: Json = {**one, "priorityClassName": "low", "terminationGracePeriodSeconds": 0}
    victims = [f"victim{number}" for number in range(3 * MEMBERS)]
    with scheduling(where) as server:
        for name in victims:
            where.add_pod(name, **alone)
        until(lambda: all(map(where.node_of, victims)))
        there = {name for name in victims if where.node_of(name) == "b-right"}
        names = add_group(where, "big", priorityClassName="high", **one)
        until(lambda: all(where.node_of(name) == "b-right" for name in names), 60)
        left = {each["metadata"]["name"] for each in where.get(PODS)["items"]}
        assert set(victims) - left == there
        assert asked(server, "filter") >= 2 * MEMBERS
        if not _ASKS_TO_PREEMPT.holds((1, where.minor)):
            assert asked(server, "preempt") == 0
