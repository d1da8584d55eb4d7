"""Which remembered pods a change wakes."""

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from extender.cluster.api_connection import ApiConnection
from extender.cluster.api_objects import Response
from extender.cluster.node_and_class_feeds import NodeFeed
from extender.cluster.requeue import Requeue, _Changes, woken
from extender.cluster.snapshot_store import SnapshotStore
from extender.objects import (
    MAX_FEW,
    Features,
    Handler,
    KubeletNeeds,
    Node,
    Pod,
    RuntimeClass,
    Taint,
    Toleration,
)
from extender.predicates.node_checks import Policy
from extender.refused_pods import RefusedPods
from tests.fakes.apiserver import FakeApiServer, status_document
from tests.fakes.following import config_for
from tests.processes import until
from tests.stores import change_nodes

GVISOR = RuntimeClass("gvisor", "runsc", (("sandbox", "gvisor"),))


def a_pod(name: str = "web", runtime_class: str = "gvisor", **more: object) -> Pod:
    return Pod("default", name, f"uid-{name}", runtime_class, **more)  # type: ignore[arg-type]


def remembered(*pods: Pod) -> RefusedPods:
    refused = RefusedPods(lambda: 0.0, keep_requirements=True)
    for pod in pods:
        refused.refuse(pod)
    return refused


class Following:
    """A store whose changes are noted."""

    def __init__(self, *nodes: Node, classes: tuple[RuntimeClass, ...] = (GVISOR,)) -> None:
        self.store = SnapshotStore()
        self.store.replace_all(nodes, classes)
        self.changes = _Changes()
        self.store.subscribe(self.changes.add)

    def woken(self, refused: RefusedPods) -> list[str]:
        changes, self.changes.classes = self.changes, set(self.changes.classes)
        found = woken(refused.pods(), changes, self.store.snapshot, Policy())
        return [pod.name for pod in found]


def test_a_class_that_appears_wakes_its_pods_where_a_node_matches() -> None:
    following = Following(Node("n1", {"sandbox": "gvisor"}), classes=())
    following.store.replace_runtime_classes([GVISOR])
    assert following.woken(remembered(a_pod(), a_pod("other", "kata"))) == ["web"]


def test_a_class_that_appears_wakes_nobody_where_no_node_matches() -> None:
    following = Following(Node("n1"), classes=())
    following.store.replace_runtime_classes([GVISOR])
    assert following.woken(remembered(a_pod())) == []


def test_a_class_that_changes_wakes_its_pods_and_no_others() -> None:
    """A class that stays is no news: the nodes that match it are full."""
    kata = RuntimeClass("kata", "kata", (("sandbox", "kata"),))
    nodes = Node("n1", {"sandbox": "gvisor"}), Node("n2", {"sandbox": "kata"})
    following = Following(*nodes, classes=(replace(GVISOR, node_selector=(("a", "b"),)), kata))
    following.store.replace_runtime_classes([GVISOR, kata])
    assert following.woken(remembered(a_pod(), a_pod("other", "kata"))) == ["web"]


def test_a_class_that_changes_wakes_nobody_for_a_node_that_has_gone() -> None:
    """Its shape is still there, and no node has it."""
    following = Following(Node("n1", {"sandbox": "gvisor"}), Node("n2"))
    change_nodes(following.store, [], ["n1"])
    following.store.replace_runtime_classes([replace(GVISOR, overhead={"cpu": "1"})])
    assert following.woken(remembered(a_pod())) == []


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param({}, id="remembered whole"),
        pytest.param(
            {"tolerations": (Toleration("t", "Exists"),) * (MAX_FEW + 1)},
            id="too much to be remembered",
        ),
    ],
)
def test_of_more_changes_than_are_remembered_none_is_lost(
    pod: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All nodes are looked at instead."""
    monkeypatch.setattr("extender.cluster.requeue.MAX_TRANSITIONS", 2)
    following = Following(*(Node(f"n{number}") for number in range(3)))
    change_nodes(following.store, [Node("n0", {"sandbox": "gvisor"})])
    for number in range(1, 3):
        taint = Taint(f"taint-{number}", "", "NoSchedule")
        change_nodes(following.store, [Node(f"n{number}", {}, (taint,))])
    assert not following.changes.transitions
    assert following.woken(remembered(a_pod(**pod), a_pod("other", "kata"))) == ["web"]


def test_a_node_that_begins_to_match_wakes() -> None:
    following = Following(Node("n1"))
    change_nodes(following.store, [Node("n1", {"sandbox": "gvisor"})], [])
    assert following.woken(remembered(a_pod())) == ["web"]


def test_a_new_node_that_matches_wakes() -> None:
    following = Following(Node("n1"))
    change_nodes(following.store, [Node("n2", {"sandbox": "gvisor"})], [])
    assert following.woken(remembered(a_pod())) == ["web"]


def test_a_node_that_matched_before_wakes_nobody() -> None:
    """Else each change of a node that is full would make kube-scheduler try in vain."""
    following = Following(Node("n1", {"sandbox": "gvisor"}))
    taint = Taint("t", "", "NoSchedule")
    tolerant = a_pod(tolerations=(Toleration("t", "Exists"),))
    change_nodes(following.store, [Node("n1", {"sandbox": "gvisor"}, (taint,))], [])
    assert following.woken(remembered(tolerant)) == []


def test_a_handler_that_appears_wakes() -> None:
    labels = {"sandbox": "gvisor"}
    following = Following(Node("n1", labels, (), frozenset({Handler("runc")})))
    handlers = frozenset({Handler("runc"), Handler("runsc")})
    change_nodes(following.store, [Node("n1", labels, (), handlers)], [])
    assert following.woken(remembered(a_pod())) == ["web"]


def told(
    *, groups: bool = True, users: bool = True, version: str = "v1.36.2", system: str = "linux"
) -> Raw:
    """A Node as a watch brings it; what a heartbeat changes is in it too."""
    features = {"userNamespaces": users}
    status = {
        "nodeInfo": {"kubeletVersion": version, "operatingSystem": system},
        "features": {"supplementalGroupsPolicy": groups},
        "runtimeHandlers": [{"name": name, "features": features} for name in ("", "runsc")],
        "conditions": [{"type": "Ready", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}],
    }
    metadata = {"name": "n1", "labels": {"sandbox": "gvisor"}}
    return Raw(json.dumps({"metadata": metadata, "status": status}).encode())


NEEDS_USERS = a_pod("users", "", features=Features(user_namespaces=True))
NEEDS_GROUPS = a_pod("groups", kubelet_needs=KubeletNeeds(strict_groups=True))
NEEDS_WINDOWS = a_pod("windows", "", kubelet_needs=KubeletNeeds(system="windows"))


@pytest.mark.parametrize(
    ("before", "after", "woken_pods"),
    [
        pytest.param(told(users=False), told(), ["users"], id="features of a handler"),
        pytest.param(told(groups=False), told(), ["groups"], id="features of the node"),
        pytest.param(told(), told(system="windows"), ["windows"], id="another system"),
        pytest.param(
            told(groups=False), told(groups=False, version="v1.32.9"), ["groups"], id="downgraded"
        ),
        pytest.param(told(), told(groups=False), [], id="features that are lost"),
        pytest.param(told(), told(version="v1.36.3"), [], id="upgraded"),
    ],
)
def test_what_a_node_tells_of_itself_wakes_whom_it_lets_pass(
    before: Raw, after: Raw, woken_pods: list[str]
) -> None:
    """kube-scheduler wakes no pod for a change of status.features or status.runtimeHandlers."""
    following = Following()
    feed = NodeFeed(following.store)
    feed.begin()
    feed.collect(before)
    feed.commit()
    following.changes.transitions.clear()
    feed.change(after, deleted=False)
    feed.flush()
    assert following.woken(remembered(NEEDS_USERS, NEEDS_GROUPS, NEEDS_WINDOWS)) == woken_pods


def test_an_upgrade_that_makes_no_difference_makes_no_snapshot() -> None:
    """As a heartbeat makes none."""
    store = SnapshotStore()
    feed = NodeFeed(store)
    feed.begin()
    feed.collect(told(version="v1.34.0"))
    feed.commit()
    before = store.snapshot
    feed.change(told(version="v1.36.2"), deleted=False)
    feed.flush()
    assert store.snapshot is before


def test_a_pod_that_conflicts_with_its_class_is_left_alone() -> None:
    following = Following(Node("n1"))
    change_nodes(following.store, [Node("n1", {"sandbox": "gvisor"})], [])
    pod = a_pod(node_selector={"sandbox": "kata"})
    assert following.woken(remembered(pod)) == []


def test_a_pod_with_too_many_tolerations_to_be_remembered_is_tried() -> None:
    following = Following(Node("n1"))
    change_nodes(following.store, [Node("n1", {"x": "y"})], [])
    pod = a_pod(tolerations=(Toleration("t", "Exists"),) * (MAX_FEW + 1))
    assert following.woken(remembered(pod)) == []
    change_nodes(following.store, [Node("n1", {"sandbox": "gvisor"})], [])
    assert following.woken(remembered(pod)) == ["web"]


def test_pods_that_want_the_same_share_what_is_remembered() -> None:
    one, two = remembered(a_pod("one"), a_pod("two")).pods()
    assert one.requirements is two.requirements


class NoConnection:
    """Nobody is to be patched."""

    def get(self, path: str, query: dict[str, str], *, silence: float) -> Response:
        raise AssertionError(path)

    def merge_patch(self, path: str, body: bytes, *, silence: float) -> Response:
        raise AssertionError(path)

    def rejected(self) -> None:
        raise AssertionError

    def interrupt(self) -> None:
        pass


def test_looking_at_the_pods_takes_a_tenth_of_the_time_at_the_most() -> None:
    """However many changes come: what comes while it rests is looked at together afterwards."""
    seconds = count(100.0, 1.0)
    requeue = Requeue(
        SnapshotStore(),
        remembered(a_pod()),
        Policy(),
        NoConnection(),
        lambda: None,
        clock=lambda: next(seconds),
    )
    requeue._look(_Changes())
    began, ended = 102.0, 103.0
    assert requeue._next_look - ended == 9 * (ended - began)


def patches_after(
    statuses: Sequence[int], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, int]:
    """How often a pod is patched whose patches are answered so and then with 200, and successes.

    A pod that is woken afterwards, and is patched, tells that the first one is done with.
    """
    monkeypatch.setattr("extender.cluster.requeue.RETRY_SECONDS", 0.001)
    first, last = (f"{PODS_OF_DEFAULT}/{name}" for name in ("first", "last"))
    succeeded: list[None] = []

    def patched(path: str) -> int:
        return sum(each.path == path for each in api.requests)

    with FakeApiServer() as api:
        answers = ({"json": status_document(each), "status": each} for each in statuses)
        api.scripts[first] = deque([*answers, {"json": {"kind": "Pod"}}])
        store, refused = SnapshotStore(), remembered(a_pod("first"), a_pod("last", "other"))
        store.replace_all([Node("n1", {"sandbox": "gvisor"})], [])
        requeue = Requeue(
            store,
            refused,
            Policy(),
            ApiConnection(config_for(api, folder)),
            lambda: succeeded.append(None),
        )
        requeue.start()
        try:
            store.replace_runtime_classes([GVISOR])
            until(lambda: patched(first) >= len(statuses))
            store.replace_runtime_classes([GVISOR, replace(GVISOR, name="other")])
            until(lambda: patched(last) == 1)
            until(lambda: len(succeeded) == 1 + (patched(first) > len(statuses)))
        finally:
            requeue.stop()
        return patched(first), len(succeeded)


PODS_OF_DEFAULT = "/api/v1/namespaces/default/pods"
RETRIED = (401, 429, 500, 503)


@pytest.mark.parametrize("status", RETRIED)
def test_a_patch_that_another_try_may_help_is_tried_again(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, succeeded = patches_after([status, status], tmp_path, monkeypatch)
    assert (asked, succeeded) == (3, 2)


def test_after_five_tries_a_pod_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, succeeded = patches_after([503] * 5, tmp_path, monkeypatch)
    assert (asked, succeeded) == (5, 1)


@pytest.mark.parametrize("status", [403, 404, 409])
def test_a_patch_that_no_other_try_helps_is_not_tried_again(
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked, succeeded = patches_after([status], tmp_path, monkeypatch)
    assert (asked, succeeded) == (1, 1)
    assert ("missing permission: patch pods" in caplog.text) is (status == 403)
