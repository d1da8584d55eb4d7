"""The made-up clusters and requests of loadtest/ are what the benchmarks take them for."""

import json
from itertools import islice

import msgspec
import pytest

from extender.cluster.snapshot_store import SnapshotStore
from extender.decoding.decoder import decode
from extender.decoding.nodes import RawNode, node_of
from extender.decoding.runtime_classes import RawRuntimeClass, runtime_class_of
from extender.objects import Pod
from extender.predicates.node_checks import Policy
from extender.snapshot import Snapshot
from extender.validation.name_rules import validate_node_name
from extender.validation.runtimeclass_rules import validate_runtimeclass
from extender.verbs.filter import match_names
from extender.wire.bodies import run_of
from loadtest import bodies
from loadtest.cases import HALF, NAMES, NODES, Asker, Case
from loadtest.generator import HALF_CLASS, Cluster, ClusterSpec, go_json
from tests.vectors_file import recorded


def snapshot_of(cluster: Cluster, *, fat: bool = False) -> Snapshot:
    store = SnapshotStore()
    store.replace_all(
        [
            node_of(decode(go_json(cluster.node(index, fat=fat)), RawNode))
            for index in range(cluster.spec.nodes)
        ],
        [
            runtime_class_of(decode(go_json(each), RawRuntimeClass))
            for each in cluster.runtime_classes()
        ],
    )
    return store.snapshot


def fitting(cluster: Cluster, snapshot: Snapshot) -> list[bool]:
    pod = Pod(runtime_class_name=HALF_CLASS)
    runtime_class = snapshot.runtime_classes[HALF_CLASS]
    verdicts = match_names(pod, runtime_class, snapshot, run_of(cluster.names), Policy())
    return [verdicts.reasons[code] is None for code in verdicts.codes]


@pytest.mark.parametrize(
    ("shapes", "runtime_classes"), [(1, 1), (2, 5), (5, 5), (20, 5), (20, 300), (700, 5)]
)
def test_a_cluster_has_the_shapes_and_classes_asked_for(shapes: int, runtime_classes: int) -> None:
    snapshot = snapshot_of(Cluster(ClusterSpec(1400, shapes, runtime_classes)))
    assert len(snapshot.nodes) == 1400
    assert len(snapshot.shapes) == shapes
    assert len(snapshot.runtime_classes) == runtime_classes


@pytest.mark.parametrize("shapes", [2, 5, 20, 200])
def test_the_half_class_fits_every_second_node(shapes: int) -> None:
    cluster = Cluster(ClusterSpec(400, shapes))
    assert fitting(cluster, snapshot_of(cluster)) == [True, False] * 200


def test_the_half_class_is_refused_for_three_reasons() -> None:
    cluster = Cluster(ClusterSpec(40))
    snapshot = snapshot_of(cluster)
    table = snapshot.shapes.verdicts(
        Pod(runtime_class_name=HALF_CLASS), snapshot.runtime_classes[HALF_CLASS], Policy()
    )
    codes = {reason.code for code in table.codes[1:] if (reason := table.reasons[code])}
    assert codes == {"selector", "taint", "handler"}


def test_fat_nodes_are_judged_as_slim_ones() -> None:
    cluster = Cluster(ClusterSpec(60))
    assert fitting(cluster, snapshot_of(cluster, fat=True)) == [True, False] * 30


def test_a_fat_node_has_about_10_kilobytes() -> None:
    cluster = Cluster(ClusterSpec(60))
    sizes = [len(go_json(cluster.node(index, fat=True))) for index in range(60)]
    assert 9_000 < min(sizes) <= max(sizes) < 12_000


def test_objects_are_what_a_kubernetes_api_server_accepts() -> None:
    cluster = Cluster(ClusterSpec(3000, runtime_classes=40))
    assert len(set(cluster.names)) == 3000
    assert not [name for name in cluster.names if validate_node_name(name)]
    assert not [each for each in cluster.runtime_classes() if validate_runtimeclass(each)]


def test_the_same_seed_makes_the_same_cluster_and_another_seed_another() -> None:
    first, again, other = (
        b"".join(Cluster(ClusterSpec(50, seed=seed)).manifest()) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert len(json.loads(first)["items"]) == 55


@pytest.mark.parametrize("spec", [(0, 1, 1), (1, 0, 1), (1, 8193, 1), (1, 1, 0)])
def test_sizes_that_cannot_be_made_are_refused(spec: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="expected 1 to"):
        ClusterSpec(*spec)


@pytest.mark.parametrize(
    "body", recorded("scheduler-names", "filter") + recorded("scheduler-names", "prioritize")
)
def test_names_are_sent_as_kube_scheduler_sends_them(body: bytes) -> None:
    args = json.loads(body)
    assert bodies.names_body(go_json(args["Pod"]), args["NodeNames"]) == body


@pytest.mark.parametrize("body", recorded("scheduler-nodes", "filter"))
def test_nodes_are_sent_as_kube_scheduler_sends_them(body: bytes) -> None:
    args = json.loads(body)
    assert (
        bodies.nodes_body(go_json(args["Pod"]), list(map(go_json, args["Nodes"]["items"]))) == body
    )


@pytest.mark.parametrize("body", recorded("scheduler-names", "preempt"))
def test_victims_are_sent_as_kube_scheduler_sends_them(body: bytes) -> None:
    args = json.loads(body)
    victims = args["NodeNameToMetaVictims"]
    made = bodies.preempt_body(
        go_json(args["Pod"]), sorted(victims), [go_json(victims[name]) for name in sorted(victims)]
    )
    assert made == body


def test_json_is_escaped_as_in_go() -> None:
    assert go_json({"a": "<&>\u2028é\n"}) == '{"a":"\\u003c\\u0026\\u003e\\u2028é\\n"}'.encode()


@pytest.mark.parametrize(
    ("verb", "mode"), [("filter", NAMES), ("filter", NODES), ("prioritize", NAMES)]
)
def test_each_request_has_another_pod_and_the_nodes_in_another_order(verb: str, mode: str) -> None:
    cluster = Cluster(ClusterSpec(50))
    sent = list(islice(Asker(cluster).bodies(Case(verb, mode, HALF, 30)), 5))
    asked = []
    for body in sent:
        args = msgspec.json.decode(body)
        assert args["Pod"]["spec"]["runtimeClassName"] == HALF_CLASS
        nodes = args["NodeNames"] or [node["metadata"]["name"] for node in args["Nodes"]["items"]]
        assert sorted(nodes) == sorted(cluster.names[:30])
        asked.append(tuple(nodes))
    assert len(set(asked)) == 5
    assert len({msgspec.json.decode(body)["Pod"]["metadata"]["uid"] for body in sent}) == 5
