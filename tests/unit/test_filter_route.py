"""The filter's second look: what has changed while it waited for news."""

import time
from collections.abc import Iterable

import orjson

from extender.cluster.snapshot_store import SnapshotStore
from extender.http.health import Health
from extender.http.service import Service
from extender.http.verb_routes import FilterRoute
from extender.metrics import Metrics
from extender.objects import Node, Pod, RuntimeClass, Taint
from extender.predicates.node_checks import Policy
from extender.reasons import Code
from extender.refused_pods import RefusedPods
from extender.snapshot import Snapshot
from extender.verbs.filter import filter_names
from extender.wire.bodies import run_of

GVISOR = RuntimeClass("gvisor", "runsc", (("sandbox", "gvisor"),))
BODY = orjson.dumps(
    {
        "Pod": {"metadata": {"name": "web"}, "spec": {"runtimeClassName": "gvisor"}},
        "Nodes": None,
        "NodeNames": ["plain"],
    }
)


def refusals(classes: list[RuntimeClass], nodes: list[Node], looked_up: RuntimeClass | None) -> str:
    """What is said of the node when, during the wait, the cluster comes to have just these."""
    store = SnapshotStore()
    store.replace_all([Node("plain")], [GVISOR])
    asked: list[str] = []

    def look_up(name: str) -> RuntimeClass | None:
        asked.append(name)
        return looked_up

    def news(judged: Snapshot, *, tried_before: bool, group: str = "") -> Iterable[Snapshot]:
        store.replace_all(nodes, classes)
        yield store.snapshot

    health = Health(lambda: store.snapshot)
    refused = RefusedPods(time.monotonic)
    service = Service(store, Metrics(), health, refused, lookup=look_up, node_events=news)
    chunks, _ = FilterRoute(service)(BODY)
    answer = orjson.loads(b"".join(chunks))
    assert not answer["Error"]
    assert asked == ([] if classes else ["gvisor"])
    return str(answer["FailedAndUnresolvableNodes"].get("plain", "passes"))


def test_a_node_that_has_begun_to_match_passes() -> None:
    assert refusals([GVISOR], [Node("plain", {"sandbox": "gvisor"})], None) == "passes"


def test_a_class_that_has_gone_is_asked_for_again() -> None:
    """It is not taken for one that asks for nothing."""
    assert "not found" in refusals([], [Node("plain")], None)
    assert "nodeSelector sandbox=gvisor" in refusals([], [Node("plain")], GVISOR)


def test_reasons_that_no_asked_node_has_are_not_counted() -> None:
    """Else each would be a series of the metrics that stays at 0."""
    store = SnapshotStore()
    tainted = Node("tainted", {"sandbox": "gvisor"}, (Taint("t", "", "NoSchedule"),))
    store.replace_all([Node("plain"), tainted], [GVISOR])
    pod, names = Pod(runtime_class_name="gvisor"), run_of(["plain", "plain"])
    result = filter_names(pod, GVISOR, store.snapshot, names, Policy())
    assert result.reasons == {Code.SELECTOR: 2}
