"""What explain and check say about the annotations of a class."""

import json
from typing import Any

import pytest

from extender.explain.explanation import Explanation, explain
from extender.explain.own_checks import Question
from extender.lint.registry import check_classes
from extender.model.objects import Node, Pod, RuntimeClass
from extender.rules.class_nodes import Support
from extender.rules.node_checks import HandlerCheck, Policy
from extender.rules.pools import nodes_of
from tests.cases_file import cases
from tests.property.test_class_rules import rules_class
from tests.stores import snapshot_of

NODES = [
    Node("n0", {"zone": "a"}, conditions=frozenset({("KataReady", "True")})),
    Node("n1", {"zone": "b"}, conditions=frozenset({("KataReady", "False")})),
]


def terms(*values: str, key: str = "zone") -> str:
    expressions = [{"key": key, "operator": "In", "values": [value]} for value in values]
    return json.dumps([{"matchExpressions": [each]} for each in expressions])


def explained(runtime_class: RuntimeClass, pod: Pod) -> Explanation:
    snapshot = snapshot_of(NODES, [runtime_class])
    return explain(Question(pod, runtime_class, nodes_of(snapshot), Policy()))


def test_each_requirement_is_told_in_the_order_it_is_judged_with_its_origin() -> None:
    runtime_class = rules_class(
        "c",
        {
            "unsupported": "hostPID",
            "node-selector-terms": terms("a", "b"),
            "node-conditions": "KataReady",
        },
        node_selector=(("k", "v"),),
    )
    found = explained(runtime_class, Pod(runtime_class_name="c", uses=frozenset()))
    assert [(each.kind, each.text, each.origin) for each in found.requirements] == [
        ("runtimeClass", "c", "Pod"),
        ("unsupported", "hostPID", "RuntimeClass"),
        ("nodeSelector", "k=v", "RuntimeClass"),
        ("nodeSelectorTerms", "zone In (a) or zone In (b)", "RuntimeClass"),
        ("condition", "KataReady=True", "RuntimeClass"),
        ("handler", "h", "RuntimeClass"),
    ]


def test_terms_that_admission_has_merged_are_told_as_both() -> None:
    runtime_class = rules_class("c", {"node-selector-terms": terms("x")})
    assert runtime_class.rules is not None
    pod = Pod(runtime_class_name="c", node_affinity=runtime_class.rules.terms)
    found = explained(runtime_class, pod)
    assert [(each.kind, each.origin) for each in found.requirements] == [
        ("runtimeClass", "Pod"),
        ("nodeSelectorTerms", "Both"),
        ("handler", "RuntimeClass"),
    ]
    (reason,) = found.reasons
    assert (reason.code, reason.origin, len(reason.nodes)) == ("selector", "Both", 2)
    (reason,) = explained(runtime_class, Pod(runtime_class_name="c")).reasons
    assert reason.origin == "RuntimeClass"


@pytest.mark.parametrize(
    ("annotations", "uses", "code", "nodes"),
    [
        ({"node-conditions": "KataReady"}, "", "condition", [b"n1"]),
        ({"unsupported": "hostPID"}, "hostPID", "unsupported", [b"n0", b"n1"]),
    ],
)
def test_what_the_class_says_is_the_class_to_blame_for(
    annotations: dict[str, str], uses: str, code: str, nodes: list[bytes]
) -> None:
    pod = Pod(runtime_class_name="c", uses=frozenset({uses}))
    (reason,) = explained(rules_class("c", annotations), pod).reasons
    assert (reason.code, reason.origin, reason.nodes) == (code, "RuntimeClass", nodes)


def checks_of(*classes: RuntimeClass, nodes: list[Node] = NODES) -> dict[str, str]:
    found = check_classes(snapshot_of(nodes, classes), Support(HandlerCheck.AUTO), Policy())
    return {each.check: each.what for each in found}


@cases
def test_every_mistake_in_an_annotation_is_found(
    annotation: str, value: str, check: str, words: str
) -> None:
    assert words in checks_of(rules_class("c", {annotation: value}))[check]


def test_sound_annotations_are_no_finding() -> None:
    key = "node-restriction.kubernetes.io/zone"
    said: dict[str, Any] = {
        "node-selector-terms": terms("a", key=key),
        "node-conditions": "KataReady",
        "unsupported": "hostNetwork, resource:nvidia.com/gpu",
        "isolation": "vm",
    }
    node = Node("n0", {key: "a"}, conditions=frozenset({("KataReady", "True")}))
    assert not checks_of(rules_class("c", said), nodes=[node])


def test_terms_on_labels_that_a_node_may_give_itself_are_worth_a_warning() -> None:
    found = checks_of(rules_class("c", {"node-selector-terms": terms("a")}))
    assert "selects nodes by zone alone" in found["self-set-label"]
