"""Explain: the pod's state first, doubtful kubelets, declared features, kubelets' rejections."""

import json
from typing import Any

import pytest

from extender.checks.kubelet_reports import check_kubelets
from extender.cluster.snapshot_store import SnapshotStore
from extender.decoding.decoder import DecodeError, decode
from extender.decoding.nodes import NodeReader
from extender.decoding.pods import RawPod, explained_pod_of
from extender.predicates.kubelet import KubeletCheck
from extender.predicates.node_checks import Policy
from extender.printing.debug_documents import explanation_document
from extender.printing.debug_texts import explanation_text
from extender.printing.tables import Screen
from extender.reasons import Code
from extender.snapshot import Snapshot
from extender.verbs.explain.candidate_nodes import nodes_of
from extender.verbs.explain.explanation import Explanation, explain
from extender.verbs.explain.origin import Origin
from tests.unit.test_kubelet_checks import Json, linux, windows

STRICT = Policy(kubelet_check=KubeletCheck.STRICT)


def named(name: str, node: Json) -> Json:
    return {**node, "metadata": {**node["metadata"], "name": name}}


def snapshot_of(*nodes: Json) -> Snapshot:
    reader, store = NodeReader(), SnapshotStore()
    store.replace_all([reader.read(json.dumps(node).encode()) for node in nodes], [])
    return store.snapshot


def explained(pod: Json, *nodes: Json, policy: Policy | None = None) -> Explanation:
    read = explained_pod_of(decode(json.dumps(pod).encode(), RawPod, "Pod"), "Pod")
    return explain(read, None, nodes_of(snapshot_of(*nodes)), policy or Policy())


def reasons(explanation: Explanation) -> dict[str, tuple[Code, Origin, list[bytes]]]:
    return {g.text: (g.code, g.origin, list(g.nodes)) for g in explanation.reasons}


def a_pod(spec: Json | None = None, **metadata: object) -> Json:
    return {"metadata": {"namespace": "default", "name": "web", **metadata}, "spec": spec or {}}


def test_what_a_kubelet_rejects_is_told_with_its_code() -> None:
    pod = a_pod(
        {"os": {"name": "windows"}, "resources": {"limits": {"cpu": "1"}}},
        labels={"kubernetes.io/os": "windows"},
    )
    explanation = explained(pod, named("l", linux("v1.36.2")), named("w", windows("v1.36.2")))
    assert reasons(explanation) == {
        'nodes don\'t match pod OS "windows"': (Code.OS, Origin.POD, [b"l"]),
        "Windows nodes lack pod-level resources": (Code.NODE_FEATURE, Origin.POD, [b"w"]),
    }
    assert [(each.kind, each.text) for each in explanation.requirements] == [
        ("os", "windows"),
        ("label", "kubernetes.io/os=windows"),
        ("resources", "of the pod as a whole"),
    ]


def test_a_check_that_is_off_is_no_requirement() -> None:
    pod = a_pod({"os": {"name": "windows"}})
    policy = Policy(kubelet_check=KubeletCheck.OFF)
    explanation = explained(pod, named("l", linux("v1.36.2")), policy=policy)
    assert (explanation.feasible, list(explanation.requirements)) == (1, [])


@pytest.mark.parametrize("host_users", [True, False])
def test_a_kubelet_that_may_reject_host_users_is_warned_of(host_users: bool) -> None:
    nodes = [
        named("old", linux("v1.31.14")),
        named("older", linux("v1.32.9")),
        named("older-2", linux("v1.32.1")),
        named("new", linux("v1.33.5")),
        named("windows", windows("v1.32.9")),
    ]
    explanation = explained(a_pod({"hostUsers": host_users}), *nodes)
    assert explanation.feasible == 5
    assert [text.partition(", which")[0] for text in explanation.warnings] == [
        "1 node has a kubelet v1.31",
        "2 nodes have a kubelet v1.32",
    ]
    assert all(
        ("--kubelet-check strict" in each) is not host_users for each in explanation.warnings
    )
    off = explained(
        a_pod({"hostUsers": host_users}), *nodes, policy=Policy(kubelet_check=KubeletCheck.OFF)
    )
    assert not off.warnings
    assert not explained(a_pod(), *nodes).warnings


def test_strict_refuses_such_kubelets_and_has_nothing_to_warn_of() -> None:
    nodes = [named("old", linux("v1.31.14")), named("new", linux("v1.33.5"))]
    explanation = explained(a_pod({"hostUsers": False}), *nodes, policy=STRICT)
    assert reasons(explanation) == {
        "nodes' kubelet v1.31 lacks user namespaces": (Code.NODE_FEATURE, Origin.POD, [b"old"])
    }
    assert not explanation.warnings
    # Who sets hostUsers: true is still rejected by such a kubelet; nothing refuses it.
    assert len(explained(a_pod({"hostUsers": True}), *nodes, policy=STRICT).warnings) == 1


def test_check_warns_of_such_kubelets_unless_a_flag_decides() -> None:
    snapshot = snapshot_of(
        named("old", linux("v1.31.14")),
        named("older", linux("v1.32.9")),
        named("without", linux("v1.32.9", users=False)),
        named("new", linux("v1.33.5")),
        named("windows", windows("v1.32.9")),
    )
    found = list(check_kubelets(snapshot, KubeletCheck.AUTO))
    assert [(each.check, each.what.partition(" and ")[0]) for each in found] == [
        ("user-namespaces-doubtful", "1 node has a kubelet v1.31"),
        ("user-namespaces-doubtful", "1 node has a kubelet v1.32"),
    ]
    for decided in (KubeletCheck.STRICT, KubeletCheck.OFF):
        assert not list(check_kubelets(snapshot, decided))


RESTARTS = {"restartPolicyRules": [None, {"action": "RestartAllContainers"}]}
ON_HOST = {"hostNetwork": True, "hostUsers": False}
DECLARED = "node(s) didn't match Pod's required features"


def declaring(name: str, features: list[str] | None) -> Json:
    node = named(name, linux("v1.36.2"))
    node["status"]["declaredFeatures"] = features
    return node


@pytest.mark.parametrize(
    ("spec", "feature"),
    [
        pytest.param(ON_HOST, "UserNamespacesHostNetworkSupport", id="users on the host's network"),
        pytest.param(
            {"containers": [{}, RESTARTS]},
            "RestartAllContainersOnContainerExits",
            id="a container restarts all",
        ),
        pytest.param(
            {"initContainers": [RESTARTS]},
            "RestartAllContainersOnContainerExits",
            id="an init container restarts all",
        ),
    ],
)
def test_features_that_a_node_does_not_declare_are_told_as_kube_scheduler_does(
    spec: Json, feature: str
) -> None:
    """NodeDeclaredFeatures, beta in 1.36: it has refused them before it asks us."""
    nodes = [
        declaring("has", ["ExtendWebSocketsToKubelet", feature]),
        declaring("lacks", ["ExtendWebSocketsToKubelet"]),
        declaring("silent", None),
    ]
    explanation = explained(a_pod(spec), *nodes)
    assert list(explanation.passing) == [b"has"]
    assert reasons(explanation) == {
        DECLARED: (Code.POD_FEATURES, Origin.POD, [b"lacks", b"silent"])
    }
    assert ("declaredFeature", feature) in [(r.kind, r.text) for r in explanation.requirements]
    # Where no kubelet declares anything, kube-scheduler is too old to look at it.
    assert explained(a_pod(spec), declaring("silent", None)).feasible == 1


@pytest.mark.parametrize(
    "spec",
    [
        {"hostNetwork": True, "hostUsers": True},
        {"hostNetwork": True},
        {"hostUsers": False},
        {"containers": [{"restartPolicyRules": [{"action": "Restart"}]}, None]},
    ],
)
def test_a_pod_that_needs_no_declared_feature_fits_where_none_is_declared(spec: Json) -> None:
    assert explained(a_pod(spec), declaring("n", [])).feasible == 1


BOUND_TO_LINUX = {"nodeName": "l", "os": {"name": "windows"}}


@pytest.mark.parametrize(
    ("pod", "state"),
    [
        pytest.param(a_pod({"schedulerName": "default-scheduler"}), [], id="as most"),
        pytest.param(
            a_pod({"schedulingGates": [{"name": "example.com/a"}, {"name": "b"}]}),
            ["No scheduler looks at it until its scheduling gates are removed: example.com/a, b."],
            id="gated",
        ),
        pytest.param(
            a_pod({"schedulerName": "batch"}),
            [
                "It is scheduled by batch, not by default-scheduler: what follows counts if that"
                " scheduler calls this extender."
            ],
            id="another scheduler",
        ),
        pytest.param(
            a_pod({"nodeName": "l", "schedulerName": "batch"}),
            ["It is already bound to l, which fits."],
            id="bound",
        ),
        pytest.param(
            a_pod(BOUND_TO_LINUX),
            [
                "It is already bound to l, which would be refused today: nodes don't match pod OS"
                ' "windows".'
            ],
            id="bound to what does not fit",
        ),
        pytest.param(
            a_pod({"nodeName": "gone"}),
            ["It is already bound to gone, which is not among the nodes judged here."],
            id="bound to a node that is not known",
        ),
        pytest.param(
            a_pod({"nodeName": "l"}, deletionTimestamp="2026-01-01T00:00:00Z"),
            [
                "It is being deleted since 2026-01-01T00:00:00Z.",
                "It is already bound to l, which fits.",
            ],
            id="being deleted",
        ),
    ],
)
def test_the_state_of_a_pod_is_told_first(pod: Json, state: list[str]) -> None:
    explanation = explained(pod, named("l", linux("v1.36.2")), named("w", windows("v1.36.2")))
    assert list(explanation.state) == state
    document = explanation_document(explanation)
    assert document.get("state", []) == state
    text = " ".join(explanation_text(document, Screen(200)).split())
    after = text.index("nodes are available")
    assert all(0 < text.index(" ".join(each.split())) < after for each in state)


def test_of_many_gates_a_few_are_named_and_none_moves_a_cursor() -> None:
    gates: Any = [{"name": f"\x1b[2Jg{number}"} for number in range(1000)]
    (sentence,) = explained(a_pod({"schedulingGates": gates}), linux("v1.36.2")).state
    assert "995 more" in sentence
    assert "\x1b" not in sentence
    assert len(sentence) < 300


@pytest.mark.parametrize(
    ("pod", "place"),
    [
        (a_pod({"schedulingGates": {}}), "Pod.spec.schedulingGates"),
        (a_pod({"nodeName": 1}), "Pod.spec.nodeName"),
        (a_pod(deletionTimestamp=1), "Pod.metadata.deletionTimestamp"),
        (
            a_pod({"initContainers": [{"restartPolicyRules": 1}]}),
            "Pod.spec.initContainers[0].restartPolicyRules",
        ),
    ],
)
def test_a_wrong_type_of_what_only_explain_reads_is_named(pod: Json, place: str) -> None:
    with pytest.raises(DecodeError) as caught:
        explained(pod, linux("v1.36.2"))
    assert str(caught.value).startswith(f"{place}: expected ")
