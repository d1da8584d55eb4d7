"""Laws of RuntimeClass annotations: terms, conditions, features that pods can't use."""

import json
import random
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.node_and_class_feeds import NodeFeed, RuntimeClassFeed
from extender.cluster.snapshot_store import SnapshotStore
from extender.kubernetes.class_annotations import FEATURES, rules_of
from extender.kubernetes.explained_pods import explained_pod
from extender.model.objects import Node, Pod, RuntimeClass, Taint
from extender.model.pod_needs import Toleration
from extender.rules.class_nodes import Support, nodes_of_class
from extender.rules.node_checks import HandlerCheck, Policy
from extender.rules.node_selector import RequiredNodeAffinity
from extender.rules.node_shape import Wanted
from extender.verbs.bodies import run_of
from extender.verbs.filter import match_names, match_nodes
from extender.verbs.prioritize import Preferences
from tests.cases_file import cases, tables
from tests.json_objects import Json, node_json
from tests.services import client_over
from tests.stores import raw, snapshot_of

PREFIX: Final = "runtimeclass-extender/"
NAMES: Final = ["n0", "n1", "n2"]
KEYS: Final = ["zone", "cpu", "x.com/kind"]
VALUES: Final = ["", "a", "b", "7", "12"]
CONDITION_TYPES: Final = ["Ready", "KataReady", "GpuHealthy"]
STATUSES: Final = ["True", "False", "Unknown"]


def rules_class(name: str, annotations: Json, **fields: Any) -> RuntimeClass:
    """A class with annotations, given without their prefix."""
    prefixed = {f"{PREFIX}{key}": value for key, value in annotations.items()}
    return RuntimeClass(name, "h", annotations=prefixed, rules=rules_of(prefixed), **fields)


def affinity_matches(terms: list[Json], labels: Mapping[str, str], name: str) -> bool:
    """Whether the in-tree NodeAffinity lets a pod with these terms on the node."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = {"spec": {"affinity": {"nodeAffinity": required}}}
    found = explained_pod(json.dumps(pod).encode()).node_affinity
    assert found is not None
    return RequiredNodeAffinity(found).matches(labels, name)


def class_matches(runtime_class: RuntimeClass, node: Node) -> bool:
    """Whether the filter, asked about whole nodes, lets a pod of the class on the node."""
    verdicts = match_nodes(Pod(runtime_class_name="c"), runtime_class, [node], Policy())
    return verdicts.reasons[verdicts.codes[0]] is None


def a_requirement(chance: random.Random) -> Json:
    if chance.random() < 0.05:  # of any kind; many do not parse
        operator = chance.choice(["In", "Exists", "Gt", "Near"])
        values = [chance.choice([*VALUES, "not a value"]) for _ in range(chance.choice([0, 1, 2]))]
        return {"key": chance.choice([*KEYS, "no key"]), "operator": operator, "values": values}
    operator = chance.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
    values = []
    if operator in ("In", "NotIn"):
        values = chance.sample(VALUES, chance.choice([1, 2]))
    elif operator in ("Gt", "Lt"):
        values = [chance.choice(["7", "-3", "10"])]
    return {"key": chance.choice(KEYS), "operator": operator, "values": values}


def a_field(chance: random.Random) -> Json:
    values = [chance.choice([*NAMES, ""]) for _ in range(chance.choice([1, 1, 1, 2]))]
    operator = chance.choice(["In", "NotIn", "Exists"])
    return {"key": "metadata.name", "operator": operator, "values": values}


def a_term(chance: random.Random) -> Json:
    term: Json = {}
    if chance.random() < 0.9:
        term["matchExpressions"] = [a_requirement(chance) for _ in range(chance.choice([0, 1, 2]))]
    if chance.random() < 0.1:
        term["matchFields"] = [a_field(chance) for _ in range(chance.choice([1, 2]))]
    return term


def some_terms(chance: random.Random) -> list[Json]:
    return [a_term(chance) for _ in range(chance.choice([0, 1, 1, 2, 3]))]


def some_labels(chance: random.Random) -> dict[str, str]:
    return {key: chance.choice(VALUES) for key in KEYS if chance.random() < 0.6}


conditions = st.dictionaries(st.sampled_from(CONDITION_TYPES), st.sampled_from(STATUSES))
nodes = st.builds(
    lambda name, labels, tainted, conditions: Node(
        name,
        labels,
        (Taint("t", "", "NoSchedule"),) if tainted else (),
        conditions=frozenset(conditions.items()),
    ),
    st.sampled_from(NAMES),
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)),
    st.booleans(),
    conditions,
)
terms = st.integers(0, 2**32).map(lambda seed: some_terms(random.Random(seed)))


@st.composite
def annotations(draw: st.DrawFn) -> Json:
    """Some of the annotations; now and then one of them can't be read."""
    found: Json = {}
    if draw(st.booleans()):
        found["node-selector-terms"] = draw(st.one_of(st.just("{"), terms.map(json.dumps)))
    if draw(st.booleans()):
        entry = st.tuples(st.sampled_from(CONDITION_TYPES), st.sampled_from(["", *STATUSES]))
        entries = draw(st.lists(entry, max_size=2))
        words = [f"{kind}={status}" if status else kind for kind, status in entries]
        found["node-conditions"] = draw(st.sampled_from([" , ".join(words), "=True"]))
    if draw(st.booleans()):
        words = draw(st.lists(st.sampled_from([*FEATURES, "resource:x.com/gpu"]), max_size=3))
        found["unsupported"] = draw(st.sampled_from([",".join(words), "hostNetwrok"]))
    return found


classes = st.builds(
    lambda name, annotations, selector, tolerates: rules_class(
        name,
        annotations,
        node_selector=tuple(selector.items()),
        tolerations=(Toleration("t", "Exists"),) if tolerates else (),
    ),
    st.sampled_from(["c", "d"]),
    annotations(),
    st.dictionaries(st.just("zone"), st.just("a")),
    st.booleans(),
)
class_lists = st.lists(classes, max_size=2, unique_by=lambda each: each.name)
node_lists = st.lists(nodes, max_size=3, unique_by=lambda each: each.name)
uses = st.frozensets(st.sampled_from(["hostNetwork", "privileged", "resource:x.com/gpu"]))


def naive(runtime_class: RuntimeClass, used: frozenset[str], node: Node) -> str | None:
    """The code of the first check that fails, by the order of semantics §10."""
    said = {key.removeprefix(PREFIX): value for key, value in runtime_class.annotations.items()}
    words = said.get("unsupported", "").split(",")
    if "hostNetwrok" in words or used & set(words):
        return "unsupported"
    if any(node.labels.get(key) != value for key, value in runtime_class.node_selector):
        return "selector"
    text = said.get("node-selector-terms")
    if text is not None and (
        text == "{" or not affinity_matches(json.loads(text), node.labels, node.name)
    ):
        return "selector"
    if node.taints and not runtime_class.tolerations:
        return "taint"
    for entry in said.get("node-conditions", "").split(","):
        kind, _, status = entry.strip().partition("=")
        if entry.strip() and (not kind or (kind, status or "True") not in node.conditions):
            return "condition"
    return None


@given(node_lists, class_lists, uses)
def test_the_first_check_that_fails_is_the_reason_in_both_modes(
    nodes: list[Node], classes: list[RuntimeClass], used: frozenset[str]
) -> None:
    """unsupported, selector, terms, taint, conditions: the same for names and whole nodes."""
    snapshot = snapshot_of(nodes, classes)
    for runtime_class in snapshot.runtime_classes.values():
        pod = Pod(runtime_class_name=runtime_class.name, uses=used)
        expected = [naive(runtime_class, used, each) for each in nodes]
        run = run_of([each.name for each in nodes])
        for verdicts in (
            match_names(pod, runtime_class, snapshot, run, Policy()),
            match_nodes(pod, runtime_class, nodes, Policy()),
        ):
            found = [verdicts.reasons[code] for code in verdicts.codes]
            assert [each and each.code for each in found] == expected


@given(node_lists, class_lists)
def test_lists_and_gauges_say_what_the_filter_says_of_a_pod_that_asks_for_nothing(
    nodes: list[Node], classes: list[RuntimeClass]
) -> None:
    snapshot = snapshot_of(nodes, classes)
    counts = Support(HandlerCheck.AUTO).counts(snapshot).nodes
    for each in classes:
        passing = [node.name.encode() for node in nodes if naive(each, frozenset(), node) is None]
        found = nodes_of_class(each, snapshot, Policy())
        assert found.matching == sorted(passing)
        assert counts[each.name] == len(passing)


@given(node_lists, class_lists, st.data())
def test_terms_and_conditions_make_a_constraint_set_of_their_own(
    nodes: list[Node], classes: list[RuntimeClass], data: st.DataObject
) -> None:
    """Semantics §4: a node costs 1 for each constraint set that it serves, except the pod's own."""
    snapshot = snapshot_of(nodes, classes)

    def sets(node: Node) -> set[object]:
        found: set[object] = set()
        for each in classes:
            rules = each.rules
            selects = each.node_selector or (rules and (rules.terms or rules.conditions))
            if naive(each, frozenset(), node) is None and (selects or node.taints):
                key = (rules.terms, frozenset(rules.conditions)) if rules else (None, frozenset())
                found.add((each.node_selector, each.tolerations, *key))
        return found

    preferences = Preferences(HandlerCheck.AUTO)
    costs = preferences.cost_table(None, snapshot).costs
    assert [costs[snapshot.nodes[node.name.encode()]] for node in nodes] == [
        len(sets(node)) for node in nodes
    ]
    own = data.draw(st.sampled_from([None, *snapshot.runtime_classes.values()]))
    run = run_of([node.name for node in nodes])
    by_name = preferences.scores(own, snapshot, run)
    assert by_name.scores == preferences.scores_of_nodes(own, snapshot, nodes).scores


def heard(name: str, version: int, conditions: Iterable[tuple[str, str]]) -> msgspec.Raw:
    node = node_json(Node(name))
    node["metadata"]["resourceVersion"] = str(version)
    node["status"]["conditions"] = [
        {"type": kind, "status": status, "lastHeartbeatTime": str(version)}
        for kind, status in conditions
    ]
    return raw(node)


def told_class(annotations: Json, version: int) -> msgspec.Raw:
    prefixed = {f"{PREFIX}{key}": value for key, value in annotations.items()}
    metadata = {"name": "c", "resourceVersion": str(version), "annotations": prefixed}
    return raw({"metadata": metadata, "handler": "h"})


news = st.lists(
    st.one_of(st.tuples(st.sampled_from(NAMES), conditions, st.booleans()), annotations()),
    max_size=12,
)


@given(news)
def test_a_class_finds_the_conditions_that_nodes_had_before_it_asked(
    news: list[tuple[str, dict[str, str], bool] | Json],
) -> None:
    """Whether the class or the condition comes first, and in spite of events that come late."""
    store = SnapshotStore()
    node_feed, class_feed = NodeFeed(store), RuntimeClassFeed(store)
    held: dict[str, tuple[int, dict[str, str]]] = {name: (0, {}) for name in NAMES}
    node_feed.begin()
    for name in NAMES:
        node_feed.collect(heard(name, 0, ()))
    node_feed.commit()
    class_feed.begin()
    class_feed.commit()
    for version, each in enumerate(news, 1):
        if isinstance(each, dict):
            class_feed.change(told_class(each, version), deleted=False)
        else:
            name, found, late = each
            before, _ = held[name]
            version = before - 1 if late and before else version
            node_feed.change(heard(name, version, found.items()), deleted=False)
            node_feed.flush()
            if version > before:
                held[name] = (version, found)
        wanted = Wanted.of(store.snapshot.runtime_classes.values())
        for name, (_, conditions_held) in held.items():
            shape = store.snapshot.shape(name.encode())
            assert shape is not None
            assert shape.conditions == wanted.conditions & frozenset(conditions_held.items())


def test_a_condition_that_no_class_asks_for_changes_nothing() -> None:
    store = SnapshotStore()
    feed = NodeFeed(store)
    feed.begin()
    feed.collect(heard("n0", 1, [("KataReady", "False")]))
    feed.commit()
    before = store.snapshot
    feed.change(heard("n0", 2, [("KataReady", "True")]), deleted=False)
    feed.flush()
    assert store.snapshot is before


POD_USING: Final[dict[str, Json]] = tables("class_rules")["pod_using"]
HARMLESS: Final[Json] = tables("class_rules")["harmless"]


def asked(spec: Json, annotations: Json, mode: str = "names", metadata: Json | None = None) -> Json:
    """The filter's answer about one node, from the bytes that kube-scheduler sends."""
    pod = {
        "metadata": {"name": "p", "namespace": "d", **(metadata or {})},
        "spec": {**spec, "runtimeClassName": "c"},
    }
    args: Json = {"Pod": pod, "Nodes": None, "NodeNames": ["n0"]}
    if mode == "nodes":
        args |= {"Nodes": {"metadata": {}, "items": [node_json(Node("n0"))]}, "NodeNames": None}
    text = json.dumps(args, separators=(",", ":"))
    client = client_over([Node("n0")], [rules_class("c", annotations)])
    answer: Json = client.post("/filter", text if mode != "loose" else f" {text} ").json
    return answer


@pytest.mark.parametrize("mode", ["names", "nodes", "loose"])
@pytest.mark.parametrize("word", POD_USING)
def test_a_pod_that_uses_what_its_class_lacks_is_refused_everywhere(word: str, mode: str) -> None:
    answer = asked(POD_USING[word], {"unsupported": f"hostPID, {word}"}, mode)
    expected = f'nodes don\'t match RuntimeClass "c" ({word} is unsupported)'
    assert answer["FailedAndUnresolvableNodes"] == {"n0": expected}


@pytest.mark.parametrize("word", POD_USING)
def test_a_pod_that_uses_something_else_passes(word: str) -> None:
    also = "capabilit" if word.startswith("capability:") else word
    others = ",".join(each for each in POD_USING if not each.startswith(also))
    assert asked(POD_USING[word], {"unsupported": others})["NodeNames"] == ["n0"]
    assert asked(HARMLESS, {"unsupported": ",".join(POD_USING)})["NodeNames"] == ["n0"]


@pytest.mark.parametrize(
    ("amount", "asked_for"),
    [
        *((each, False) for each in (0, "0", "0.00", "0e9", "0E", "0Ki", "-0", None)),
        *((each, True) for each in (1, 0.5, "1", "0.001", "1e-9", "1Ei", "10m", "0.0000000001")),
    ],
)
def test_a_resource_is_used_where_more_than_none_is_asked_for(
    amount: str | float | None, asked_for: bool
) -> None:
    spec = {"containers": [{"resources": {"limits": {"x.com/gpu": amount}}}]}
    answer = asked(spec, {"unsupported": "resource:x.com/gpu"})
    assert (answer["NodeNames"] == []) is asked_for


def test_an_app_armor_profile_may_stand_in_an_annotation() -> None:
    key = "container.apparmor.security.beta.kubernetes.io/c"
    for profile, passing in (("runtime/default", []), ("unconfined", ["n0"])):
        metadata = {"annotations": {key: profile}}
        answer = asked({}, {"unsupported": "appArmor"}, metadata=metadata)
        assert answer["NodeNames"] == passing


def test_every_word_of_the_vocabulary_has_a_pod_that_uses_it() -> None:
    assert {each for each in POD_USING if ":" not in each} == set(FEATURES)


def test_a_field_of_a_wrong_type_is_told_only_where_it_is_read() -> None:
    odd = {"hostPID": "yes"}
    assert asked(odd, {})["NodeNames"] == ["n0"]
    answer = asked(odd, {"unsupported": "hostIPC"})
    assert answer == {"error": "Pod.spec.hostPID: expected `bool`, got `str`"}


@cases
def test_the_text_names_what_is_missing(annotation: str, value: str, detail: str) -> None:
    text = f'nodes don\'t match RuntimeClass "c" ({detail})'
    assert asked({}, {annotation: value})["FailedAndUnresolvableNodes"] == {"n0": text}


@pytest.mark.parametrize(
    "annotations",
    [{"node-conditions": ""}, {"unsupported": " , "}, {"isolation": "castle"}, {"other": "{"}],
)
def test_what_asks_for_nothing_refuses_nothing(annotations: Json) -> None:
    assert asked({}, annotations)["NodeNames"] == ["n0"]
