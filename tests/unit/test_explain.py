"""explain: origins, what a merge by the admission plugin changes, and warnings."""

import json
import time
from dataclasses import replace
from typing import Any, Final

import orjson
import pytest

from extender.explain.explanation import Explanation, explain
from extender.explain.own_checks import Question
from extender.explain.requirements import Origin
from extender.kubernetes.explained_pods import explained_pod
from extender.model.objects import UNSCHEDULABLE_TAINT_KEY, Handler, Node, Pod, RuntimeClass, Taint
from extender.model.pod_needs import Toleration
from extender.model.reasons import Code
from extender.rules.node_checks import Policy
from extender.rules.pools import nodes_of
from tests.cases_file import cases
from tests.stores import snapshot_of


def explained(
    pod: Pod, nodes: list[Node], classes: dict[str, RuntimeClass], policy: Policy | None = None
) -> Explanation:
    snapshot = snapshot_of(nodes, classes.values())
    runtime_class = snapshot.runtime_classes.get(pod.runtime_class_name)
    return explain(Question(pod, runtime_class, nodes_of(snapshot), policy or Policy()))


def reasons(explanation: Explanation) -> dict[str, tuple[Code, Origin, list[bytes]]]:
    return {g.text: (g.code, g.origin, list(g.nodes)) for g in explanation.reasons}


KATA: Final = RuntimeClass(
    "kata",
    "kata",
    (("kata", "true"),),
    (Toleration("sandbox", "Equal", "kata", "NoSchedule"),),
    {"cpu": "250m"},
)
SANDBOX: Final = Taint("sandbox", "kata", "NoSchedule")
POOL: Final = [
    Node("a", {"kata": "true", "pool": "all"}, (SANDBOX,)),
    Node("b", {"kata": "true", "pool": "all"}, (SANDBOX,)),
    Node("c", {"kata": "true", "pool": "all", "old": "1"}),
]


def kata(pod: Pod) -> Explanation:
    return explained(pod, POOL, {"kata": KATA})


def printed_in(explanation: Explanation) -> Any:
    """The toleration that the only warning prints."""
    (warning,) = explanation.warnings
    return json.loads(warning[warning.index("{") :])


def test_a_taint_that_only_the_class_tolerates_is_the_pods_and_the_toleration_is_printed() -> None:
    explanation = kata(Pod(runtime_class_name="kata"))
    assert reasons(explanation) == {
        "node(s) had untolerated taint(s)": (Code.POD_TAINT, Origin.POD, [b"a", b"b"])
    }
    assert explanation.warnings[0].startswith("2 nodes have taint sandbox=kata:NoSchedule")
    toleration = {"key": "sandbox", "operator": "Equal", "value": "kata", "effect": "NoSchedule"}
    assert printed_in(explanation) == toleration


@pytest.mark.parametrize(
    ("tolerations", "printed"),
    [
        pytest.param(
            (Toleration("x", "Exists", seconds=60),),
            {"key": "x", "operator": "Exists", "tolerationSeconds": 60},
            id="with its seconds",
        ),
        pytest.param(
            (Toleration("", "Exists"), Toleration("x", "Exists")),
            {"operator": "Exists"},
            id="once, though several taints need it",
        ),
    ],
)
def test_a_toleration_that_is_missing_is_printed(
    tolerations: tuple[Toleration, ...], printed: dict[str, Any]
) -> None:
    classes = {"kata": RuntimeClass("kata", "kata", (), tolerations)}
    keys = ("x", "y", "z") if len(tolerations) > 1 else ("x",)
    nodes = [Node(key, {}, (Taint(key, "", "NoExecute"),)) for key in keys]
    assert printed_in(explained(Pod(runtime_class_name="kata"), nodes, classes)) == printed


@cases
def test_an_entry_that_pod_and_class_both_have_is_a_requirement_of_both(
    own: dict[str, str], origin: Origin, of_pod: list[str]
) -> None:
    found = [
        (each.text, each.origin)
        for each in kata(Pod(runtime_class_name="kata", node_selector=own)).requirements
        if each.kind == "nodeSelector"
    ]
    assert found == [("kata=true", origin), *((text, Origin.POD) for text in of_pod)]


@pytest.mark.parametrize(("uid", "told"), [("", True), ("u", False)])
def test_only_of_a_pod_that_does_not_exist_yet_is_admission_expected(uid: str, told: bool) -> None:
    (warning,) = kata(Pod(uid=uid, runtime_class_name="kata", overhead=KATA.overhead)).warnings
    assert ("admission may add the class's tolerations" in warning) is told


@cases
def test_stale_merges_are_named(fields: dict[str, Any], said: list[str]) -> None:
    tolerant = Pod(runtime_class_name="kata", tolerations=KATA.tolerations, **fields)
    warnings = kata(tolerant).warnings
    assert len(warnings) == len(said)
    for warning, words in zip(warnings, said, strict=True):
        assert words in warning
    bare = explained(tolerant, POOL, {"kata": replace(KATA, overhead={})}).warnings
    assert any("none today" in each for each in bare) is bool(tolerant.overhead)


def test_unknown_nodes_of_a_plain_pod_are_told_as_unknown() -> None:
    nodes = nodes_of(snapshot_of(POOL, []), [b"c", b"stranger"])
    found = explain(Question(Pod(), None, nodes, Policy()))
    assert found.passing == [b"c"]
    text = "nodes not yet known to the RuntimeClass extender"
    assert reasons(found) == {text: (Code.UNKNOWN_NODE, Origin.NODE, [b"stranger"])}


def test_beyond_eight_details_plain_texts_are_told_apart_by_cause() -> None:
    """Both nodes would have one text, but a taint and a handler are two causes."""
    nodes = [
        Node(f"n{index}", {"kata": "true"}, (Taint(f"t{index}", "", "NoSchedule"),))
        for index in range(9)
    ]
    nodes.append(Node("z", {"kata": "true"}, (), frozenset({Handler("runc")})))
    explanation = explained(Pod(runtime_class_name="kata"), nodes, {"kata": KATA})
    plain = [g for g in explanation.reasons if g.text.endswith('"kata"')]
    assert sorted(g.code for g in plain) == [Code.TAINT]
    assert sum(len(g.nodes) for g in explanation.reasons) == 10


def of_a_daemon_set(*terms: dict[str, Any], **spec: Any) -> Pod:
    required = {"nodeSelectorTerms": list(terms)}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    document = {"metadata": {"name": "p"}, "spec": {"affinity": affinity, **spec}}
    return explained_pod(orjson.dumps(document))


def test_the_pods_own_requirements_come_in_the_order_of_kube_schedulers_plugins() -> None:
    wanted = of_a_daemon_set(
        {"matchExpressions": [{"key": "x", "operator": "Exists"}]},
        nodeSelector={"a": "b"},
        tolerations=[{"key": "k"}],
    )
    kinds = [each.kind for each in explained(wanted, POOL, {}).requirements]
    assert kinds == ["toleration", "nodeSelector", "nodeAffinity"]


def test_what_the_class_tolerates_is_told_of_a_cordoned_node_too() -> None:
    """Once the node is uncordoned, its taint keeps the pod away."""
    tainted = Node("a", {"kata": "true"}, (SANDBOX,), unschedulable=True)
    explanation = explained(Pod(runtime_class_name="kata"), [tainted], {"kata": KATA})
    assert [each.code for each in explanation.reasons] == [Code.CORDONED]
    assert "tolerates, but not the pod" in explanation.warnings[0]


def test_a_cordon_is_none_of_the_class_where_the_node_controller_has_made_it_a_taint_too() -> None:
    cordon = Taint(UNSCHEDULABLE_TAINT_KEY, "", "NoSchedule")
    nodes = [
        Node("a", {"kata": "true"}, (cordon,), unschedulable=True),
        Node("b", {"kata": "true"}, (cordon,), frozenset({Handler("runc")}), unschedulable=True),
    ]
    explanation = explained(Pod(runtime_class_name="kata"), nodes, {"kata": KATA})
    found = {each.code: [*each.nodes] for each in explanation.reasons}
    assert found == {Code.CORDONED: [b"a"], Code.HANDLER: [b"b"]}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@cases
def test_a_term_that_does_not_parse_is_named(term: dict[str, Any], fault: str) -> None:
    """kube-scheduler silently drops such a term, whether the pod has a class or not."""
    for spec in ({}, {"runtimeClassName": "kata"}):
        pod = of_a_daemon_set(expression("old", "Exists"), {}, term, **spec)
        explanation = explained(pod, POOL, {"kata": KATA})
        assert explanation.passing == [b"c"]
        assert explanation.warnings[0] == (
            "nodeSelectorTerms[2] of the pod's required node affinity does not parse and so matches"
            f" no node: {fault}"
        )


NOT_READY: Final = Taint("node.kubernetes.io/not-ready", "", "NoExecute")
DEDICATED: Final = Taint("dedicated", "gpu", "NoSchedule")


def test_a_taint_that_says_how_a_node_is_comes_from_the_node_and_not_from_the_class() -> None:
    nodes = [
        Node("broken", taints=(NOT_READY,)),
        Node("kept", taints=(DEDICATED,)),
        Node("kept-and-broken", taints=(DEDICATED, NOT_READY)),
    ]
    classes = {"kata": RuntimeClass("kata", "kata")}

    def origins(*tolerations: Toleration) -> dict[Origin, list[bytes]]:
        pod = Pod(runtime_class_name="kata", tolerations=tolerations)
        return {each.origin: [*each.nodes] for each in explained(pod, nodes, classes).reasons}

    assert origins() == {
        Origin.NODE: [b"broken"],
        Origin.RUNTIME_CLASS: [b"kept", b"kept-and-broken"],
    }
    assert origins(Toleration("dedicated", "Exists")) == {
        Origin.NODE: [b"broken", b"kept-and-broken"]
    }


def test_what_a_comparison_tolerates_is_no_cause() -> None:
    node = Node("n1", taints=(Taint("level", "5", "NoSchedule"), NOT_READY))
    pod = Pod(runtime_class_name="kata", tolerations=(Toleration("level", "Gt", "3"),))
    classes = {"kata": RuntimeClass("kata", "kata")}
    for compared, origin in ((True, Origin.NODE), (False, Origin.RUNTIME_CLASS)):
        policy = Policy(comparison_operators=compared)
        (reason,) = explained(pod, [node], classes, policy).reasons
        assert (reason.origin, compared) == (origin, "not-ready" in reason.text)


def test_a_pod_that_asks_for_many_labels_is_explained_as_soon_as_one_that_asks_for_few() -> None:
    """A lookup of each of 20,000 keys in the labels of each of 2,000 nodes took 11 s."""
    labels = {f"label-{number}": "v" for number in range(20)}
    snapshot = snapshot_of([Node(f"node-{number}", labels) for number in range(2_000)], [])
    selector = {**labels, **{f"key-{number}": "v" for number in range(20_000)}}
    nodes = nodes_of(snapshot)
    began = time.process_time()
    assert explain(Question(Pod(node_selector=selector), None, nodes, Policy())).feasible == 0
    assert time.process_time() - began < 4
    assert explain(Question(Pod(node_selector=labels), None, nodes, Policy())).feasible == 2_000
    other = {**labels, "label-7": "w"}
    assert explain(Question(Pod(node_selector=other), None, nodes, Policy())).feasible == 0
