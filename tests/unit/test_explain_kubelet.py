"""Explain: the pod's state first, doubtful kubelets, declared features, kubelets' rejections."""

import json
from typing import Any

import pytest

from extender.cli.output import Screen
from extender.explain.document import explanation_document
from extender.explain.explanation import Explanation, explain
from extender.explain.own_checks import Question
from extender.explain.requirements import Origin
from extender.explain.text import explanation_text
from extender.kubernetes.decoder import DecodeError
from extender.kubernetes.explained_pods import explained_pod
from extender.kubernetes.versions import Version
from extender.lint.registry import check_classes
from extender.model.reasons import Code
from extender.rules.class_nodes import Support
from extender.rules.kubelet_checks import KubeletCheck
from extender.rules.node_checks import Policy
from extender.rules.pools import nodes_of
from tests.cases_file import cases
from tests.json_objects import Json
from tests.stores import node_of, snapshot_of

STRICT = Policy(kubelet_check=KubeletCheck.STRICT)


def linux(name: str, version: str, *, users: bool = True) -> Json:
    """A Linux node with containerd 2.1; it reports handlers and features since kubelet 1.31."""
    return _node(name, version, "linux", "Debian GNU/Linux 12 (bookworm)", users, "runc")


def windows(name: str, version: str) -> Json:
    """A Windows node: neither its handlers nor its runtime have features."""
    image, handler = "Windows Server 2022 Datacenter", "runhcs-wcow-process"
    return _node(name, version, "windows", image, False, handler)


def _node(name: str, version: str, system: str, image: str, users: bool, handler: str) -> Json:
    is_linux = system == "linux"
    features = {"recursiveReadOnlyMounts": is_linux, "userNamespaces": users}
    status: Json = {
        "nodeInfo": {
            "kernelVersion": "6.12.0" if is_linux else "10.0.20348.2762",
            "osImage": image,
            "containerRuntimeVersion": "containerd://2.1.4",
            "kubeletVersion": version,
            "operatingSystem": system,
            "architecture": "amd64",
        }
    }
    if int(version.split(".")[1]) >= 31:
        names = ("", handler)
        status["runtimeHandlers"] = [{"name": each, "features": features} for each in names]
        status["features"] = {"supplementalGroupsPolicy": is_linux}
    return {"metadata": {"name": name, "labels": {"kubernetes.io/os": system}}, "status": status}


def explained(
    pod: Json, *nodes: Json, policy: Policy | None = None, version: Version | None = None
) -> Explanation:
    read = explained_pod(json.dumps(pod).encode())
    candidates = nodes_of(snapshot_of(map(node_of, nodes), []))
    return explain(Question(read, None, candidates, policy or Policy(), lambda: version))


def reasons(explanation: Explanation) -> dict[str, tuple[Code, Origin, list[bytes]]]:
    return {g.text: (g.code, g.origin, list(g.nodes)) for g in explanation.reasons}


def a_pod(spec: Json | None = None, **metadata: object) -> Json:
    return {"metadata": {"namespace": "default", "name": "web", **metadata}, "spec": spec or {}}


def test_what_a_kubelet_rejects_is_told_with_its_code() -> None:
    pod = a_pod(
        {"os": {"name": "windows"}, "resources": {"limits": {"cpu": "1"}}},
        labels={"kubernetes.io/os": "windows"},
    )
    explanation = explained(pod, linux("l", "v1.36.2"), windows("w", "v1.36.2"))
    assert reasons(explanation) == {
        'nodes don\'t match pod OS "windows"': (Code.OS, Origin.POD, [b"l"]),
        "Windows nodes lack pod-level resources": (Code.NODE_FEATURE, Origin.POD, [b"w"]),
    }
    assert [(each.kind, each.text) for each in explanation.requirements] == [
        ("os", "windows"),
        ("label", "kubernetes.io/os=windows"),
        ("resources", "of the pod as a whole"),
        ("request", "cpu=1"),
    ]


def test_a_check_that_is_off_is_no_requirement() -> None:
    pod = a_pod({"os": {"name": "windows"}})
    policy = Policy(kubelet_check=KubeletCheck.OFF)
    explanation = explained(pod, linux("l", "v1.36.2"), policy=policy)
    assert (explanation.feasible, list(explanation.requirements)) == (1, [])


@pytest.mark.parametrize("host_users", [True, False])
def test_a_kubelet_that_may_reject_host_users_is_warned_of(host_users: bool) -> None:
    nodes = [
        linux("old", "v1.31.14"),
        linux("older", "v1.32.9"),
        linux("older-2", "v1.32.1"),
        linux("new", "v1.33.5"),
        windows("windows", "v1.32.9"),
    ]
    pod, off = a_pod({"hostUsers": host_users}), Policy(kubelet_check=KubeletCheck.OFF)
    explanation = explained(pod, *nodes)
    warnings = explanation.warnings
    assert explanation.feasible == 5
    assert [text.partition(", which")[0] for text in warnings] == [
        "1 node has a kubelet v1.31",
        "2 nodes have a kubelet v1.32",
    ]
    assert all(("--kubelet-check strict" in each) is not host_users for each in warnings)
    assert not explained(pod, *nodes, policy=off).warnings
    assert not explained(a_pod(), *nodes).warnings


def test_strict_refuses_such_kubelets_and_has_nothing_to_warn_of() -> None:
    nodes = [linux("old", "v1.31.14"), linux("new", "v1.33.5")]
    explanation = explained(a_pod({"hostUsers": False}), *nodes, policy=STRICT)
    assert reasons(explanation) == {
        "nodes' kubelet v1.31 lacks user namespaces": (Code.NODE_FEATURE, Origin.POD, [b"old"])
    }
    assert not explanation.warnings
    # Such a kubelet rejects pods with hostUsers: true, too, but no check refuses the node.
    assert len(explained(a_pod({"hostUsers": True}), *nodes, policy=STRICT).warnings) == 1


def test_check_warns_of_such_kubelets_unless_a_flag_decides() -> None:
    nodes = [
        linux("old", "v1.31.14"),
        linux("older", "v1.32.9"),
        linux("without", "v1.32.9", users=False),
        linux("new", "v1.33.5"),
        windows("windows", "v1.32.9"),
    ]
    snapshot = snapshot_of(map(node_of, nodes), [])
    found = check_classes(snapshot, Support(STRICT.handler_check), Policy())
    assert [(each.check, each.what.partition(" and ")[0]) for each in found] == [
        ("user-namespaces-doubtful", "1 node has a kubelet v1.31"),
        ("user-namespaces-doubtful", "1 node has a kubelet v1.32"),
    ]
    for decided in (KubeletCheck.STRICT, KubeletCheck.OFF):
        policy = Policy(kubelet_check=decided)
        assert not check_classes(snapshot, Support(STRICT.handler_check), policy)


DECLARED = "node(s) didn't match Pod's required features"


def declaring(name: str, features: list[str] | None) -> Json:
    node = linux(name, "v1.36.2")
    node["status"]["declaredFeatures"] = features
    return node


@cases
def test_features_that_a_node_does_not_declare_are_told_as_kube_scheduler_does(
    feature: str, spec: Json
) -> None:
    """The plugin NodeDeclaredFeatures, beta in 1.36, refuses them before the extender is asked."""
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


@cases
def test_where_no_node_declares_anything_the_control_plane_s_version_decides(
    spec: Json, version: Any, fits: bool
) -> None:
    explanation = explained(
        a_pod(spec), declaring("silent", None), version=version and tuple(version)
    )
    assert explanation.feasible == fits
    assert reasons(explanation) == (
        {} if fits else {DECLARED: (Code.POD_FEATURES, Origin.POD, [b"silent"])}
    )


@cases
def test_a_pod_that_needs_no_declared_feature_fits_where_none_is_declared(spec: Json) -> None:
    assert explained(a_pod(spec), declaring("n", [])).feasible == 1


@cases
def test_the_state_of_a_pod_is_told_first(spec: Json, metadata: Json, state: list[str]) -> None:
    nodes = [linux("l", "v1.36.2"), windows("w", "v1.36.2")]
    explanation = explained(a_pod(spec, **metadata), *nodes)
    assert list(explanation.state) == state
    document = explanation_document(explanation)
    assert document.get("state", []) == state
    text = " ".join(explanation_text(document, Screen(200)).split())
    after = text.index("NODES REASON")
    assert all(0 < text.index(" ".join(each.split())) < after for each in state)


def test_of_many_gates_a_few_are_named_and_none_moves_a_cursor() -> None:
    gates: Any = [{"name": f"\x1b[2Jg{number}"} for number in range(1000)]
    (sentence,) = explained(a_pod({"schedulingGates": gates}), linux("n", "v1.36.2")).state
    assert "995 more" in sentence
    assert "\x1b" not in sentence
    assert len(sentence) < 300


@cases
def test_a_wrong_type_of_what_only_explain_reads_is_named(pod: Json, place: str) -> None:
    with pytest.raises(DecodeError) as caught:
        explained(pod, linux("n", "v1.36.2"))
    assert str(caught.value).startswith(f"{place}: expected ")
