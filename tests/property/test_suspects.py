"""Which handlers become suspect, are refused, may be tried again and are trusted, at any time."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

from hypothesis import example, given
from hypothesis import strategies as st

from extender.cluster.distrust import Distrust, Mode, NodeEvent, NodeEvents, SandboxFeed
from extender.model.names import NameRun
from extender.model.objects import Node, Pod, RuntimeClass
from extender.rules.class_nodes import Support
from extender.rules.node_checks import HandlerCheck, Policy
from extender.verbs.filter import match_names, match_nodes
from extender.verbs.prioritize import Preferences
from tests.cases_file import cases
from tests.clocks import Clock
from tests.stores import raw, store_of

AFTER: Final = 90.0
START: Final = 1_700_000_000.0
LABEL: Final = {"sandbox": "kata"}
KATA: Final = RuntimeClass("kata", "kata-qemu", (("sandbox", "kata"),))


def told(at: float) -> str:
    return datetime.fromtimestamp(int(at), UTC).isoformat().replace("+00:00", "Z")


def a_pod(
    name: str,
    node: str = "n0",
    *,
    at: float = START,
    controller: str = "",
    started: float | None = None,
    runtime_class: str = "kata",
    **spec: Any,
) -> dict[str, Any]:
    """A pod bound at a time, without a sandbox since then unless it has started."""
    changed, ready = (at, "False") if started is None else (started, "True")
    owner = {"kind": "ReplicaSet", "name": "x", "uid": controller, "controller": True}
    metadata = {"name": name, "namespace": "d", "creationTimestamp": told(at)}
    chosen = {"runtimeClassName": runtime_class} if runtime_class else {}
    conditions = [
        {"type": kind, "status": status, "lastTransitionTime": told(when)}
        for kind, status, when in (
            ("PodScheduled", "True", at),
            ("PodReadyToStartContainers", ready, changed),
        )
    ]
    return {
        "metadata": {**metadata, "ownerReferences": [owner] if controller else []},
        "spec": {"nodeName": node, **chosen, **spec},
        "status": {"phase": "Running" if started else "Pending", "conditions": conditions},
    }


class Cluster:
    """A cluster whose pods are judged at the times that the test says."""

    def __init__(self, mode: Mode = Mode.REFUSE, nodes: int = 10) -> None:
        self.nodes = [Node(f"n{number}", LABEL) for number in range(nodes)]
        self.store = store_of(self.nodes, [KATA])
        self.clock = Clock(START)
        self.written: list[NodeEvent] = []
        self.feed = SandboxFeed()
        support, unused = Support(HandlerCheck.AUTO), cast(NodeEvents, None)
        self.distrust = Distrust(
            self.store, self.feed, unused, support, mode, AFTER, clock=self.clock
        )
        self.listed()

    def listed(self, *pods: dict[str, Any]) -> None:
        self.feed.begin()
        for each in pods:
            self.feed.collect(raw(each))
        self.feed.commit()
        self.written += self.distrust.look()

    def put(self, *pods: dict[str, Any], deleted: bool = False) -> None:
        for each in pods:
            self.feed.change(raw(each), deleted=deleted)
        self.written += self.distrust.look()

    def wait(self, seconds: float) -> None:
        self.clock.now += seconds
        self.written += self.distrust.look()

    def suspects(self) -> set[str]:
        return {name.decode() for name in self.store.snapshot.suspects}

    def refused(self) -> set[str]:
        """The nodes that the filter refuses, in both modes alike."""
        snapshot, pod = self.store.snapshot, Pod(runtime_class_name="kata")
        names = [each.name for each in self.nodes]
        run = NameRun.of([name.encode() for name in names])
        by_name = match_names(pod, KATA, snapshot, run, Policy())
        described = match_nodes(pod, KATA, self.nodes, Policy(), snapshot.suspects)
        assert by_name.passes == described.passes
        assert [by_name.reason(n) for n in range(len(names))] == [
            described.reason(n) for n in range(len(names))
        ]
        return {name for name, passes in zip(names, by_name.passes, strict=True) if not passes}

    @property
    def reasons(self) -> list[str]:
        return [each.reason.removeprefix("RuntimeHandler") for each in self.written]


seconds = st.integers(-600, 0).map(lambda before: START + before)
histories = st.lists(
    st.builds(
        lambda node, at, controller, ran, own: (node, at, controller, ran, own),
        st.sampled_from(["n0", "n1"]),
        seconds,
        st.sampled_from("ab"),
        st.none() | st.integers(0, 600),
        st.booleans(),
    ),
    max_size=7,
)


@given(histories)
@example([*[("n0", START - 200, "a", None, False)] * 2, ("n1", START - 300, "a", 0, False)])
def test_two_controllers_or_one_that_started_elsewhere_fail_since_the_last_start(
    history: Sequence[tuple[str, float, str, int | None, bool]],
) -> None:
    """The rule again, in other words: by a look at all pods at once."""
    pods, expected = [], set()
    for number, (node, at, controller, ran, own) in enumerate(history):
        started = None if ran is None else min(at + ran, START)
        more: dict[str, Any] = {"hostNetwork": True} if own else {}
        pods.append(
            a_pod(f"p{number}", node, at=at, controller=controller, started=started, **more)
        )
    for here in ("n0", "n1"):
        starts = [
            min(at + ran, START) for n, at, _, ran, _ in history if n == here and ran is not None
        ]
        last = max(starts, default=0.0)
        failed = [
            controller
            for node, at, controller, ran, own in history
            if node == here and ran is None and not own and at > last and START - at >= AFTER
        ]
        elsewhere = {c for node, _, c, ran, _ in history if node != here and ran is not None}
        if len(set(failed)) == 2 or (len(failed) > 1 and elsewhere & set(failed)):
            expected.add(here)
    cluster = Cluster()
    cluster.listed(*pods)
    assert cluster.suspects() == expected
    one_by_one = Cluster()
    one_by_one.feed.begin()
    one_by_one.feed.commit()
    for each in pods:
        one_by_one.feed.change(raw(each), deleted=False)
    # A start that comes before any pod waits there is forgotten once that is judged.
    one_by_one.distrust.look()
    assert one_by_one.suspects() == expected
    assert len(cluster.feed._held) == sum(ran is None for *_, ran, _ in history)


def test_a_suspect_is_refused_for_a_time_that_doubles_with_each_try_until_a_pod_starts() -> None:
    cluster = Cluster()
    cluster.put(a_pod("a"), a_pod("b"))
    cluster.wait(AFTER - 1)
    assert cluster.suspects() == set()
    cluster.wait(1)
    for number, rest in enumerate((300, 600, 1200, 2400, 3600, 3600)):
        assert cluster.refused() == {"n0"}
        cluster.wait(rest - 1)
        assert cluster.refused() == {"n0"}
        cluster.wait(1)
        # Lowest score, though it is not refused.
        assert (cluster.refused(), cluster.suspects()) == (set(), {"n0"})
        tries = a_pod(f"try{number}", at=cluster.clock.now)
        cluster.put(tries)
        assert cluster.refused() == {"n0"}, "a second pod may not try beside the first"
        cluster.put(tries, deleted=True)
        assert cluster.refused() == set(), "the try is over"
        cluster.put(tries)
        cluster.wait(AFTER)
    assert cluster.reasons == ["Suspect", *["OnTrial", "OnTrial", "Suspect"] * 6]
    text = (
        'nodes don\'t match RuntimeClass "kata"'
        ' (runtime handler "kata-qemu" failed to start 8 pods)'
    )
    found = cluster.store.snapshot.shapes.verdicts(Pod(runtime_class_name="kata"), KATA, Policy())
    assert text in {each.text for each in found.reasons if each}
    cluster.put(a_pod("c", at=cluster.clock.now, started=cluster.clock.now))
    assert (cluster.refused(), cluster.suspects()) == (set(), set())
    cluster.wait(10 * AFTER)
    assert cluster.suspects() == set(), "the pods bound before it say nothing any more"
    assert cluster.reasons[-1] == "Trusted"
    names = [each.name for each in cluster.written]
    assert max(Counter(names).values()) <= 2


def test_of_pods_that_run_nothing_is_kept_but_where_their_controllers_have_pods() -> None:
    cluster = Cluster()
    cluster.put(*(a_pod(f"p{n}", f"n{n}", controller="c", started=START) for n in range(10)))
    cluster.put(a_pod("p0", "n0", controller="c", started=START))
    evidence = cluster.feed.evidence
    assert [*cluster.feed._held, *evidence.waiting, *evidence._starts] == []
    assert [len(each) for each in evidence._started_on.values()] == [2]


def test_a_suspect_without_pods_is_forgotten_an_hour_after_it_may_be_tried() -> None:
    cluster = Cluster(Mode.SCORE)
    pods = a_pod("a"), a_pod("b")
    cluster.put(*pods)
    cluster.wait(AFTER)
    cluster.put(*pods, deleted=True)
    cluster.wait(300 + 3599)
    assert (cluster.suspects(), cluster.refused()) == ({"n0"}, set())
    cluster.wait(1)
    assert cluster.suspects() == set()
    assert cluster.reasons == ["Suspect", "Trusted"]


@given(st.integers(1, 9), st.integers(0, 9), st.booleans())
@example(3, 1, False)
@example(4, 1, False)
def test_nothing_is_refused_where_a_third_fails_or_the_default_handler_too(
    nodes: int, broken: int, default_fails: bool
) -> None:
    cluster = Cluster(nodes=nodes)
    failing = [f"n{number}" for number in range(min(broken, nodes))]
    cluster.put(*(a_pod(f"{node}-{which}", node) for node in failing for which in "ab"))
    if default_fails:
        cluster.put(a_pod("plain", "n0", runtime_class=""))
    cluster.wait(AFTER)
    assert cluster.suspects() == set(failing)
    spared = {"n0"} if default_fails else set()
    assert cluster.refused() == (set(failing) - spared if 3 * len(failing) < nodes else set())


@given(st.sets(st.integers(0, 9)), st.integers(1, 10))
def test_suspects_score_lowest_and_no_other_node_does(broken: set[int], nodes: int) -> None:
    cluster = Cluster(Mode.SCORE, nodes)
    failing = {number for number in broken if number < nodes}
    cluster.put(*(a_pod(f"{number}-{which}", f"n{number}") for number in failing for which in "ab"))
    cluster.wait(AFTER)
    preferences, snapshot = Preferences(HandlerCheck.AUTO), cluster.store.snapshot
    names = NameRun.of([each.name.encode() for each in cluster.nodes])
    expected = bytes(0 if number in failing else 10 for number in range(nodes))
    assert preferences.scores(KATA, snapshot, names).scores == expected
    assert preferences.scores_of_nodes(KATA, snapshot, cluster.nodes).scores == expected
    assert set(preferences.scores(None, snapshot, names).scores) == {10}


@cases
def test_own_fault(spec: dict[str, Any], counts: bool) -> None:
    """A pod that may fail by itself does not count, whatever is known to be harmless does."""
    metadata = {"annotations": spec.pop("annotations", {})}
    cluster = Cluster()
    for name in "ab":
        pod = a_pod(name, **spec)
        cluster.put({**pod, "metadata": {**pod["metadata"], **metadata}})
    cluster.wait(AFTER)
    assert bool(cluster.suspects()) is counts
