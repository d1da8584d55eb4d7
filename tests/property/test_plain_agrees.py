"""The service and loadtest's plain version, written apart from each other, answer alike."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from extender.cluster.snapshot_store import SnapshotStore
from extender.http.app import create_app
from extender.http.health import Health
from extender.http.routing import Threads
from extender.http.service import Service
from extender.metrics import Metrics
from extender.objects import Node, Pod, RuntimeClass
from extender.refused_pods import RefusedPods
from loadtest.plain import PlainApp
from loadtest.plain_matching import PlainCluster, PlainExtender
from tests.asking import Client
from tests.json_objects import class_json, node_json, pod_json
from tests.property import strategies as some

Json = dict[str, Any]

LAW = settings(max_examples=200, deadline=None)


class Pair:
    """The service and the plain version on one cluster."""

    def __init__(self, nodes: list[Node], classes: list[RuntimeClass]) -> None:
        store = SnapshotStore()
        store.replace_all(nodes, classes)
        health, refused = Health(lambda: store.snapshot), RefusedPods(lambda: 0.0)
        self._service = Client(
            create_app(Service(store, Metrics(), health, refused), Threads.of(1))
        )
        objects = [*map(node_json, nodes), *map(class_json, classes)]
        self._plain = Client(PlainApp(PlainExtender(PlainCluster.of(objects))))

    def agree(self, verb: str, args: Json) -> None:
        body = json.dumps(args).encode()
        assert self._ask(self._service, verb, body) == self._ask(self._plain, verb, body)

    @staticmethod
    def _ask(client: Client, verb: str, body: bytes) -> Any:
        response = client.post(f"/{verb}", data=body)
        assert response.status_code == 200, response.data
        return json.loads(response.data)


@LAW
@given(some.node_lists, some.class_lists, some.pods, some.asked_names)
def test_names_mode(
    nodes: list[Node], classes: list[RuntimeClass], pod: Pod, asked: list[str]
) -> None:
    """Names, known and unknown, once and twice: the same answers to filter and prioritize."""
    pair = Pair(nodes, classes)
    args = {"Pod": pod_json(pod), "Nodes": None, "NodeNames": asked}
    pair.agree("filter", args)
    pair.agree("prioritize", args)


@LAW
@given(some.node_lists, some.class_lists, some.pods)
def test_nodes_mode(nodes: list[Node], classes: list[RuntimeClass], pod: Pod) -> None:
    """Whole nodes, decided from the request: the same answers to filter and prioritize."""
    pair = Pair([], classes)
    items = list(map(node_json, nodes))
    args = {"Pod": pod_json(pod), "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}
    pair.agree("filter", args)
    pair.agree("prioritize", args)


@LAW
@given(
    some.node_lists,
    some.class_lists,
    some.pods,
    st.dictionaries(
        st.sampled_from([*some.NODE_NAMES, "stranger"]),
        st.tuples(st.lists(st.uuids().map(str), max_size=3), st.integers(0, 3)),
    ),
    st.booleans(),
)
def test_preempt(
    nodes: list[Node],
    classes: list[RuntimeClass],
    pod: Pod,
    victims: dict[str, tuple[list[str], int]],
    whole_pods: bool,
) -> None:
    """Victims by UID and as whole pods: the same nodes are left, with the same victims."""
    whole = {"spec": {"affinity": {"nodeAffinity": {}}, "overhead": {"cpu": "1"}}}
    by_node = {
        name: {
            "Pods": [
                {**whole, "metadata": {"uid": uid}} if whole_pods else {"UID": uid} for uid in uids
            ],
            **({"FieldOfANewerVersion": [{}]} if whole_pods else {}),
            "NumPDBViolations": violations,
        }
        for name, (uids, violations) in victims.items()
    }
    args: Json = {"Pod": pod_json(pod), "NodeNameToVictims": None, "NodeNameToMetaVictims": None}
    args["NodeNameToVictims" if whole_pods else "NodeNameToMetaVictims"] = by_node
    Pair(nodes, classes).agree("preempt", args)
