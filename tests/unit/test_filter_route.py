"""The verbs before all is known, and the filter where the cluster changes while it waits."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from dataclasses import replace
from io import BytesIO

import orjson
import pytest

from extender.cluster.snapshot_store import SnapshotStore
from extender.model.errors import UndecidedError
from extender.model.objects import ClassRules, Node, Pod, RuntimeClass, Taint
from extender.model.reasons import Code
from extender.rules.node_checks import Policy
from extender.rules.snapshot import ClassLookup, Snapshot, no_lookup
from extender.verbs.bodies import run_of
from extender.verbs.endpoint import FilterVerb, PreemptVerb, PrioritizeVerb
from extender.verbs.filter import match_names, sort_nodes
from tests.asking import answered, at_once
from tests.services import service_over
from tests.stores import replace_nodes, snapshot_of, store_of

GVISOR = RuntimeClass("gvisor", "runsc", (("sandbox", "gvisor"),))
BODY = orjson.dumps(
    {
        "Pod": {"metadata": {"name": "web"}, "spec": {"runtimeClassName": "gvisor"}},
        "Nodes": None,
        "NodeNames": ["plain"],
    }
)


def filter_of(
    store: SnapshotStore,
    nodes: list[Node],
    classes: list[RuntimeClass],
    look_up: ClassLookup,
) -> FilterVerb:
    """The filter in a cluster that gets exactly these nodes and classes while the filter waits."""

    async def news(judged: Snapshot, *, tried_before: bool) -> AsyncGenerator[Snapshot, None]:
        store.replace_all(nodes, classes)
        yield store.snapshot

    return FilterVerb(service_over(store, lookup=look_up, node_events=news))


def refusals(classes: list[RuntimeClass], nodes: list[Node], looked_up: RuntimeClass | None) -> str:
    """The final reason for the node; "passes" if there is none."""
    asked: list[str] = []

    def look_up(name: str) -> RuntimeClass | None:
        asked.append(name)
        return looked_up

    store = store_of([Node("plain")], [GVISOR])
    answer, _ = answered(filter_of(store, nodes, classes, look_up), BODY)
    assert not answer["Error"]
    assert asked == ([] if classes else ["gvisor"])
    return str(answer["FailedAndUnresolvableNodes"].get("plain", "passes"))


def test_a_node_that_has_begun_to_match_passes() -> None:
    assert refusals([GVISOR], [Node("plain", {"sandbox": "gvisor"})], None) == "passes"


def test_a_class_that_has_gone_is_asked_for_again() -> None:
    """A deleted class does not count as a class without requirements."""
    assert "not found" in refusals([], [Node("plain")], None)


def test_a_looked_up_class_that_an_older_list_has_dropped_is_undecided() -> None:
    """Judged without the labels that the class asks for, every node would be refused."""
    verb = filter_of(store_of([Node("plain")], [GVISOR]), [Node("plain")], [], lambda _: GVISOR)
    answer, _ = answered(verb, BODY)
    assert answer["Error"] == "runtimeclass-extender: RuntimeClass gvisor not synced yet"


def test_a_looked_up_class_that_has_changed_since_is_judged_as_it_is_now() -> None:
    store = store_of([Node("plain", {"sandbox": "gvisor"})], [])
    older = replace(GVISOR, node_selector=(("sandbox", "old"),))

    def look_up(_: str) -> RuntimeClass:
        for each in (older, GVISOR):
            store.replace_runtime_classes([each])
        return older

    answer, _ = answered(FilterVerb(service_over(store, lookup=look_up)), BODY)
    assert answer["NodeNames"] == ["plain"]


def test_whole_nodes_are_judged_again_by_a_class_that_comes_meanwhile() -> None:
    """The pod was not remembered yet, so the new class requeued nothing."""
    store, asked = store_of([], []), list[str]()

    def look_up(name: str) -> RuntimeClass | None:
        asked.append(name)
        if len(asked) == 1:
            store.replace_runtime_classes([GVISOR])
            return None
        return GVISOR

    items = [{"metadata": {"name": "n1", "labels": {"sandbox": "gvisor"}}}]
    body = orjson.dumps({"Pod": GVISOR_POD, "Nodes": {"items": items}, "NodeNames": None})
    answer, _ = answered(FilterVerb(service_over(store, lookup=look_up)), body)
    assert not answer["FailedAndUnresolvableNodes"]
    assert len(asked) == 1


def test_reasons_that_no_asked_node_has_are_not_counted() -> None:
    """Otherwise each would be a metric series that stays at 0."""
    tainted = Node("tainted", {"sandbox": "gvisor"}, (Taint("t", "", "NoSchedule"),))
    snapshot = snapshot_of([Node("plain"), tainted], [GVISOR])
    pod, names = Pod(runtime_class_name="gvisor"), run_of(["plain", "plain"])
    result = sort_nodes(match_names(pod, GVISOR, snapshot, names, Policy()))
    assert result.reasons == {Code.SELECTOR: 2}


def test_the_event_loop_goes_on_while_a_class_is_looked_up_that_was_deleted_between_two_looks() -> (
    None
):
    asked, answer = threading.Event(), threading.Event()

    def look_up(_: str) -> RuntimeClass | None:
        asked.set()
        assert answer.wait(20), "the event loop waits for this"
        return None

    async def ask() -> bytes:
        verb = filter_of(store_of([Node("plain")], [GVISOR]), [Node("plain")], [], look_up)
        task = asyncio.create_task(verb(BytesIO(BODY), at_once))
        while not asked.is_set():
            await asyncio.sleep(0.001)
        assert not task.done()
        answer.set()
        chunks, _ = await task
        return b"".join(chunks)

    assert b"RuntimeClass not found" in asyncio.run(ask())


# Before all objects are known; tests/integration/test_live_serve.py tests the filter

GVISOR_POD = {"spec": {"runtimeClassName": "gvisor"}}
VICTIMS = {"n1": {"Pods": [{"UID": "a"}], "NumPDBViolations": 0}}


def scores(store: SnapshotStore, nodes: object) -> object:
    args = {"Pod": {}, "Nodes": nodes, "NodeNames": None if nodes else ["n1", "n2"]}
    answer, count = answered(PrioritizeVerb(service_over(store)), orjson.dumps(args))
    assert count == 2
    return answer


def preempted(store: SnapshotStore, pod: object, lookup: ClassLookup = no_lookup) -> object:
    body = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": VICTIMS}
    answer, _ = answered(PreemptVerb(service_over(store, lookup=lookup)), orjson.dumps(body))
    return answer


def test_no_node_is_preferred_before_the_classes_are_known() -> None:
    """Until then nobody can tell what a node serves, so all nodes score alike."""
    store = SnapshotStore()
    replace_nodes(store, [Node("n1")])
    assert scores(store, None) == []
    store.replace_runtime_classes([])
    assert scores(store, None) == [{"Host": "n1", "Score": 10}]


def test_described_nodes_are_scored_by_the_classes_alone() -> None:
    labels: dict[str, dict[str, str]] = {"n1": {}, "n2": {"sandbox": "gvisor"}}
    items = [{"metadata": {"name": name, "labels": labels[name]}} for name in labels]
    store = SnapshotStore()
    assert scores(store, {"items": items}) == []
    store.replace_runtime_classes([GVISOR])
    assert scores(store, {"items": items}) == [{"Host": "n1", "Score": 5}]


@pytest.mark.parametrize("look_up_in_vain", [False, True])
def test_a_class_that_was_looked_up_is_judged_by_the_labels_that_it_asks_for(
    look_up_in_vain: bool,
) -> None:
    """The labels are in the snapshot that has the class, not in earlier ones."""
    store = store_of([Node("n1", {} if look_up_in_vain else {"sandbox": "gvisor"})], [])

    def look_up(_: str) -> RuntimeClass:
        store.replace_runtime_classes([GVISOR])
        return GVISOR

    kept = {} if look_up_in_vain else VICTIMS
    assert preempted(store, GVISOR_POD, look_up) == {"NodeNameToMetaVictims": kept}


def test_no_candidate_of_preemption_is_dropped_before_the_nodes_are_known() -> None:
    """The answer has no error field: it is a 503 instead of nodes dropped without reason."""
    store = SnapshotStore()
    for classes in (False, True):
        if classes:
            store.replace_runtime_classes([GVISOR])
        with pytest.raises(UndecidedError, match="not synced"):
            preempted(store, GVISOR_POD)
        assert preempted(store, {}) == {"NodeNameToMetaVictims": VICTIMS}
    replace_nodes(store, [Node("n1")])
    assert preempted(store, GVISOR_POD) == {"NodeNameToMetaVictims": {}}
    replace_nodes(store, [Node("n1", {"sandbox": "gvisor"})])
    assert preempted(store, GVISOR_POD) == {"NodeNameToMetaVictims": VICTIMS}


@pytest.mark.parametrize("used", [True, False])
def test_no_pod_is_evicted_for_one_that_uses_what_its_class_lacks(used: bool) -> None:
    limited = replace(GVISOR, rules=ClassRules(unsupported=("hostPID",)))
    store = store_of([Node("n1", {"sandbox": "gvisor"})], [limited])
    pod = {"spec": {"runtimeClassName": "gvisor", "hostPID": used}}
    assert preempted(store, pod) == {"NodeNameToMetaVictims": {} if used else VICTIMS}
