"""Nodes: one and the same, whoever reads them."""

import json
import tracemalloc
from itertools import product
from typing import Any

import pytest
from msgspec import Raw

from extender.cluster.node_and_class_feeds import NodeFeed
from extender.cluster.snapshot_store import SnapshotStore
from extender.decoding.decoder import DecodeError, decode
from extender.decoding.nodes import NodeReader, RawNode, node_of, watched_node
from extender.objects import Features, Pod, RuntimeClass
from extender.predicates.node_checks import Policy
from extender.shape import Shape, shape_of
from extender.snapshot import Shapes

SYSTEMS = [None, "", "linux", "windows"]


def node(system: str | None, label: str | None, **metadata: object) -> Any:
    labels = {"a": "windows"} if label is None else {"kubernetes.io/os": label}
    info = {"operatingSystem": system, "containerRuntimeVersion": "containerd://2.1.4"}
    return {
        "metadata": {"name": "n", "labels": labels, **metadata},
        "status": {"runtimeHandlers": [{"name": ""}, {"name": "h"}], "nodeInfo": info},
    }


def followed(*documents: Any) -> SnapshotStore:
    """A store fed with one node and its changes, as a watch brings them."""
    store = SnapshotStore()
    feed = NodeFeed(store)
    feed.begin()
    feed.commit()
    for document in documents:
        feed.change(Raw(json.dumps(document).encode()), deleted=False)
        feed.flush()
    return store


def shapes_of(document: Any) -> list[Shape | None]:
    """The shape of a node of the manifests, of a request, and of a watch."""
    raw = json.dumps(document).encode()
    return [
        shape_of(node_of(decode(raw, RawNode)), ()),
        shape_of(NodeReader().read(raw), ()),
        followed(document).snapshot.shape(b"n"),
    ]


def user_namespaces_lack(shape: Shape, runtime_class: RuntimeClass | None) -> str | None:
    """Why a pod with `hostUsers: false` is refused by a node of the shape."""
    pod = Pod(features=Features(user_namespaces=True))
    table = Shapes((shape,)).verdicts(pod, runtime_class, Policy())
    reason = table.reasons[table.codes[1]]
    return reason.text if reason else None


@pytest.mark.parametrize(("system", "label"), list(product(SYSTEMS, [None, *SYSTEMS[1:]])))
def test_the_windows_kubelet_ignores_host_users(system: str | None, label: str | None) -> None:
    """What nodeInfo says; where that is empty, the label: semantics §1 check 6 and §9."""
    is_windows = (system or label) == "windows"
    for shape in shapes_of(node(system, label)):
        assert shape is not None
        assert shape.kubelet.is_windows is is_windows
        for runtime_class in (None, RuntimeClass("c", "h")):
            lacking = user_namespaces_lack(shape, runtime_class)
            assert (lacking is None) is is_windows


def test_the_windows_kubelet_does_not_ignore_recursive_read_only_mounts() -> None:
    (shape, *_) = shapes_of(node("windows", None))
    assert shape is not None
    pod = Pod(features=Features(user_namespaces=True, recursive_read_only_mounts=True))
    table = Shapes((shape,)).verdicts(pod, None, Policy())
    reason = table.reasons[table.codes[1]]
    assert reason is not None
    assert reason.text == "nodes' default runtime handler lacks recursive read-only mounts"


@pytest.mark.parametrize(
    ("labels", "system"),
    [
        pytest.param('{"kubernetes.io/os":"windows"}', "windows", id="as kube-apiserver writes it"),
        pytest.param('{ "kubernetes.io/os" : "windows" }', "windows", id="with blanks"),
        pytest.param('{"kubernetes.io\\/os":"windows"}', "windows", id="an escaped key"),
        pytest.param('{"kubernetes.io/os":"win\\u0064ows"}', "windows", id="an escaped value"),
        pytest.param(
            '{"kubernetes.io/os":"linux","kubernetes.io/os":"windows"}', "windows", id="twice"
        ),
        pytest.param(
            '{"a":"\\"kubernetes.io/os\\":\\"windows","kubernetes.io/os":"linux"}',
            "linux",
            id="in a value",
        ),
        pytest.param('{"a":"é","kubernetes.io/os":"wïn"}', "wïn", id="not ASCII"),
        pytest.param('{"kubernetes.io/os":null}', "", id="null"),
        pytest.param('{"kubernetes.io/osx":"windows"}', "", id="another key"),
        pytest.param("null", "", id="no labels"),
    ],
)
def test_the_label_is_found_however_it_is_written(labels: str, system: str) -> None:
    document = '{"metadata":{"name":"n","labels":' + labels + "}}"
    assert NodeReader().read(document.encode()).kubelet.system == system


@pytest.mark.parametrize(
    "labels",
    [b'{"kubernetes.io/os":"\xff"}', b'{"kubernetes.io/os":1}', b'{"kubernetes.io/os":"a",1:2}'],
)
def test_a_label_that_can_t_be_read_is_an_error_that_names_the_labels(labels: bytes) -> None:
    with pytest.raises(DecodeError, match=r"Node.*(labels|not JSON)"):
        NodeReader().read(b'{"metadata":{"name":"n","labels":%s}}' % labels, "Node")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(("linux", "linux"), ("windows", "linux"), id="what the kubelet tells"),
        pytest.param((None, "linux"), (None, "windows"), id="the label alone"),
        pytest.param((None, "windows"), ("linux", "windows"), id="told at last"),
    ],
)
def test_a_change_of_system_is_a_change_of_shape(
    before: tuple[str | None, str], after: tuple[str | None, str]
) -> None:
    shapes = followed(node(*before), node(*after)).snapshot
    assert shapes.shape(b"n") == shape_of(
        node_of(decode(json.dumps(node(*after)).encode(), RawNode)), ()
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            {"kubeletVersion": "v1.34.1"}, {"kubeletVersion": "v1.36.2-gke.1"}, id="upgraded"
        ),
        pytest.param({"kubeletVersion": "v1.30.1"}, {}, id="too old to decide"),
        pytest.param({"kubeletVersion": "v1.x"}, {"kubeletVersion": "?"}, id="unreadable"),
        pytest.param(
            {"kubeletVersion": "v1.32.1"}, {"kubeletVersion": "v1.32.9+k3s1"}, id="patched"
        ),
    ],
)
def test_versions_that_make_no_difference_make_no_shapes(one: Any, other: Any) -> None:
    """A cluster that is being upgraded has as few shapes as before."""
    documents = [node("linux", None), node("linux", None)]
    for document, info in zip(documents, (one, other), strict=True):
        document["status"]["nodeInfo"] |= info
    assert len({*shapes_of(documents[0]), *shapes_of(documents[1])}) == 1


@pytest.mark.parametrize(
    "conditions",
    [
        [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        [None, {"type": "Ready"}, {"status": "True"}, {"type": "A", "status": "Unknown"}],
        None,
        "none of them",
        [{"type": 1, "status": "True"}],
        {"type": "Ready"},
    ],
)
def test_a_watched_node_has_the_conditions_of_any_other(conditions: object) -> None:
    """Those that can't be read are none, and the node is read all the same."""
    body = {"metadata": {"name": "a"}, "status": {"conditions": conditions}}
    raw = Raw(json.dumps(body).encode())
    node, read = watched_node(raw)
    assert node.name == "a"
    assert NodeReader().shared_conditions(read) == NodeReader().read(raw).conditions


def test_a_watched_node_that_can_not_be_read_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"Node.status.nodeInfo: expected `object`"):
        watched_node(Raw(b'{"status": {"conditions": [], "nodeInfo": 1}}'), "Node")


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
    """What is remembered of nodes is short, so that each heartbeat may say something else."""
    first = {"conditions": {"type": "T%d", "status": "True"}, "runtimeHandlers": {"name": "h%d"}}
    lists = {key: [each, *status.get(key, [])] for key, each in first.items()}
    metadata = {"name": "a", "resourceVersion": "%d"}
    template = json.dumps({"metadata": metadata, "status": status | lists})
    feed = NodeFeed(SnapshotStore())
    tracemalloc.start()
    try:
        for number in range(40):
            body = template.replace("%d", f"{number}")
            feed.change(Raw(body.encode()), deleted=False)
            feed.flush()
        assert tracemalloc.get_traced_memory()[0] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_node_of_long_traits_does_not_change_with_each_heartbeat() -> None:
    feed = NodeFeed(SnapshotStore())
    handlers = [{"name": f"handler-{number}"} for number in range(1000)]
    for version in ("1", "2"):
        metadata = {"name": "a", "resourceVersion": version}
        body = {"metadata": metadata, "status": {"runtimeHandlers": handlers}}
        feed.change(Raw(json.dumps(body).encode()), deleted=False)
        assert feed.has_changes == (version == "1")
        feed.flush()
