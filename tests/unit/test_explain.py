"""Explain: origins, what the in-tree merge changes, and what is warned of."""

import json
import time
from typing import Any, Final

import orjson
import pytest
import yaml

from extender.cluster.manifest_objects import Manifests
from extender.cluster.reading_manifests import read_manifest
from extender.cluster.snapshot_store import SnapshotStore
from extender.decoding.decoder import decode
from extender.decoding.pods import RawPod, explained_pod_of
from extender.objects import Handler, Node, Pod, RuntimeClass, Taint, Toleration
from extender.predicates.node_checks import Policy
from extender.reasons import Code
from extender.verbs.explain.candidate_nodes import nodes_of
from extender.verbs.explain.explanation import Explanation, explain
from extender.verbs.explain.origin import Origin
from tests.vectors_file import RECORDED

PODS: Final = list(yaml.safe_load_all((RECORDED / "admission" / "pods.yaml").read_text()))
ADMITTED: Final = json.loads((RECORDED / "in-tree-admission" / "admitted.json").read_text())

FEATURES: Final = Handler("", True, True)
USUAL: Final = Policy()


def recorded_classes() -> dict[str, RuntimeClass]:
    loaded = Manifests()
    read_manifest((RECORDED / "runtimeclasses.yaml").read_bytes(), "recorded", loaded)
    return loaded.runtime_classes


def pod_of(document: Any) -> Pod:
    return explained_pod_of(decode(orjson.dumps(document), RawPod))


def explained(
    pod: Pod, nodes: list[Node], classes: dict[str, RuntimeClass], policy: Policy = USUAL
) -> Explanation:
    store = SnapshotStore()
    store.replace_all(nodes, classes.values())
    runtime_class = store.snapshot.runtime_classes.get(pod.runtime_class_name)
    return explain(pod, runtime_class, nodes_of(store.snapshot), policy)


def reasons(explanation: Explanation) -> dict[str, tuple[Code, Origin, list[bytes]]]:
    return {g.text: (g.code, g.origin, list(g.nodes)) for g in explanation.reasons}


#: Nodes of every kind that these pods meet; z1 is where one of them wants to be.
NODES: Final = [
    Node("plain", {}, (), frozenset({FEATURES})),
    Node("gvisor", {"sandbox.example/gvisor": "true"}, (), frozenset({Handler("runsc")})),
    Node("gvisor-broken", {"sandbox.example/gvisor": "true"}, (), frozenset({Handler("runc")})),
    Node("kata", {"sandbox.example/kata": "true", "topology.kubernetes.io/zone": "z1"}),
    Node("kata-z2", {"sandbox.example/kata": "true", "topology.kubernetes.io/zone": "z2"}),
    Node(
        "kata-tainted",
        {"sandbox.example/kata": "true", "topology.kubernetes.io/zone": "z1"},
        (Taint("other", "", "NoExecute"),),
    ),
    Node("cordoned", {"sandbox.example/gvisor": "true"}, unschedulable=True),
]


@pytest.mark.parametrize("name", sorted(ADMITTED))
def test_a_recorded_merge_changes_origins_and_no_reason(name: str) -> None:
    """As the author wrote the pod, and as the in-tree admission plugin made it."""
    (document,) = [
        each
        for each in PODS
        if name in (each["metadata"].get("name"), each["metadata"].get("generateName"))
    ]
    given = {key: value for key, value in ADMITTED[name].items() if value is not None}
    merged = {**document, "spec": {**document["spec"], **given}}
    classes = recorded_classes()
    before = reasons(explained(pod_of(document), NODES, classes))
    after = reasons(explained(pod_of(merged), NODES, classes))
    assert before.keys() == after.keys()
    for text, (code, origin, nodes) in before.items():
        new = Origin.BOTH if origin is Origin.RUNTIME_CLASS and code is not Code.HANDLER else origin
        assert after[text] == (code, new, nodes)
    if "gvisor" in name or "kata" in name:
        assert Origin.BOTH in {origin for _, origin, _ in after.values()}


def test_the_handler_stays_the_requirement_of_the_class_alone() -> None:
    merged = Pod(runtime_class_name="gvisor", node_selector={"sandbox.example/gvisor": "true"})
    found = reasons(explained(merged, NODES, recorded_classes()))
    text = 'nodes don\'t match RuntimeClass "gvisor" (no runtime handler "runsc")'
    assert found[text] == (Code.HANDLER, Origin.RUNTIME_CLASS, [b"gvisor-broken"])


KATA: Final = RuntimeClass(
    "kata",
    "kata",
    (("kata", "true"),),
    (Toleration("sandbox", "Equal", "kata", "NoSchedule"),),
    {"cpu": "250m"},
)
POOL: Final = [
    Node("a", {"kata": "true", "pool": "all"}, (Taint("sandbox", "kata", "NoSchedule"),)),
    Node("b", {"kata": "true", "pool": "all"}, (Taint("sandbox", "kata", "NoSchedule"),)),
    Node("c", {"kata": "true", "pool": "all", "old": "1"}),
]


def kata(pod: Pod) -> Explanation:
    return explained(pod, POOL, {"kata": KATA})


def test_a_taint_that_only_the_class_tolerates_is_the_pods_and_the_toleration_is_printed() -> None:
    explanation = kata(Pod(runtime_class_name="kata"))
    assert reasons(explanation) == {
        "node(s) had untolerated taint(s)": (Code.POD_TAINT, Origin.POD, [b"a", b"b"])
    }
    (warning,) = explanation.warnings
    assert warning.startswith("2 nodes have taint sandbox=kata:NoSchedule")
    toleration = json.loads(warning[warning.index("{") :])
    assert toleration == {
        "key": "sandbox",
        "operator": "Equal",
        "value": "kata",
        "effect": "NoSchedule",
    }


@pytest.mark.parametrize(("uid", "told"), [("", True), ("u", False)])
def test_only_of_a_pod_that_does_not_exist_yet_is_admission_expected(uid: str, told: bool) -> None:
    (warning,) = kata(Pod(uid=uid, runtime_class_name="kata", overhead=KATA.overhead)).warnings
    assert (" to which admission may add the class's when it is created" in warning) is told


def test_a_toleration_keeps_its_seconds_when_it_is_printed() -> None:
    timed = RuntimeClass("kata", "kata", (), (Toleration("x", "Exists", seconds=60),))
    node = Node("a", {}, (Taint("x", "", "NoExecute"),))
    (warning,) = explained(Pod(runtime_class_name="kata"), [node], {"kata": timed}).warnings
    assert json.loads(warning[warning.index("{") :]) == {
        "key": "x",
        "operator": "Exists",
        "tolerationSeconds": 60,
    }


def test_a_toleration_that_several_taints_need_is_printed_once() -> None:
    wide = RuntimeClass("kata", "kata", (), (Toleration("", "Exists"), Toleration("x", "Exists")))
    nodes = [Node(key, {}, (Taint(key, "", "NoSchedule"),)) for key in ("x", "y", "z")]
    (warning,) = explained(Pod(runtime_class_name="kata"), nodes, {"kata": wide}).warnings
    assert json.loads(warning[warning.index("{") :]) == {"operator": "Exists"}


def test_a_selector_that_the_pod_has_of_its_own_comes_from_both() -> None:
    """Though the class's tolerations are not in the pod, so that nothing was merged."""
    pod = Pod(runtime_class_name="kata", node_selector=dict(KATA.node_selector))
    ((origin, nodes),) = {
        (each.origin, tuple(each.nodes))
        for each in explained(pod, [Node("plain")], {"kata": KATA}).reasons
    }
    assert (origin, nodes) == (Origin.BOTH, (b"plain",))


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        pytest.param(
            Pod(node_selector={"kata": "true", "pool": "all"}), [], id="what keeps no node away"
        ),
        pytest.param(Pod(overhead={"cpu": "0.25"}), [], id="overhead equal by value"),
        pytest.param(Pod(overhead={"cpu": "1"}), ["overhead cpu=1,"], id="overhead of another day"),
        pytest.param(
            Pod(overhead={"cpu": "250m", "memory": "1Mi"}),
            ["overhead cpu=250m, memory=1Mi,"],
            id="overhead of one resource more",
        ),
        pytest.param(Pod(uid="u"), ["no overhead"], id="a pod that exists without overhead"),
        pytest.param(Pod(), [], id="a pod that does not exist yet"),
        pytest.param(
            Pod(node_selector={"kata": "false"}), ["nodeSelector kata=false"], id="conflict"
        ),
        pytest.param(
            Pod(node_selector={"old": "2"}), ["nodeSelector old=2"], id="keeps all nodes away"
        ),
        pytest.param(Pod(node_selector={"kata": "true"}), [], id="what the class has"),
        pytest.param(
            Pod(node_selector={"topology.kubernetes.io/zone": "z"}), [], id="a place, not a class"
        ),
        pytest.param(
            Pod(node_selector={"old": "1"}, overhead={"cpu": "1"}),
            ["nodeSelector old=1", "overhead cpu=1,"],
            id="selector beside a stale overhead",
        ),
    ],
)
def test_stale_merges_are_named(pod: Pod, said: list[str]) -> None:
    from dataclasses import replace

    tolerant = replace(pod, runtime_class_name="kata", tolerations=KATA.tolerations)
    warnings = kata(tolerant).warnings
    assert len(warnings) == len(said)
    for warning, words in zip(warnings, said, strict=True):
        assert words in warning


def test_a_class_without_overhead_today_makes_the_pods_stale() -> None:
    bare = RuntimeClass("kata", "kata")
    pod = Pod(runtime_class_name="kata", overhead={"cpu": "250m"})
    (warning,) = explained(pod, POOL, {"kata": bare}).warnings
    assert "none today" in warning


def test_unknown_nodes_of_a_plain_pod_are_told_as_unknown() -> None:
    store = SnapshotStore()
    store.replace_all(POOL, [])
    found = explain(Pod(), None, nodes_of(store.snapshot, [b"c", b"stranger"]), Policy())
    assert found.passing == [b"c"]
    assert reasons(found) == {
        "nodes not yet known to the RuntimeClass extender": (
            Code.UNKNOWN_NODE,
            Origin.NODE,
            [b"stranger"],
        )
    }


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        pytest.param(Pod(runtime_class_name="none"), "RuntimeClass not found", id="not found"),
        pytest.param(
            Pod(runtime_class_name="kata", node_selector={"kata": "no"}), "conflicts", id="conflict"
        ),
    ],
)
def test_what_the_pod_alone_decides_holds_for_unknown_nodes_too(pod: Pod, text: str) -> None:
    store = SnapshotStore()
    store.replace_all(POOL, [KATA])
    runtime_class = store.snapshot.runtime_classes.get(pod.runtime_class_name)
    found = explain(pod, runtime_class, nodes_of(store.snapshot, [b"a", b"x"]), Policy())
    (group,) = found.reasons
    assert text in group.text
    assert list(group.nodes) == [b"a", b"x"]


def test_beyond_eight_details_plain_texts_are_told_apart_by_cause() -> None:
    """One text, but a taint and a handler are two causes."""
    nodes = [
        Node(f"n{index}", {"kata": "true"}, (Taint(f"t{index}", "", "NoSchedule"),))
        for index in range(9)
    ]
    nodes.append(Node("z", {"kata": "true"}, (), frozenset({Handler("runc")})))
    explanation = explained(Pod(runtime_class_name="kata"), nodes, {"kata": KATA})
    plain = [g for g in explanation.reasons if g.text.endswith('"kata"')]
    assert sorted(g.code for g in plain) == [Code.TAINT]
    assert sum(len(g.nodes) for g in explanation.reasons) == 10


@pytest.mark.parametrize(("of_class", "of_pod"), [(" 1", "1"), ("100u", "1m"), ("1Gi", "1024Mi")])
def test_an_overhead_written_otherwise_is_no_change(of_class: str, of_pod: str) -> None:
    loaded = Manifests()
    document = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": of_class}},
    }
    read_manifest(orjson.dumps(document), "a class", loaded)
    pod = pod_of(
        {
            "metadata": {"uid": "u", "name": "p"},
            "spec": {"runtimeClassName": "kata", "overhead": {"cpu": of_pod}},
        }
    )
    assert explained(pod, POOL, loaded.runtime_classes).warnings == []


def of_a_daemon_set(*terms: dict[str, Any], **spec: Any) -> Pod:
    required = {"nodeSelectorTerms": list(terms)}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod_of({"metadata": {"name": "p"}, "spec": {"affinity": affinity, **spec}})


def by_name(*names: str, operator: str = "In") -> dict[str, Any]:
    return {"key": "metadata.name", "operator": operator, "values": list(names)}


LEFT_OUT: Final = "node(s) didn't satisfy plugin(s) [NodeAffinity]"


@pytest.mark.parametrize(
    ("terms", "summary"),
    [
        pytest.param(
            [{"matchFields": [by_name("a")]}],
            f"0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 {LEFT_OUT}.",
            id="as a DaemonSet",
        ),
        pytest.param(
            [{"matchFields": [by_name("gone")]}],
            f"0/3 nodes are available: 3 {LEFT_OUT}.",
            id="the node is gone",
        ),
        pytest.param(
            [{"matchFields": [by_name("a"), by_name("b")]}],
            "0/3 nodes are available: pod affinity terms conflict.",
            id="two names at once",
        ),
        pytest.param(
            [{"matchFields": [by_name("c", "d")]}],
            f"0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector,"
            f" 2 {LEFT_OUT}.",
            id="two names in one do not parse, and leave out the others all the same",
        ),
        pytest.param(
            [
                {"matchFields": [by_name("a")]},
                {"matchExpressions": [{"key": "x", "operator": "Exists"}]},
            ],
            "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector,"
            " 2 node(s) had untolerated taint(s).",
            id="an alternative without a name",
        ),
        pytest.param(
            [{"matchFields": [by_name("a", operator="NotIn")]}],
            "1/3 nodes are available: 2 node(s) had untolerated taint(s).",
            id="not that node",
        ),
    ],
)
def test_nodes_that_no_filter_looks_at_get_kube_schedulers_words(
    terms: list[dict[str, Any]], summary: str
) -> None:
    """pkg/scheduler/schedule_one.go findNodesThatFitPod, nodeaffinity's PreFilter, v1.36.2."""
    assert explained(of_a_daemon_set(*terms), POOL, {}).summary == summary


def test_the_pods_own_checks_come_in_the_order_of_kube_schedulers_plugins() -> None:
    """Cordon, taint, selector and affinity: the node that fails all of them is cordoned."""
    taint = (Taint("t", "", "NoSchedule"),)
    nodes = [
        Node("all", {}, taint, unschedulable=True),
        Node("both", {}, taint),
        Node("labels", {}),
        Node("none", {"x": "y"}),
    ]
    pod = Pod(node_selector={"x": "y"})
    assert explained(pod, nodes, {}).summary == (
        "1/4 nodes are available: 1 node(s) didn't match Pod's node affinity/selector,"
        " 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."
    )
    wanted = of_a_daemon_set(
        {"matchExpressions": [{"key": "x", "operator": "Exists"}]},
        nodeSelector={"a": "b"},
        tolerations=[{"key": "k"}],
    )
    kinds = [each.kind for each in explained(wanted, nodes, {}).requirements]
    assert kinds == ["toleration", "nodeSelector", "nodeAffinity"]


def test_what_the_class_tolerates_is_told_of_a_cordoned_node_too() -> None:
    """Once uncordoned it would be the taint that keeps the pod away."""
    tainted = Node(
        "a", {"kata": "true"}, (Taint("sandbox", "kata", "NoSchedule"),), unschedulable=True
    )
    explanation = explained(Pod(runtime_class_name="kata"), [tainted], {"kata": KATA})
    assert [each.code for each in explanation.reasons] == [Code.CORDONED]
    assert "only RuntimeClass" in explanation.warnings[0]


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("term", "fault"),
    [
        (expression("a b", "Exists"), 'matchExpressions[0]: key "a b" is no label key'),
        (expression("a", "in", "x"), 'matchExpressions[0]: there is no operator "in"'),
        (expression("a", "In"), "matchExpressions[0]: In needs values"),
        (expression("a", "Exists", "x"), "matchExpressions[0]: Exists takes no values"),
        (expression("a", "In", "x", "y z"), 'matchExpressions[0]: "y z" is no label value'),
        (expression("a", "Gt", "many"), "matchExpressions[0]: Gt needs one whole number"),
        (expression("a", "Lt", "1", "2"), "matchExpressions[0]: Lt needs one whole number"),
        (
            {"matchFields": [by_name("a"), by_name("a", operator="Exists")]},
            'matchFields[1]: there is no operator "Exists" for fields',
        ),
        ({"matchFields": [by_name("a", "b")]}, "matchFields[0]: In needs one value for a field"),
    ],
)
def test_a_term_that_does_not_parse_is_named(term: dict[str, Any], fault: str) -> None:
    """kube-scheduler drops it without a word, with a class and without."""
    for spec in ({}, {"runtimeClassName": "kata"}):
        pod = of_a_daemon_set(expression("old", "Exists"), {}, term, **spec)
        explanation = explained(pod, POOL, {"kata": KATA})
        assert explanation.passing == [b"c"]
        assert explanation.warnings[0] == (
            "nodeSelectorTerms[2] of the pod's required node affinity does not parse and so matches"
            f" no node: {fault}"
        )


def test_terms_that_do_not_parse_are_told_up_to_eight() -> None:
    pod = of_a_daemon_set(*[expression("a", "in")] * 20)
    warnings = explained(pod, POOL, {}).warnings
    assert len(warnings) == 9
    assert warnings[-1] == "12 more terms of the pod's required node affinity do not parse"


def test_a_taint_that_says_how_a_node_is_comes_from_the_node_and_not_from_the_class() -> None:
    classes = {"kata": RuntimeClass("kata", "kata")}
    nodes = [
        Node("broken", taints=(Taint("node.kubernetes.io/not-ready", "", "NoExecute"),)),
        Node("kept", taints=(Taint("dedicated", "gpu", "NoSchedule"),)),
        Node(
            "kept-and-broken",
            taints=(
                Taint("dedicated", "gpu", "NoSchedule"),
                Taint("node.kubernetes.io/not-ready", "", "NoExecute"),
            ),
        ),
    ]
    found = explained(Pod(runtime_class_name="kata"), nodes, classes).reasons
    assert {(each.origin, tuple(each.nodes)) for each in found} == {
        (Origin.NODE, (b"broken",)),
        (Origin.RUNTIME_CLASS, (b"kept", b"kept-and-broken")),
    }
    tolerant = Pod(runtime_class_name="kata", tolerations=(Toleration("dedicated", "Exists"),))
    found = explained(tolerant, nodes, classes).reasons
    assert {(each.origin, tuple(each.nodes)) for each in found} == {
        (Origin.NODE, (b"broken", b"kept-and-broken"))
    }


def test_what_a_comparison_tolerates_is_no_cause() -> None:
    ready = Taint("node.kubernetes.io/not-ready", "", "NoExecute")
    node = Node("n1", taints=(Taint("level", "5", "NoSchedule"), ready))
    pod = Pod(runtime_class_name="kata", tolerations=(Toleration("level", "Gt", "3"),))
    classes = {"kata": RuntimeClass("kata", "kata")}
    for compared, origin in ((True, Origin.NODE), (False, Origin.RUNTIME_CLASS)):
        policy = Policy(comparison_operators=compared)
        (reason,) = explained(pod, [node], classes, policy).reasons
        assert (reason.origin, compared) == (origin, "not-ready" in reason.text)


def test_a_pod_that_asks_for_many_labels_is_explained_as_soon_as_one_that_asks_for_few() -> None:
    """Each of 20,000 keys was looked for in the labels of each of 2,000 nodes: 11 s."""
    store = SnapshotStore()
    labels = {f"label-{number}": "v" for number in range(20)}
    store.replace_all([Node(f"node-{number}", labels) for number in range(2_000)], [])
    selector = {**labels, **{f"key-{number}": "v" for number in range(20_000)}}
    nodes = nodes_of(store.snapshot)
    began = time.process_time()
    assert explain(Pod(node_selector=selector), None, nodes, Policy()).feasible == 0
    assert time.process_time() - began < 2
    assert explain(Pod(node_selector=labels), None, nodes, Policy()).feasible == 2_000
    other = {**labels, "label-7": "w"}
    assert explain(Pod(node_selector=other), None, nodes, Policy()).feasible == 0
