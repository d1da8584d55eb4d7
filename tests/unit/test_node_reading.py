"""Nodes: manifests, requests and watches give the same node."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from extender.cluster.node_and_class_feeds import NodeFeed
from extender.cluster.snapshot_store import SnapshotStore
from extender.kubernetes.decoder import DecodeError
from extender.kubernetes.nodes import NodeReader
from extender.model.objects import Pod, RuntimeClass
from extender.model.pod_needs import Features
from extender.rules.node_checks import Policy, Requirements
from extender.rules.node_shape import Shape, shape_of
from extender.rules.snapshot import Snapshot
from tests.cases_file import cases
from tests.stores import node_of, raw


def node(system: str | None, label: str | None, **metadata: object) -> Any:
    labels = {"a": "windows"} if label is None else {"kubernetes.io/os": label}
    info = {"operatingSystem": system, "containerRuntimeVersion": "containerd://2.1.4"}
    return {
        "metadata": {"name": "n", "labels": labels, **metadata},
        "status": {"runtimeHandlers": [{"name": ""}, {"name": "h"}], "nodeInfo": info},
    }


def followed(*documents: Any) -> list[Snapshot]:
    """The snapshots after a node and each of its changes, as a watch brings them."""
    store = SnapshotStore()
    feed = NodeFeed(store)
    found = []
    for document in documents:
        feed.change(raw(document), deleted=False)
        feed.flush()
        found.append(store.snapshot)
    return found


def shapes_of(document: Any) -> list[Shape | None]:
    """The shape of a node from manifests or a request, and from a watch."""
    return [shape_of(node_of(document), ()), followed(document)[-1].shape(b"n")]


@cases
def test_a_change_of_system_is_a_change_of_shape(
    before: tuple[str | None, str], after: tuple[str | None, str]
) -> None:
    shapes = followed(node(*before), node(*after))[-1]
    assert shapes.shape(b"n") == shape_of(node_of(node(*after)), ())


@cases
def test_versions_that_make_no_difference_make_no_shapes(one: Any, other: Any) -> None:
    """A cluster that is being upgraded has as few shapes as before."""
    documents = [node("linux", None), node("linux", None)]
    for document, info in zip(documents, (one, other), strict=True):
        document["status"]["nodeInfo"] |= info
    assert len({*shapes_of(documents[0]), *shapes_of(documents[1])}) == 1


@cases
def test_conditions_that_can_not_be_read_are_none(conditions: object) -> None:
    node = node_of({"metadata": {"name": "a"}, "status": {"conditions": conditions}})
    assert (node.name, node.conditions) == ("a", frozenset())


def test_a_node_that_tells_nothing_has_the_plainest_shape() -> None:
    assert shape_of(node_of({"metadata": {"name": "n"}}), ()) == Shape()


def test_a_node_that_can_not_be_read_is_refused_with_the_place() -> None:
    with pytest.raises(DecodeError, match=r"Node.status.nodeInfo: expected `object`"):
        NodeReader().read(b'{"status": {"nodeInfo": 1}}', "Node")
    with pytest.raises(DecodeError, match=r"Node.metadata.labels\[...\]: expected `str`"):
        NodeReader().read(b'{"metadata": {"labels": {"kubernetes.io/os": 1}}}', "Node")


LONG = "x" * 1_000_000


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"conditions": [{"type": LONG}]}, id="a long type of a condition"),
        pytest.param({"conditions": [{"status": LONG}]}, id="a long status of a condition"),
        pytest.param({"conditions": [{"type": "Ready", "status": "True"}] * 20_000}, id="repeated"),
        pytest.param({"conditions": [{}] * 50_000}, id="empty conditions"),
        pytest.param({"conditions": [None] * 100_000}, id="nulls"),
        pytest.param({"runtimeHandlers": [{"name": LONG}]}, id="a long handler"),
        pytest.param({"runtimeHandlers": [{"name": LONG[:1000]}] * 1_000}, id="many handlers"),
        pytest.param({"features": {LONG: True}}, id="a long feature"),
        pytest.param({"declaredFeatures": [LONG]}, id="a long declared feature"),
        pytest.param({"nodeInfo": {"operatingSystem": LONG}}, id="a long system"),
        pytest.param({"nodeInfo": {"kubeletVersion": LONG}}, id="a long version"),
        pytest.param({"allocatable": {LONG: "1"}}, id="a long resource"),
    ],
)
def test_a_kubelet_can_not_fill_the_memory_by_its_heartbeats(status: dict[str, Any]) -> None:
    """Little is kept of a node, so each heartbeat may say something else."""
    first = {"conditions": {"type": "T%d", "status": "True"}, "runtimeHandlers": {"name": "h%d"}}
    lists = {key: [each, *status.get(key, [])] for key, each in first.items()}
    metadata = {"name": "a", "resourceVersion": "%d"}
    template = json.dumps({"metadata": metadata, "status": status | lists})
    feed = NodeFeed(SnapshotStore())
    tracemalloc.start()
    try:
        for number in range(20):
            body = template.replace("%d", f"{number}")
            feed.change(Raw(body.encode()), deleted=False)
            feed.flush()
        assert tracemalloc.get_traced_memory()[0] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_node_of_long_traits_does_not_change_with_each_heartbeat() -> None:
    handlers = [{"name": f"handler-{number}"} for number in range(1000)]

    def told(version: str) -> Any:
        metadata = {"name": "a", "resourceVersion": version}
        return {"metadata": metadata, "status": {"runtimeHandlers": handlers}}

    before, after = followed(told("1"), told("2"))
    assert before is after


# If a node lists a handler twice, the first entry counts, as in the kubelet

NAMES = ["", "runsc", "kata"]

features = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {}, optional={"userNamespaces": st.booleans(), "recursiveReadOnlyMounts": st.booleans()}
    ),
)
handlers = st.lists(
    st.one_of(
        st.none(),
        st.fixed_dictionaries(
            {},
            optional={"name": st.one_of(st.none(), st.sampled_from(NAMES)), "features": features},
        ),
    ),
    max_size=6,
)


def first_of(listed: list[dict[str, Any] | None], name: str) -> dict[str, Any] | None:
    """The handler that HandlerSupportsUserNamespaces finds (kubelet_getters.go, v1.36.2)."""
    return next(
        (each for each in (i or {} for i in listed) if (each.get("name") or "") == name), None
    )


@given(
    listed=handlers,
    name=st.sampled_from(NAMES),
    needed=st.builds(Features, st.booleans(), st.booleans()),
)
def test_of_handlers_listed_twice_the_first_decides(
    listed: list[dict[str, Any] | None], name: str, needed: Features
) -> None:
    """For all lists: a pod passes if the first entry of its handler has the features it needs."""
    node = node_of({"metadata": {"name": "n1"}, "status": {"runtimeHandlers": listed}})
    found = first_of(listed, name)
    offered = (found or {}).get("features") or {}
    has_all = (not needed.user_namespaces or offered.get("userNamespaces", False)) and (
        not needed.recursive_read_only_mounts or offered.get("recursiveReadOnlyMounts", False)
    )
    expected = has_all and (found is not None or not listed)
    runtime_class = RuntimeClass("c", name)
    requirements = Requirements.of(Pod(features=needed).needs, runtime_class, Policy())
    assert (requirements.mismatch(shape_of(node, ())) is None) == expected
    names = [each.name for each in node.handlers]
    assert len(names) == len(set(names))
