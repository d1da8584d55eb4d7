"""Laws of how admission applies a class's annotations, and of the class that fits a pod best."""

import json
import random
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.admission.fit import as_admitted, fit
from extender.admission.merging import Merge
from extender.admission.review import Reviewer, Unsupported
from extender.explain.explanation import explain
from extender.explain.own_checks import Question
from extender.kubernetes.class_annotations import FEATURES, ISOLATION_LEVELS
from extender.kubernetes.explained_pods import explained_pod
from extender.kubernetes.namespaces import ALLOWED_ANNOTATION, rules_of
from extender.kubernetes.quantity import billionths
from extender.model.objects import Node, Pod, RuntimeClass, SelectorTerm, Taint
from extender.model.pod_needs import Toleration
from extender.rules.node_checks import Policy
from extender.rules.node_selector import RequiredNodeAffinity
from extender.rules.pools import nodes_of
from tests.json_objects import Json
from tests.property import strategies as some
from tests.property.test_class_rules import (
    KEYS,
    NAMES,
    POD_USING,
    PREFIX,
    annotations,
    class_matches,
    rules_class,
    some_labels,
    some_terms,
)
from tests.reviews import Webhook
from tests.stores import snapshot_of


def terms_in(pod: Json) -> tuple[SelectorTerm, ...] | None:
    return explained_pod(json.dumps(pod).encode()).node_affinity


def pod_with(terms: list[Json] | None) -> Json:
    spec: Json = {"runtimeClassName": "c"}
    if terms is not None:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    return {"metadata": {"name": "p"}, "spec": spec}


def class_json(annotations: Json, name: str = "c", **fields: Any) -> Json:
    prefixed = {f"{PREFIX}{key}": value for key, value in annotations.items()}
    return {"metadata": {"name": name, "annotations": prefixed}, "handler": "h", **fields}


def test_a_merged_pod_goes_where_both_the_pod_and_its_class_let_it() -> None:
    """For 10,000 random nodes: the merged affinity matches if the pod's and the class's both do."""
    chance, matched = random.Random(4), 0
    for _ in range(100):
        of_class = some_terms(chance)
        of_pod = some_terms(chance) if chance.random() < 0.7 else None
        runtime_class = rules_class("c", {"node-selector-terms": json.dumps(of_class)})
        pod = pod_with(of_pod)
        if of_pod is None:
            pod["spec"]["affinity"] = chance.choice([None, {}, {"nodeAffinity": None}])
        webhook = Webhook(class_json({"node-selector-terms": json.dumps(of_class)}))
        merged = webhook.mutate(pod).applied_to(pod)
        assert webhook.mutate(merged).operations is None
        assert Reviewer(webhook.store).admitted(pod, "default")[1] == merged
        own, both = terms_in(pod), terms_in(merged)
        assert both is not None
        joined = RequiredNodeAffinity(both)
        alone = None if own is None else RequiredNodeAffinity(own)
        for number in range(100):
            node = Node(NAMES[number % 3], some_labels(chance))
            expected = class_matches(runtime_class, node) and (
                alone is None or alone.matches(node.labels, node.name)
            )
            assert joined.matches(node.labels, node.name) is expected
            matched += expected
    assert 500 < matched < 9_000


def expression(key: str, value: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}


def test_each_term_of_the_pod_is_joined_with_each_of_the_class_the_pods_first() -> None:
    of_class = [expression("a", "1"), expression("b", "2")]
    pod = pod_with([expression("p", "x"), expression("q", "y")])
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    pod["spec"]["affinity"]["nodeAffinity"] |= preferred
    pod["spec"]["affinity"]["podAffinity"] = {"x": 1}
    merged = Webhook(class_json({"node-selector-terms": json.dumps(of_class)})).mutate(pod)
    affinity = merged.applied_to(pod)["spec"]["affinity"]
    assert affinity["podAffinity"] == {"x": 1}
    terms = affinity["nodeAffinity"].pop("requiredDuringSchedulingIgnoredDuringExecution")
    assert affinity["nodeAffinity"] == preferred
    keys = [
        [each["key"] for each in term["matchExpressions"]] for term in terms["nodeSelectorTerms"]
    ]
    assert keys == [["p", "a"], ["p", "b"], ["q", "a"], ["q", "b"]]


def test_with_tolerations_alone_terms_go_where_the_node_selector_goes() -> None:
    of_class = class_json({"node-selector-terms": json.dumps([expression("a", "1")])})
    webhook = Webhook(of_class, merge=Merge.TOLERATIONS)
    pod = pod_with(None)
    assert webhook.mutate(pod).operations is None
    hard = {"whenUnsatisfiable": "DoNotSchedule"}
    for constraint, merged in (
        (hard, True),
        (hard | {"nodeAffinityPolicy": "Ignore"}, False),
        ({"whenUnsatisfiable": "ScheduleAnyway"}, False),
    ):
        pod["spec"]["topologySpreadConstraints"] = [constraint]
        assert bool(webhook.mutate(pod).operations) is merged


def test_terms_that_cannot_be_read_let_no_pod_in() -> None:
    answer = Webhook(class_json({"node-selector-terms": "{"})).mutate(pod_with(None))
    assert answer.message == (
        'pod rejected: RuntimeClass "c": annotation runtimeclass-extender/node-selector-terms'
        " can't be read"
    )


def test_a_pod_whose_terms_would_come_to_too_many_is_refused() -> None:
    count = 200
    of_class = [expression("a", str(number)) for number in range(count)]
    webhook = Webhook(class_json({"node-selector-terms": json.dumps(of_class)}))
    pod = pod_with([expression("p", str(number)) for number in range(count)])
    assert "more than 10,000 requirements" in webhook.mutate(pod).message


def test_the_longest_annotation_and_the_most_terms_make_no_large_patch() -> None:
    """A patch had 250 MB: each of a pod's thousand terms got the class's 250 KB."""
    names = [f"node-{number:05}.example" for number in range(11_000)]
    of_class = [{"matchExpressions": [{"key": "h", "operator": "In", "values": names}]}]
    text = json.dumps(of_class, separators=(",", ":"))
    webhook = Webhook(class_json({"node-selector-terms": text}))
    small = pod_with([expression("p", "1")])
    assert terms_in(webhook.mutate(small).applied_to(small)) is not None
    large = pod_with([expression("p", str(number)) for number in range(1000)])
    assert "more than 2,097,152 characters" in webhook.mutate(large).message


# What pods of the class can't use


@pytest.mark.parametrize("word", POD_USING)
def test_the_author_of_a_pod_is_warned_or_refused(word: str) -> None:
    of_class = class_json({"unsupported": f"{word}"})
    pod = {"metadata": {"name": "p"}, "spec": {**POD_USING[word], "runtimeClassName": "c"}}
    text = f'RuntimeClass "c": {word} is unsupported'
    warns = Webhook(of_class)
    for answer in (warns.mutate(pod), warns.validate(pod)):
        assert answer.allowed
        assert answer.raw["warnings"] == [text]
    denies = Webhook(of_class, unsupported=Unsupported.DENY)
    for answer in (denies.mutate(pod), denies.validate(pod)):
        assert answer.message == f"pod rejected: {text}"


def test_a_pod_that_uses_nothing_of_it_is_neither_warned_nor_refused() -> None:
    pod = {"spec": {"runtimeClassName": "c", "hostIPC": True}}
    for unsupported in Unsupported:
        webhook = Webhook(class_json({"unsupported": "hostPID"}), unsupported=unsupported)
        for answer in (webhook.mutate(pod), webhook.validate(pod)):
            assert answer.raw.keys() == {"uid", "allowed"}


def test_what_cannot_be_read_is_told_to_the_author_of_a_pod() -> None:
    webhook = Webhook(class_json({"unsupported": "hostNetwrok"}))
    (warning,) = webhook.mutate(pod_with(None)).raw["warnings"]
    assert warning == (
        'RuntimeClass "c": annotation runtimeclass-extender/unsupported can\'t be read'
    )


# Fitting

amounts = st.sampled_from(["0", "100m", "1", "64Mi", "160Mi"])
overheads = st.dictionaries(st.sampled_from(["cpu", "memory"]), amounts)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node], list[RuntimeClass]]:
    nodes = draw(some.node_lists)
    classes = []
    for each in draw(some.class_lists):
        said = draw(annotations())
        if draw(st.booleans()):
            said["isolation"] = draw(st.sampled_from([*ISOLATION_LEVELS, "castle"]))
        fields = rules_class(each.name, said)
        overhead = draw(overheads)
        classes.append(
            replace(each, rules=fields.rules, annotations=fields.annotations, overhead=overhead)
        )
    labelled = [
        replace(node, labels={**node.labels, draw(st.sampled_from(KEYS)): "a"}) for node in nodes
    ]
    return labelled, classes


uses = st.frozensets(st.sampled_from(FEATURES), max_size=2)


@given(
    clusters(),
    some.pods,
    uses,
    st.sampled_from(["", *ISOLATION_LEVELS]),
    st.sampled_from([None, "", "kata", "gvisor, kata"]),
)
def test_the_class_chosen_passes_explain_and_isolates_at_least_as_well_as_is_asked(
    cluster: tuple[list[Node], list[RuntimeClass]],
    pod: Pod,
    uses: frozenset[str],
    isolation: str,
    allowed: str | None,
) -> None:
    """The namespace allows it, no other allowed class is better, and the answer is stable."""
    nodes, classes = cluster
    snapshot = snapshot_of(nodes, classes)
    pod = replace(pod, uses=uses, runtime_class_name="")
    rules = rules_of("d", {} if allowed is None else {ALLOWED_ANNOTATION: allowed})
    found = fit(pod, snapshot, Policy(), rules, isolation)
    assert sorted(each.runtime_class.name for each in found) == sorted(c.name for c in classes)
    keys = []
    for each in found:
        runtime_class = each.runtime_class
        admitted = as_admitted(pod, runtime_class)
        feasible = explain(Question(admitted, runtime_class, nodes_of(snapshot), Policy())).feasible
        has = ISOLATION_LEVELS.index(runtime_class.isolation or "none")
        may = rules.allows(runtime_class.name) and (
            not isolation or has >= ISOLATION_LEVELS.index(isolation)
        )
        assert each.fits is bool(may and feasible)
        assert each.nodes == (feasible if each.fits else 0)
        assert bool(each.reason) is not each.fits
        overhead = runtime_class.overhead
        amounts = [billionths(overhead.get(name, "0")) for name in ("memory", "cpu")]
        if each.fits:
            keys.append((-each.nodes, *amounts, runtime_class.name))
    assert keys == sorted(keys)
    assert [each.fits for each in found] == sorted((e.fits for e in found), reverse=True)
    again = fit(pod, snapshot_of(nodes[::-1], classes[::-1]), Policy(), rules, isolation)
    assert [each.runtime_class for each in again] == [each.runtime_class for each in found]


def fitting_webhook(*classes: Json, nodes: list[Node] | None = None, allowed: str = "*") -> Webhook:
    rules = rules_of("default", {ALLOWED_ANNOTATION: allowed})
    webhook = Webhook(*classes, fits=True, gives_default=False, namespace_rules=lambda _: rules)
    nodes = [Node("n0", {"k": "a"}), Node("n1", {"k": "b"})] if nodes is None else nodes
    webhook.store.replace_all(nodes, webhook.store.snapshot.runtime_classes.values())
    return webhook


def asking(level: str, **spec: Any) -> Json:
    annotations = {f"{PREFIX}isolation": level}
    return {"metadata": {"name": "p", "annotations": annotations}, "spec": spec}


VM = class_json({"isolation": "vm"}, "kata", overhead={"podFixed": {"memory": "160Mi"}})
SANDBOX = class_json({"isolation": "sandbox"}, "gvisor")
CONFIDENTIAL = class_json(
    {"isolation": "confidential"}, "coco", scheduling={"nodeSelector": {"k": "a"}}
)


def test_a_pod_that_asks_for_isolation_gets_the_best_class_and_all_that_it_gives() -> None:
    pod = asking(" vm ")
    spec = fitting_webhook(VM, SANDBOX, CONFIDENTIAL).mutate(pod).applied_to(pod)["spec"]
    assert spec == {"runtimeClassName": "kata", "overhead": {"memory": "160Mi"}}
    light = class_json({"isolation": "vm"}, "light")
    spec = fitting_webhook(VM, light).mutate(pod).applied_to(pod)["spec"]
    assert spec == {"runtimeClassName": "light"}


def test_a_pod_that_asks_for_too_much_to_be_tried_keeps_no_thread_busy() -> None:
    """A thousand terms on 5,000 nodes that all differ in a label took 3 s for each class."""
    label = "kubernetes.io/hostname"
    names = [f"node-{number}" for number in range(5_000)]
    nodes = [Node(each, {label: each}) for each in names]
    classes = [class_json({"isolation": "vm"}, f"c{number}") for number in range(10)]
    webhook = fitting_webhook(*classes, nodes=nodes)
    few = asking("vm", affinity=pod_with([expression(label, "node-7")])["spec"]["affinity"])
    assert webhook.mutate(few).applied_to(few)["spec"]["runtimeClassName"] == "c0"
    terms = [expression(label, f"gone-{number}") for number in range(1_000)]
    tolerations = [{"key": f"key-{number}", "operator": "Exists"} for number in range(2_000)]
    for many in ({"affinity": pod_with(terms)["spec"]["affinity"]}, {"tolerations": tolerations}):
        began = time.process_time()
        answer = webhook.mutate(asking("vm", **many))
        assert time.process_time() - began < 6
        assert "too many to try on every node" in answer.message


def test_where_nothing_fits_the_pod_is_refused_and_each_class_told() -> None:
    answer = fitting_webhook(VM, SANDBOX, CONFIDENTIAL, allowed="kata,coco").mutate(
        asking("confidential", nodeSelector={"k": "b"})
    )
    assert answer.message == (
        "pod rejected: no RuntimeClass of isolation confidential fits:"
        ' "coco": 0/2 nodes are available: 2 nodes don\'t match RuntimeClass "coco"'
        " (pod nodeSelector k=b conflicts with k=a);"
        ' "gvisor": RuntimeClass "gvisor" is not allowed in namespace "default", which allows'
        ' "kata", "coco"; "kata": isolation vm, confidential is asked for'
    )
    many = [class_json({"isolation": "vm"}, f"c{number}") for number in range(10)]
    told = fitting_webhook(*many, nodes=[]).mutate(asking("vm")).message
    assert (told.count("0/0 nodes"), told.endswith("; and 2 more")) == (8, True)
    answer = fitting_webhook(VM).mutate(asking("castle"))
    assert answer.message == (
        'pod rejected: isolation "castle" of annotation runtimeclass-extender/isolation'
        " is none of none, sandbox, vm, confidential"
    )


def test_pods_that_ask_for_nothing_name_a_class_or_mirror_others_are_left_alone() -> None:
    webhook = fitting_webhook(VM)
    mirror = asking("vm")
    mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "x"
    named = asking("confidential", runtimeClassName="kata", overhead={"memory": "160Mi"})
    plain: Json = {"spec": {}}
    for pod in (plain, mirror, named):
        assert webhook.mutate(pod).operations is None
    assert Webhook(VM).mutate(asking("vm")).allowed, "fitted without the flag"


def test_a_class_is_fitted_only_once_nodes_and_classes_are_known() -> None:
    webhook = Webhook(VM, fits=True, gives_default=False)
    answer = webhook.mutate(asking("vm"))
    assert answer.raw["status"]["code"] == 503


def test_what_a_class_has_given_a_pod_is_left_aside() -> None:
    """Other classes are judged for the pod as it was before admission merged its class."""
    of_class, own = Toleration("a", "Exists"), Toleration("b", "Exists")
    kata = RuntimeClass("kata", "h", (("pool", "kata"),), (of_class,))
    nodes = [
        Node("n0", {"pool": "kata"}),
        Node("n1"),
        Node("n2", taints=(Taint("a", "", "NoSchedule"),)),
        *(Node(name, taints=(Taint("b", "", "NoSchedule"),)) for name in ("n3", "n4")),
    ]
    snapshot = snapshot_of(nodes, [kata, RuntimeClass("runc", "h")])
    selector = {"pool": "kata"}
    cases = (((of_class, own), {"runc": 4, "kata": 1}), ((own,), {"runc": 1, "kata": 1}))
    for tolerations, fitting in cases:
        merged = Pod(runtime_class_name="kata", node_selector=selector, tolerations=tolerations)
        found = fit(merged, snapshot, Policy())
        assert {each.runtime_class.name: each.nodes for each in found} == fitting
        assert found[0].fits
