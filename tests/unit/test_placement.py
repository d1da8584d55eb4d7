"""Which pods are stranded, and which have drifted."""

from typing import Any, Final

import pytest

from extender.cluster.snapshot_store import SnapshotStore
from extender.objects import Features, Handler, Node, RuntimeClass, Taint
from extender.predicates.node_checks import HandlerCheck, Policy
from extender.using_objects import PlacedPod
from extender.verbs.placement import Placement, State, group_of

LABELS: Final = {"sandbox": "kata", "zone": "a"}
KATA: Final = RuntimeClass(
    "kata",
    "kata",
    (("sandbox", "kata"), ("zone", "a")),
    overhead={"cpu": "1", "memory": "160Mi"},
    creation_timestamp="2026-03-01T00:00:00Z",
)
OVERHEAD: Final = {"cpu": "1000m", "memory": "160Mi"}
NODES: Final = [
    Node("good", LABELS, (), frozenset({Handler("kata", user_namespaces=True), Handler("")})),
    Node("bare", {}, (), frozenset({Handler("kata"), Handler("")})),
    Node("broken", LABELS, (), frozenset({Handler("runc"), Handler("")})),
    Node("silent", LABELS),
    Node("tainted", LABELS, (Taint("gpu", "", "NoSchedule"),), frozenset({Handler("kata")})),
]


def judged(policy: Policy | None = None, **fields: Any) -> tuple[State, str]:
    store = SnapshotStore()
    store.replace_all(NODES, [KATA])
    pod = PlacedPod(
        "d", "p", **{"runtime_class_name": "kata", "node": "good", "overhead": OVERHEAD, **fields}
    )
    return Placement(store.snapshot, policy or Policy()).judge(pod)


@pytest.mark.parametrize(
    ("fields", "state", "said"),
    [
        pytest.param({}, State.RUNNING, "", id="as its class has it, in other words"),
        pytest.param({"node": ""}, State.PENDING, "", id="no node"),
        pytest.param({"node": "broken"}, State.STRANDED, 'no runtime handler "kata"', id="handler"),
        pytest.param({"node": "bare"}, State.STRANDED, "nodeSelector sandbox=kata", id="label"),
        pytest.param({"node": "gone"}, State.STRANDED, 'node "gone" not found', id="node gone"),
        pytest.param(
            {"runtime_class_name": "gone"}, State.STRANDED, "RuntimeClass not found", id="no class"
        ),
        pytest.param(
            {"node": "tainted", "features": Features(user_namespaces=True)},
            State.STRANDED,
            "lacks user namespaces",
            id="feature",
        ),
        pytest.param({"node": "tainted"}, State.RUNNING, "", id="a taint strands nobody"),
        pytest.param({"node": "silent"}, State.RUNNING, "", id="handlers not reported"),
        pytest.param(
            {"overhead": {"cpu": "1", "memory": "120Mi"}},
            State.DRIFTED,
            'carries cpu=1, memory=120Mi overhead, RuntimeClass "kata" has cpu=1, memory=160Mi',
            id="overhead",
        ),
        pytest.param({"overhead": {}}, State.DRIFTED, "carries no overhead", id="no overhead"),
        pytest.param(
            {"node_selector": {"sandbox": "old"}}, State.DRIFTED, "sandbox=old", id="nodeSelector"
        ),
        pytest.param(
            {"node_selector": {"sandbox": "kata"}},
            State.DRIFTED,
            "does not carry nodeSelector zone=a",
            id="half of the nodeSelector",
        ),
        pytest.param(
            {"node_selector": {"disk": "ssd"}}, State.RUNNING, "", id="a nodeSelector of its own"
        ),
        pytest.param(
            {"created": "2026-02-01T00:00:00Z"}, State.DRIFTED, "was created after", id="older"
        ),
        pytest.param(
            {"created": "2026-02-01T00:00:00Z", "bound": "2026-03-01T00:00:00Z"},
            State.RUNNING,
            "",
            id="older, and bound after",
        ),
        pytest.param(
            {"runtime_class_name": "", "overhead": {}, "features": Features(user_namespaces=True)},
            State.STRANDED,
            "nodes' default runtime handler lacks user namespaces",
            id="a feature without a class",
        ),
        pytest.param(
            {"runtime_class_name": "", "overhead": {}, "node": "gone"},
            State.STRANDED,
            "not found",
            id="no class, and a node that is gone",
        ),
    ],
)
def test_a_pod_stands_as_it_does(fields: dict[str, Any], state: State, said: str) -> None:
    found, reason = judged(**fields)
    assert found is state, reason
    assert said in reason
    assert bool(reason) is bool(said)


def test_the_flags_of_matching_count() -> None:
    strict, off = Policy(HandlerCheck.STRICT), Policy(HandlerCheck.OFF)
    assert judged(strict, node="silent")[0] is State.STRANDED
    assert judged(off, node="broken")[0] is State.RUNNING


@pytest.mark.parametrize("node", ["", "good"])
def test_of_a_long_node_selector_only_what_the_class_asks_for_is_kept(node: str) -> None:
    """Each pod of 1.4 MB was kept whole by --watch-pods, which counts Pending ones too."""
    selector = {**{f"key-{number}": "v" for number in range(10_000)}, **LABELS, "zone": "b"}
    pod = PlacedPod("d", "p", "kata", node, node_selector=selector, overhead=OVERHEAD)
    group = group_of(pod, {"kata": KATA})
    assert sum(map(len, group.node_selector)) <= 2 * len(LABELS)
    store = SnapshotStore()
    store.replace_all(NODES, [KATA])
    placement = Placement(store.snapshot, Policy())
    assert placement.judge(group.example) == placement.judge(pod)
