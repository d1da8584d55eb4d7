"""After any events, the gauges of followed pods equal a plain recount."""

import json
from collections import Counter
from typing import Any, Final

from hypothesis import example, given
from hypothesis import strategies as st

from extender.cluster.pod_and_namespace_feeds import PodFeed
from extender.cluster.snapshot_store import SnapshotStore
from extender.kubernetes.decoder import decode
from extender.kubernetes.pods import RawPod, placed_pod_of
from extender.kubernetes.resources import load_of
from extender.model.objects import Handler, Node, RuntimeClass
from extender.model.using_objects import PlacedPod, WaitingPod, WaitingPods
from extender.rules.node_checks import Policy
from extender.rules.pod_state import Placement, is_followed, wait_of
from extender.rules.resource_fit import Loads
from extender.verbs.metrics import PodsCollector
from tests.stores import raw, store_of

LABEL: Final = {"sandbox": "kata"}
NODES: Final = [
    Node("n1", LABEL, (), frozenset({Handler("kata")})),
    Node("n2", LABEL, (), frozenset({Handler("runc")})),
]
TIMES: Final = st.sampled_from(["", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"])

specs = st.fixed_dictionaries(
    {},
    optional={
        "runtimeClassName": st.sampled_from(["kata", "other", "gone"]),
        "nodeName": st.sampled_from(["n1", "n2", "lost"]),
        "overhead": st.sampled_from([{"memory": "160Mi"}, {"memory": "1Gi", "x.io/odd": "1"}]),
        "nodeSelector": st.sampled_from([LABEL, {"sandbox": "old"}]),
        "hostUsers": st.booleans(),
        "priority": st.sampled_from([-1, 0]),
        "containers": st.sampled_from(
            [[{"resources": {"requests": {"cpu": each}}}] for each in ("0", "100m", "2")]
        ),
    },
)
phases = st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])
conditions = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["PodReadyToStartContainers", "PodScheduled"]),
            "status": st.sampled_from(["True", "False"]),
            "lastTransitionTime": TIMES,
            "message": st.sampled_from(
                ["", "1 Insufficient cpu", "1 node(s) didn't match Pod's node affinity/selector"]
            ),
        }
    ),
    max_size=2,
)
pods = st.builds(
    lambda name, created, spec, phase, told, nominated: {
        "metadata": {"name": name, "namespace": "d", "creationTimestamp": created or None},
        "spec": spec,
        "status": {"phase": phase, "conditions": told, "nominatedNodeName": nominated},
    },
    st.sampled_from("abcdef"),
    TIMES,
    specs,
    phases,
    conditions,
    st.sampled_from([None, "n1"]),
)
classes = st.lists(
    st.builds(
        lambda name, created, memory: RuntimeClass(
            name,
            "kata",
            tuple(LABEL.items()),
            overhead={"memory": memory},
            creation_timestamp=created,
        ),
        st.sampled_from(["kata", "other"]),
        TIMES,
        st.sampled_from(["160Mi", "1Gi"]),
    ),
    max_size=2,
    unique_by=lambda each: each.name,
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("list"), st.lists(pods, max_size=6)),
        st.tuples(st.just("put"), pods),
        st.tuples(st.just("delete"), st.sampled_from("abcdef")),
        st.tuples(st.just("classes"), classes),
    ),
    max_size=20,
)


def gauges(collector: PodsCollector) -> dict[tuple[str, ...], float]:
    """(metric, class, state or resource) → value, without zeros."""
    return {
        (family.name.removeprefix("runtimeclass_extender_"), *sample.labels.values()): sample.value
        for family in collector.collect()
        for sample in family.samples
        if sample.value
    }


def recounted(found: list[PlacedPod], store: SnapshotStore) -> dict[tuple[str, ...], float]:
    """The expected gauges, counted pod by pod."""
    placement, known = Placement(store.snapshot, Policy()), store.snapshot.runtime_classes
    values = Counter[tuple[str, ...]]()
    for pod in found:
        if not is_followed(pod):
            continue
        name = pod.runtime_class_name
        label = "<none>" if not name else name if name in known else "<unknown>"
        values["pods", label, placement.judge(pod)[0].value] += 1
        if not pod.node:
            values["pending_pods", label, wait_of(pod, known.get(name)).value] += 1
        memory = {"160Mi": 160 * 2**20, "1Gi": 2**30}.get(pod.overhead.get("memory", ""), 0)
        if pod.node and memory:
            values["overhead", label, "memory"] += memory
    return dict(values)


def of_kata(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"runtimeClassName": "kata", "nodeName": "n1"}
    containers = [{"resources": {"requests": {"cpu": "0", "memory": "1Gi"}}}]
    spec |= {"overhead": {"memory": "160Mi"}, "containers": containers}
    metadata = {"name": name, "namespace": "d"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


@given(steps)
@example([("list", [of_kata("a"), of_kata("b")])])
def test_the_gauges_are_those_of_a_recount(happened: list[tuple[str, Any]]) -> None:
    store = store_of(NODES, [])
    feed = PodFeed(lambda: store.snapshot.runtime_classes, room=True)
    collector = PodsCollector(feed.groups, lambda: store.snapshot, Policy())
    there: dict[str, dict[str, Any]] = {}
    assert gauges(collector) == {}, "nothing is said before the first list"
    assert feed.waiting() is None
    feed.begin()
    feed.commit()
    for what, value in happened:
        if what == "list":
            there = {each["metadata"]["name"]: each for each in value}
            feed.begin()
            for each in value:
                feed.collect(raw(each))
            feed.commit()
        elif what == "put":
            there[value["metadata"]["name"]] = value
            feed.change(raw(value), deleted=False)
        elif what == "delete" and value in there:
            feed.change(raw(there.pop(value)), deleted=True)
        elif what == "classes":
            store.replace_runtime_classes(value)
        read = [decode(json.dumps(each).encode(), RawPod) for each in there.values()]
        found, loads = [placed_pod_of(each) for each in read], Loads()
        for placed, load in zip(found, map(load_of, read), strict=True):
            if load is not None:
                loads.add(load, placed.runtime_class_name)
        assert feed.loads == loads
        assert all(amount for each in loads.asked.values() for asked in each for _, amount in asked)
        assert gauges(collector) == recounted(found, store)
        assert {*feed.names()} >= {f"{e.namespace}/{e.name}" for e in found if is_followed(e)}
        assert feed.waiting() == WaitingPods.of(
            WaitingPod(each.namespace, each.name, each.runtime_class_name)
            for each in found
            if each.runtime_class_name and not each.node and not each.finished
        )
