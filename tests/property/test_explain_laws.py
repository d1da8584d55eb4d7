"""Laws of explain, for any cluster and pod."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from extender.explain.document import explanation_document, nodes_document, scores_document
from extender.explain.explanation import Explanation, explain
from extender.explain.own_checks import Question
from extender.explain.requirements import Origin
from extender.model.names import text_of
from extender.model.objects import Node, Pod, RuntimeClass, SelectorRequirement, SelectorTerm
from extender.model.reasons import Code
from extender.rules.class_nodes import Support, classes_of_node, nodes_of_class
from extender.rules.node_checks import HandlerCheck, Policy, Requirements
from extender.rules.node_selector import RequiredNodeAffinity
from extender.rules.node_shape import Wanted
from extender.rules.pools import described_nodes, nodes_of
from extender.verbs import bodies
from extender.verbs.prioritize import Preferences
from tests import naive
from tests.property import strategies as some
from tests.stores import snapshot_of

OWN = {Code.POD_SELECTOR, Code.POD_AFFINITY, Code.POD_TAINT, Code.CORDONED}

CONFLICT = "pod affinity terms conflict"
LEFT_OUT = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
NO_MATCH = "node(s) didn't match Pod's node affinity/selector"

requirements = st.builds(
    SelectorRequirement,
    key=some.KEYS,
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "in"]),
    values=st.lists(some.VALUES, max_size=2).map(tuple),
)
fields = st.builds(
    SelectorRequirement,
    key=st.just("metadata.name"),
    operator=st.sampled_from(["In", "In", "NotIn"]),
    values=st.lists(st.sampled_from([*some.NODE_NAMES[:4], ""]), min_size=1, max_size=2).map(tuple),
)
terms = st.builds(
    SelectorTerm,
    st.lists(requirements, max_size=2).map(tuple),
    st.lists(fields, max_size=2).map(tuple),
)
affinities = st.one_of(st.none(), st.lists(terms, max_size=2).map(tuple))
pods = st.builds(lambda pod, affinity: replace(pod, node_affinity=affinity), some.pods, affinities)


def explained(
    nodes: list[Node], classes: list[RuntimeClass], pod: Pod, check: HandlerCheck
) -> Explanation:
    snapshot = snapshot_of(nodes, classes)
    runtime_class = snapshot.runtime_classes.get(pod.runtime_class_name)
    return explain(Question(pod, runtime_class, nodes_of(snapshot), Policy(check)))


def left_by_name(pod: Pod) -> set[str] | None:
    """The node names that NodeAffinity's PreFilter leaves; None if it leaves every node."""
    left: set[str] = set()
    for term in pod.node_affinity or ():
        asked = [set(each.values) for each in term.match_fields if each.operator == "In"]
        if not asked:
            return None
        left |= set.intersection(*asked)
    return left if pod.node_affinity else None


def own_reason(pod: Pod, node: Node) -> tuple[str, Code] | None:
    """The pod's own requirements, one after the other, in the order of kube-scheduler's plugins."""
    left = left_by_name(pod)
    if left is not None and node.name not in left:
        return (LEFT_OUT if left else CONFLICT), Code.POD_AFFINITY
    if node.unschedulable and not any(
        each.key in ("", "node.kubernetes.io/unschedulable")
        and each.effect in ("", "NoSchedule")
        and (each.operator == "Exists" or (each.operator in ("", "Equal") and not each.value))
        for each in pod.tolerations
    ):
        return "node(s) were unschedulable", Code.CORDONED
    hard = [taint for taint in node.taints if taint.effect in naive.HARD]
    if not all(any(naive.tolerates(each, taint) for each in pod.tolerations) for taint in hard):
        return "node(s) had untolerated taint(s)", Code.POD_TAINT
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return NO_MATCH, Code.POD_SELECTOR
    if pod.node_affinity is not None and not RequiredNodeAffinity(pod.node_affinity).matches(
        node.labels, node.name
    ):
        return NO_MATCH, Code.POD_AFFINITY
    return None


@given(some.node_lists, some.class_lists, pods, some.checks)
def test_each_node_has_the_first_reason_that_holds(
    nodes: list[Node], classes: list[RuntimeClass], pod: Pod, check: HandlerCheck
) -> None:
    """The filter's exact reason; if the filter has none, the pod's own requirements."""
    explanation = explained(nodes, classes, pod, check)
    by_name = {name: (g.text, g.code) for g in explanation.reasons for name in g.nodes}
    texts = naive.reasons(pod, {each.name: each for each in classes}, list(nodes), Policy(check))
    for node, text in zip(nodes, texts, strict=True):
        said, code = by_name.get(node.name.encode(), (None, None))
        if text is not None:
            assert said == text
            assert code not in OWN
        else:
            assert (said, code) == (own_reason(pod, node) or (None, None))


@given(some.node_lists, some.class_lists, pods, some.checks)
def test_counts_lists_and_summary_tell_the_same(
    nodes: list[Node], classes: list[RuntimeClass], pod: Pod, check: HandlerCheck
) -> None:
    """feasible + counts = total; named are the first five; nodes=all agrees with the reasons."""
    explanation = explained(nodes, classes, pod, check)
    document = explanation_document(explanation)
    everyone = nodes_document(explanation)
    assert set(everyone) == {node.name for node in nodes}
    counted: Counter[str] = Counter()
    for each in document["reasons"]:
        counted[each["reason"]] += each["count"]
        names = sorted(name for name, text in everyone.items() if text == each["reason"])
        assert set(each["nodes"]) <= set(names)
        assert each["nodes"] == sorted(each["nodes"])
        assert len(each["nodes"]) == min(5, each["count"])
        assert each["leftOut"] == each["count"] - len(each["nodes"])
    assert document["leftOut"] == sum(each["leftOut"] for each in document["reasons"])
    assert Counter(text for text in everyone.values() if text) == counted
    assert document["feasible"] == list(everyone.values()).count("")
    assert document["total"] == len(nodes) == document["feasible"] + sum(counted.values())
    strings = sorted(f"{count} {text}" for text, count in counted.items())
    tail = f": {', '.join(strings)}." if strings else "."
    if counted.keys() == {CONFLICT}:
        tail = f": {CONFLICT}."  # kube-scheduler has not looked at a node yet
    feasible = document["feasible"]
    assert document["summary"] == f"{feasible}/{len(nodes)} nodes are available{tail}"


@given(some.node_lists, some.class_lists, pods, some.checks)
def test_nodes_described_in_a_request_are_judged_as_known_ones(
    nodes: list[Node], classes: list[RuntimeClass], pod: Pod, check: HandlerCheck
) -> None:
    """Both forms of ExtenderArgs give each node the same reason and origin."""
    snapshot = snapshot_of(nodes, classes)
    runtime_class = snapshot.runtime_classes.get(pod.runtime_class_name)
    names = bodies.run_of([node.name for node in nodes]).names
    wanted = Wanted.of((runtime_class,) if runtime_class else ())
    candidates = described_nodes(nodes, names, wanted)
    described = explain(Question(pod, runtime_class, candidates, Policy(check)))
    known = explain(Question(pod, runtime_class, nodes_of(snapshot, names), Policy(check)))
    assert described.reasons == known.reasons
    assert described.passing == known.passing
    assert described.warnings == known.warnings


@given(some.node_lists, some.class_lists, pods, some.checks)
def test_a_merge_changes_no_reason_of_the_class(
    nodes: list[Node], classes: list[RuntimeClass], pod: Pod, check: HandlerCheck
) -> None:
    """The class refuses a node for the same reason before and after the merge; the origin of a
    selector or taint of the class is Both afterwards."""
    by_name = {each.name: each for each in classes}
    runtime_class = by_name.get(pod.runtime_class_name)
    if runtime_class is None or any(
        pod.node_selector.get(key, value) != value for key, value in runtime_class.node_selector
    ):
        return
    merged = replace(
        pod,
        node_selector={**pod.node_selector, **dict(runtime_class.node_selector)},
        tolerations=(*pod.tolerations, *runtime_class.tolerations),
    )
    before, after = (explained(nodes, classes, each, check) for each in (pod, merged))

    def of_class(explanation: Explanation) -> list[tuple[str, Code, tuple[bytes, ...]]]:
        groups = (g for g in explanation.reasons if g.code not in OWN)
        return [(group.text, group.code, tuple(group.nodes)) for group in groups]

    assert of_class(before) == of_class(after)
    something = bool(runtime_class.node_selector or runtime_class.tolerations)
    for group in after.reasons:
        if group.code is Code.TAINT and "node.kubernetes.io/" in group.text:
            assert group.origin is Origin.NODE
        elif group.code is Code.TAINT and group.origin is Origin.NODE:
            assert "(" not in group.text  # beyond eight details the text is plain
        elif group.code is Code.SELECTOR or (group.code is Code.TAINT and something):
            assert group.origin is Origin.BOTH
        elif group.code is Code.HANDLER:
            assert group.origin is Origin.RUNTIME_CLASS


@given(some.node_lists, some.class_lists, some.checks)
def test_matching_without_a_pod_is_told_the_same_everywhere(
    nodes: list[Node], classes: list[RuntimeClass], check: HandlerCheck
) -> None:
    """The gauge, the nodes of a class and the classes of a node agree with the predicate."""
    snapshot, policy = snapshot_of(nodes, classes), Policy(check)
    counts = Support(check).counts(snapshot)
    supporting: Counter[int] = Counter()
    matching = {}
    names = [node.name.encode() for node in nodes]
    shapes = {name: shape for name in names if (shape := snapshot.shape(name)) is not None}
    assert list(shapes) == names
    for runtime_class in snapshot.runtime_classes.values():
        found = nodes_of_class(runtime_class, snapshot, policy)
        requirements = Requirements.without_pod(runtime_class, check)
        expected = [name for name in names if requirements.mismatch(shapes[name]) is None]
        assert list(found.matching) == sorted(expected)
        refused = [name for _, group in found.not_matching for name in group]
        assert sorted([*found.matching, *refused]) == sorted(names)
        matching[runtime_class.name] = len(expected)
    for shape in shapes.values():
        classes_there = classes_of_node(shape, snapshot.runtime_classes.values(), policy)
        supporting[sum(reason is None for _, reason in classes_there)] += 1
    assert dict(counts.nodes) == matching
    assert dict(counts.by_count) == dict(supporting)


@given(some.node_lists, some.class_lists, some.asked_names, some.checks, st.data())
def test_the_evidence_of_a_score_is_the_score(
    nodes: list[Node],
    classes: list[RuntimeClass],
    asked: list[str],
    check: HandlerCheck,
    data: st.DataObject,
) -> None:
    """explain shows the scores that prioritize answers, and `serves` explains the cost."""
    snapshot = snapshot_of(nodes, classes)
    own = data.draw(st.sampled_from([None, *snapshot.runtime_classes.values()]))
    run = bodies.run_of(asked)
    preferences = Preferences(check)
    found = scores_document(own, snapshot, run.names, preferences)
    scores = preferences.scores(own, snapshot, run).scores
    expected = dict(zip(map(text_of, run.names), scores, strict=True))
    assert {name: each["score"] for name, each in found.items()} == expected
    for each in found.values():
        others = [name for name in each["serves"] if own is None or name != own.name]
        assert bool(each["cost"]) <= bool(others)


#: Text that could be mistaken for the end of a key or the beginning of another.
awkward = st.text(st.sampled_from(['"', "\\", ",", ":", "{", "a"]), max_size=4)


@given(
    st.lists(st.dictionaries(awkward, awkward, max_size=3), max_size=4),
    st.dictionaries(awkward, awkward, max_size=2),
)
def test_labels_are_judged_alike_however_they_are_kept(
    labels: list[dict[str, str]], selector: dict[str, str]
) -> None:
    """Exactly the nodes with the labels fit, in a snapshot and in a request."""
    nodes = [Node(f"n{number}", each) for number, each in enumerate(labels)]
    names = [node.name.encode() for node in nodes]
    pod = Pod(name="p", node_selector=selector)
    described = explain(Question(pod, None, described_nodes(nodes, names, Wanted()), Policy()))
    fitting = [
        name for name, each in zip(names, labels, strict=True) if selector.items() <= each.items()
    ]
    assert list(described.passing) == fitting
    assert list(explained(nodes, [], pod, HandlerCheck.AUTO).passing) == fitting
