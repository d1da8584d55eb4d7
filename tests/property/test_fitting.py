"""Laws of what admission makes of a class's annotations, and of the class that fits a pod best."""

import json
import random
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.admission.admitted import admitted_spec, reviewed
from extender.admission.joining_terms import MAX_REQUIREMENTS, TooManyTermsError, joined_terms
from extender.admission.merging import Merge
from extender.admission.namespace_rules import ALLOWED_ANNOTATION, rules_of
from extender.cluster.snapshot_store import SnapshotStore
from extender.decoding.class_annotations import FEATURES, ISOLATION_LEVELS
from extender.decoding.decoder import decode
from extender.decoding.pods import RawPod, explained_pod_of
from extender.objects import ClassRules, Node, Pod, RuntimeClass, SelectorRequirement, SelectorTerm
from extender.predicates.node_checks import Policy
from extender.predicates.node_selector import RequiredNodeAffinity
from extender.validation.quantity import parse_quantity
from extender.verbs.explain.candidate_nodes import nodes_of
from extender.verbs.explain.explanation import explain
from extender.verbs.fitting_classes import as_admitted, best, fit
from extender.verbs.review import Unsupported
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

Json = dict[str, Any]

LAW = settings(max_examples=200, deadline=None)


def terms_in(pod: Json) -> tuple[SelectorTerm, ...] | None:
    return explained_pod_of(decode(json.dumps(pod).encode(), RawPod)).node_affinity


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
    """For 25,000 random nodes: in tree, the merged affinity matches iff pod's and class's do."""
    chance, matched = random.Random(4), 0
    for _ in range(250):
        of_class = some_terms(chance)
        of_pod = some_terms(chance) if chance.random() < 0.7 else None
        runtime_class = rules_class("c", {"node-selector-terms": json.dumps(of_class)})
        pod = pod_with(of_pod)
        webhook = Webhook(class_json({"node-selector-terms": json.dumps(of_class)}))
        merged = webhook.mutate(pod).applied_to(pod)
        assert webhook.mutate(merged).operations is None
        assert admitted_spec(pod["spec"], reviewed(pod), runtime_class) == merged["spec"]
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
    assert 1_250 < matched < 22_500


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


@pytest.mark.parametrize("affinity", [None, {}, {"nodeAffinity": None}, {"nodeAffinity": {}}])
def test_a_pod_without_required_affinity_gets_the_terms_of_its_class(affinity: Any) -> None:
    pod = pod_with(None)
    pod["spec"]["affinity"] = affinity
    webhook = Webhook(class_json({"node-selector-terms": json.dumps([expression("a", "1")])}))
    merged = webhook.mutate(pod).applied_to(pod)
    required = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [expression("a", "1")]
        }
    }
    assert merged["spec"]["affinity"] == {"nodeAffinity": required}


def test_with_tolerations_alone_terms_go_where_the_node_selector_goes() -> None:
    of_class = class_json({"node-selector-terms": json.dumps([expression("a", "1")])})
    webhook = Webhook(of_class, merge=Merge.TOLERATIONS)
    pod = pod_with(None)
    assert webhook.mutate(pod).operations is None
    pod["spec"]["topologySpreadConstraints"] = [{"whenUnsatisfiable": "DoNotSchedule"}]
    assert webhook.mutate(pod).operations is not None


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
    rules = ClassRules(terms=tuple(terms_in(pod) or ()))
    many = tuple(
        SelectorTerm((SelectorRequirement("k", "In", (str(number),)),))
        for number in range(MAX_REQUIREMENTS)
    )
    with pytest.raises(TooManyTermsError):
        joined_terms(many, rules)


def test_the_longest_annotation_and_the_most_terms_make_no_large_patch() -> None:
    """A thousand terms of a pod that each got a class's 250 KB: the patch had 250 MB."""
    names = [f"node-{number:05}.example" for number in range(11_000)]
    of_class = [{"matchExpressions": [{"key": "h", "operator": "In", "values": names}]}]
    webhook = Webhook(
        class_json({"node-selector-terms": json.dumps(of_class, separators=(",", ":"))})
    )
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
    for unsupported in Unsupported:
        webhook = Webhook(class_json({"unsupported": "hostPID"}), unsupported=unsupported)
        pod = {"spec": {"runtimeClassName": "c", "hostIPC": True}}
        assert webhook.mutate(pod).raw.keys() == {"uid", "allowed"}
        assert webhook.validate(pod).raw.keys() == {"uid", "allowed"}


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


@LAW
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
    """And is allowed in the namespace; no other that is would be better; each answer is stable."""
    nodes, classes = cluster
    store = SnapshotStore()
    store.replace_all(nodes, classes)
    pod = replace(pod, uses=uses, runtime_class_name="")
    rules = rules_of("d", {} if allowed is None else {ALLOWED_ANNOTATION: allowed})
    found = fit(pod, store.snapshot, Policy(), rules, isolation)
    assert sorted(each.runtime_class.name for each in found) == sorted(c.name for c in classes)
    keys = []
    for each in found:
        runtime_class = each.runtime_class
        admitted = as_admitted(pod, runtime_class)
        feasible = explain(admitted, runtime_class, nodes_of(store.snapshot), Policy()).feasible
        has = ISOLATION_LEVELS.index(runtime_class.isolation or "none")
        may = rules.allows(runtime_class.name) and (
            not isolation or has >= ISOLATION_LEVELS.index(isolation)
        )
        assert each.fits is bool(may and feasible)
        assert each.nodes == (feasible if each.fits else 0)
        assert bool(each.reason) is not each.fits
        overhead = runtime_class.overhead
        amounts = [parse_quantity(overhead.get(name, "0")) for name in ("memory", "cpu")]
        if each.fits:
            keys.append((-each.nodes, *amounts, runtime_class.name))
    assert keys == sorted(keys)
    assert [each.fits for each in found] == sorted((e.fits for e in found), reverse=True)
    again = SnapshotStore()
    again.replace_all(reversed(nodes), reversed(classes))
    names = [each.runtime_class.name for each in found]
    assert [
        each.runtime_class.name for each in fit(pod, again.snapshot, Policy(), rules, isolation)
    ] == names


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


@pytest.mark.parametrize(
    ("pod", "allowed", "chosen"),
    [
        pytest.param(asking("confidential"), "*", "coco", id="fewer nodes, but the only one"),
        pytest.param(asking("sandbox"), "*", "gvisor", id="least overhead"),
        pytest.param(asking("sandbox"), "coco", "coco", id="allowed there"),
        pytest.param(asking("none", nodeSelector={"k": "b"}), "coco,kata", "kata", id="its node"),
    ],
)
def test_never_weaker_and_never_another_than_the_namespace_allows(
    pod: Json, allowed: str, chosen: str
) -> None:
    webhook = fitting_webhook(VM, SANDBOX, CONFIDENTIAL, allowed=allowed)
    assert webhook.mutate(pod).applied_to(pod)["spec"]["runtimeClassName"] == chosen


def test_a_pod_that_asks_for_too_much_to_be_tried_keeps_no_thread_busy() -> None:
    """A thousand terms on 5,000 nodes that all differ in a label took 3 s for each class."""
    label = "kubernetes.io/hostname"
    names = [f"node-{number}" for number in range(5_000)]
    nodes = [Node(each, {label: each}) for each in names]
    classes = [class_json({"isolation": "vm"}, f"c{number}") for number in range(10)]
    webhook = fitting_webhook(*classes, nodes=nodes)
    few = asking("vm", **pod_with([expression(label, "node-7")])["spec"])
    del few["spec"]["runtimeClassName"]
    assert webhook.mutate(few).applied_to(few)["spec"]["runtimeClassName"] == "c0"
    terms = [expression(label, f"gone-{number}") for number in range(1_000)]
    many = asking("vm", **pod_with(terms)["spec"])
    del many["spec"]["runtimeClassName"]
    began = time.process_time()
    answer = webhook.mutate(many)
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


def test_a_class_is_fitted_only_once_nodes_and_classes_are_known() -> None:
    webhook = Webhook(VM, fits=True, gives_default=False)
    answer = webhook.mutate(asking("vm"))
    assert answer.raw["status"]["code"] == 503


def test_what_a_class_has_given_a_pod_is_left_aside() -> None:
    """A pod that runs with one class may fit others, as it was before admission merged it."""
    store = SnapshotStore()
    kata = RuntimeClass("kata", "h", (("pool", "kata"),))
    runc = RuntimeClass("runc", "h")
    nodes = [Node("n0", {"pool": "kata"}), Node("n1")]
    store.replace_all(nodes, [kata, runc])
    merged = Pod(runtime_class_name="kata", node_selector={"pool": "kata"})
    found = fit(merged, store.snapshot, Policy())
    assert [(each.runtime_class.name, each.nodes) for each in found] == [("runc", 2), ("kata", 1)]
    assert best(found) == found[0]
