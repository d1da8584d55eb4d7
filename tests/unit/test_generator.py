"""The generated clusters and requests of loadtest/ are as the benchmarks assume."""

import json

import pytest

from extender.kubernetes.decoder import decode
from extender.kubernetes.name_rules import node_name_fault
from extender.kubernetes.runtime_classes import RawRuntimeClass, runtimeclass_fault
from extender.model.objects import Pod
from extender.rules.node_checks import Policy
from extender.verbs.bodies import run_of
from extender.verbs.filter import match_names
from loadtest import bodies
from loadtest.generator import HALF_CLASS, Cluster, ClusterSpec, go_json
from tests.reviews import runtime_class
from tests.stores import node_of, snapshot_of
from tests.vectors_file import recorded


@pytest.mark.parametrize(("shapes", "fat"), [(2, False), (20, False), (20, True), (200, False)])
def test_the_half_class_fits_every_second_node_of_the_shapes_asked_for(
    shapes: int, fat: bool
) -> None:
    cluster = Cluster(ClusterSpec(400, shapes))
    snapshot = snapshot_of(
        [node_of(cluster.node(n, fat=fat)) for n in range(400)],
        map(runtime_class, cluster.runtime_classes()),
    )
    assert len(snapshot.shapes) == shapes
    pod, half = Pod(runtime_class_name=HALF_CLASS), snapshot.runtime_classes[HALF_CLASS]
    table = match_names(pod, half, snapshot, run_of(cluster.names), Policy())
    verdicts = [table.reasons[code] for code in table.codes]
    assert [verdict is None for verdict in verdicts] == [True, False] * 200
    if shapes >= 20:
        assert {each.code for each in verdicts if each} == {"selector", "taint", "handler"}


def test_objects_are_what_a_kubernetes_api_server_accepts() -> None:
    cluster = Cluster(ClusterSpec(3000, runtime_classes=40))
    assert len(set(cluster.names)) == 3000
    assert not [name for name in cluster.names if node_name_fault(name)]
    for each in cluster.runtime_classes():
        assert not runtimeclass_fault(decode(go_json(each), RawRuntimeClass))
    assert 9_000 < len(go_json(cluster.node(7, fat=True))) < 12_000


@pytest.mark.parametrize(
    "body",
    [
        *(recorded("scheduler-names", "filter") + recorded("scheduler-names", "prioritize")),
        *(recorded("scheduler-nodes", "filter") + recorded("scheduler-names", "preempt")),
    ],
)
def test_requests_are_written_as_kube_scheduler_writes_them(body: bytes) -> None:
    args = json.loads(body)
    pod = go_json(args["Pod"])
    if "NodeNameToMetaVictims" in args:
        victims = dict(sorted(args["NodeNameToMetaVictims"].items()))
        made = bodies.preempt_body(pod, list(victims), list(map(go_json, victims.values())))
    elif args["Nodes"]:
        made = bodies.nodes_body(pod, list(map(go_json, args["Nodes"]["items"])))
    else:
        made = bodies.names_body(pod, args["NodeNames"])
    assert made == body


def test_json_is_escaped_as_in_go() -> None:
    assert go_json({"a": "<&>\u2028é\n"}) == '{"a":"\\u003c\\u0026\\u003e\\u2028é\\n"}'.encode()
