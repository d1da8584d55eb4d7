"""The service as a static pod beside kube-scheduler; and Kubernetes' own RuntimeClass tests.

Their scenarios (test/e2e/common/node/runtimeclass.go, test/e2e/node/runtimeclass.go of Kubernetes),
written anew, with the RuntimeClass admission plugin off and our webhook and extender in its place.
"""

import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.fakes.apiserver import Json
from tests.node import control_plane
from tests.node.node import NAME, Node
from tests.node.parts import HERE, run, step, until
from tests.node.reader import Reader, a_class, a_pod
from tests.processes import ROOT

#: The class has its taint tolerated and its labels asked for.
_SCHEDULING: Final = {
    "nodeSelector": {"foo": "bar", "fizz": "buzz"},
    "tolerations": [{"key": "foo", "operator": "Equal", "value": "bar", "effect": "NoSchedule"}],
}
_MARK: Final = "runtimeclass-extender/pod"


@pytest.fixture(scope="module")
def beside(reader: Reader) -> Iterator[Reader]:
    """Static pods, removed afterwards as docs/upgrade-and-removal.md says."""
    with step("following docs/install-control-plane.md, up to a kube-scheduler that leads"):
        control_plane.install(reader)
    yield reader
    with step("removing it"):
        control_plane.remove(reader)


def _it_is_asked(reader: Reader) -> None:
    reader.both_run()
    reader.apply(a_pod("waits", "late"))
    reader.waits("waits", 'no runtime handler "late"')


def test_the_clusters_own_scheduler_asks_the_static_pod(beside: Reader) -> None:
    _it_is_asked(beside)


def test_an_upgrade_of_the_static_pod_leaves_seconds_without_answers(beside: Reader) -> None:
    tags = (f"docker.io/library/runtimeclass-extender:{tag}" for tag in ("0.1.0", "0.1.1"))
    beside.node.inside("ctr", "-n", "k8s.io", "images", "tag", "--force", *tags)
    with step("another version of the static pod"):
        control_plane.write_the_manifest(beside, "0.1.1")
    control_plane.write_the_manifest(beside)


_LARGEST: Final = """
from extender.http.limits import DEFAULT_MAX_BODY_BYTES
from loadtest.hostile import Target, send_largest
for _ in range(3):
    send_largest(Target(("127.0.0.1", 8888), DEFAULT_MAX_BODY_BYTES))
"""
_MEMORY: Final = """cd /sys/fs/cgroup; cat memory.max memory.peak 2> /dev/null ||
    cat memory/memory.limit_in_bytes memory/memory.max_usage_in_bytes"""


def test_the_largest_bodies_of_all_kinds_stay_within_the_containers_memory(beside: Reader) -> None:
    """As `make loadtest` sends them at its end, here against the limit of a cgroup."""
    pod = f"runtimeclass-extender-{NAME}"
    with step("sending the largest bodies of each kind, two at a time"):
        entered = ("nsenter", f"--target={beside.node.pid}", "--net")
        run(*entered, sys.executable, "-c", _LARGEST, cwd=ROOT)
    words = ("exec", "-n", "kube-system", pod, "--", "sh", "-c", _MEMORY)
    limit, peak = map(int, beside.node.kubectl(*words).split())
    print(f"limit {limit >> 20} MiB, peak {peak >> 20} MiB")
    assert limit == 1024 << 20
    assert peak < limit
    status = beside.wait(pod, namespace="kube-system")["status"]
    assert status["containerStatuses"][0]["restartCount"] == 0
    _it_is_asked(beside)


def test_pods_that_a_policy_marks_are_asked_about_and_others_are_not(beside: Reader) -> None:
    with beside.with_("policies/mark"):
        control_plane.restart_the_scheduler(beside, "beside-plugin-marked")
        try:
            beside.apply(a_pod("plain"))
            assert "resources" not in _without_nothing(beside.wait("plain"))
            _it_is_asked(beside)
            asked = beside.wait("on-runc")["spec"]["containers"][0]["resources"]
            assert asked == {"limits": {_MARK: "1"}, "requests": {_MARK: "1"}}
        finally:
            control_plane.restart_the_scheduler(beside, "beside-plugin")


def _without_nothing(pod: Json) -> Json:
    """The first container's fields that have a value."""
    return {key: value for key, value in pod["spec"]["containers"][0].items() if value}


#: Of the webhook, and kube-scheduler's configuration.
_INSTEAD: Final = {
    "plugin=beside": "instead-of-plugin",
    "plugin=instead": "instead-of-plugin",
    "plugin=instead,webhook.markPods=true": "instead-of-plugin-marked",
}


@pytest.fixture(scope="module", params=_INSTEAD)
def variant(request: pytest.FixtureRequest, beside: Reader) -> Iterator[str]:
    """Without the plugin, in the order of the page."""
    chosen: str = request.param
    beside.apply(a_class("runc"))
    with beside.with_(f"webhook/{chosen}"):
        with step(f"kube-scheduler-{_INSTEAD[chosen]}, then the plugin off"):
            control_plane.restart_the_scheduler(beside, _INSTEAD[chosen])
            control_plane.switch_the_plugin(beside.node, on=False)
            # kube-apiserver has just restarted: for some seconds the webhook has no endpoints.
            until(lambda: beside.node.refused(_ends("asked", "runc")) == "", 120)
        yield chosen
        with step("and back again"):
            control_plane.switch_the_plugin(beside.node, on=True)
            control_plane.restart_the_scheduler(beside, "beside-plugin")


@pytest.fixture
def instead(variant: str, reader: Reader) -> Reader:
    assert variant
    return reader


def _ends(name: str, runtime_class: str, **spec: Any) -> Json:
    """A pod that succeeds."""
    pod = a_pod(name, runtime_class, restartPolicy="Never", **spec)
    pod["spec"]["containers"][0]["command"] = ["/bin/true"]
    pod["spec"]["automountServiceAccountToken"] = False
    return pod


def test_rejects_a_pod_of_a_class_that_does_not_exist(node: Node, instead: Reader) -> None:
    said = node.refused(_ends("refused", "nonexistent"))
    assert "forbidden" in said.lower()
    assert 'pod rejected: RuntimeClass "nonexistent" not found' in said


def test_does_not_run_a_pod_of_an_unconfigured_handler(instead: Reader) -> None:
    instead.apply(_ends("waits", "late"))
    pod = instead.waits("waits", 'no runtime handler "late"')
    assert pod["status"]["phase"] == "Pending"


def test_runs_a_pod_of_a_configured_handler(instead: Reader) -> None:
    instead.apply(_ends("ends", "crun"))
    instead.ends("ends")


@pytest.mark.parametrize("overhead", [None, {"cpu": "10m", "memory": "1Mi"}])
def test_schedules_a_pod_and_initializes_its_overhead(
    instead: Reader, overhead: dict[str, str] | None
) -> None:
    more = {"overhead": {"podFixed": overhead}} if overhead else {}
    instead.apply(a_class("heavy", "crun", **more))
    instead.apply(_ends("heavy", "heavy"))
    pod = instead.wait("heavy", "condition=PodScheduled")
    assert pod["spec"].get("overhead") == overhead


def test_rejects_a_pod_of_a_deleted_class(node: Node, instead: Reader) -> None:
    instead.apply(a_class("deleted", "runc"))
    until(lambda: node.refused(_ends("refused", "deleted")) == "")
    node.kubectl("delete", "runtimeclass", "deleted")
    until(lambda: 'RuntimeClass "deleted" not found' in node.refused(_ends("refused", "deleted")))


def test_supports_all_operations_on_classes(instead: Reader) -> None:
    instead.types((HERE / "operations.sh").read_text())


def test_rejects_a_pod_whose_node_selector_conflicts(node: Node, instead: Reader) -> None:
    instead.apply(a_class("picky", "runc", scheduling={"nodeSelector": {"foo": "conflict"}}))
    pod = _ends("refused", "picky", nodeSelector={"foo": "bar"})
    until(lambda: "conflict: runtimeClass.scheduling.nodeSelector[foo]" in node.refused(pod))


@pytest.fixture(params=[True, False], ids=["with-taints", "without-taints"])
def labelled(request: pytest.FixtureRequest, node: Node) -> Iterator[Json]:
    """The scheduling of a class that only this node serves."""
    taints = ["foo=bar:NoSchedule"] if request.param else []
    for each in taints:
        node.kubectl("taint", "node", NAME, each)
    node.kubectl("label", "node", NAME, "foo=bar", "fizz=buzz")
    yield _SCHEDULING if taints else {"nodeSelector": _SCHEDULING["nodeSelector"]}
    node.kubectl("label", "node", NAME, "foo-", "fizz-")
    for each in taints:
        node.kubectl("taint", "node", NAME, f"{each}-")


def test_runs_a_pod_of_a_class_with_scheduling(
    labelled: Json, instead: Reader, variant: str
) -> None:
    instead.apply(a_class("placed", "crun", scheduling=labelled))
    instead.apply(_ends("placed", "placed", nodeSelector={"foo": "bar"}))
    spec = instead.ends("placed")["spec"]
    assert spec["nodeName"] == NAME
    # With `--merge tolerations` the filter asks for the rest.
    wanted = labelled["nodeSelector"] if variant == "plugin=beside" else {"foo": "bar"}
    assert spec["nodeSelector"] == wanted
    assert all(each in spec["tolerations"] for each in labelled.get("tolerations", []))
