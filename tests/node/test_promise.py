"""A pod whose handler a node lacks: what happens without the extender, and what happens with it."""

import pytest

from tests.node.conftest import SCHEDULER
from tests.node.node import HANDLERS, NAME, Node
from tests.node.parts import step, until
from tests.node.reader import Reader, a_pod


def test_without_the_extender_a_pod_is_bound_where_its_handler_is_missing_and_hangs(
    node: Node, reader: Reader
) -> None:
    with step("no extender: from the pod's creation to the kubelet's complaint"):
        reader.apply(a_pod("hangs", "late"))
        until(lambda: "FailedCreatePodSandBox" in reader.events("hangs"), 60)
    assert 'no runtime for "late" is configured' in reader.events("hangs")
    pod = node.get("pod", "hangs")
    assert (pod["spec"]["nodeName"], pod["status"]["phase"]) == (NAME, "Pending")


@pytest.fixture
def configured(node: Node) -> object:
    """The node's handlers as they were, after the test."""
    yield
    node.end("containerd")
    node.configure_handlers(HANDLERS)
    node.run("containerd")
    until(lambda: "late" not in _handlers(node), 60)


@pytest.mark.usefixtures("configured")
def test_with_it_the_pod_is_pending_with_our_reason_and_runs_once_its_handler_is_there(
    node: Node, second_scheduler: Reader
) -> None:
    with step("with the extender: from the pod's creation to its event"):
        second_scheduler.apply(a_pod("waits", "late", schedulerName=SCHEDULER))
        reason = '1 nodes don\'t match RuntimeClass "late" (no runtime handler "late")'
        pod = second_scheduler.waits("waits", f"0/1 nodes are available: {reason}")
    assert "nodeName" not in pod["spec"]
    with step("containerd restarted with the handler, up to the Node that reports it"):
        node.end("containerd")
        node.configure_handlers({**HANDLERS, "late": HANDLERS["runc"]})
        node.run("containerd")
        until(lambda: "late" in _handlers(node), 60)
    with step("from there to the pod that has a node"):
        second_scheduler.wait("waits", "condition=PodScheduled")
    with step("from there to the pod that runs"):
        second_scheduler.wait("waits")


def _handlers(node: Node) -> list[str]:
    return [each["name"] for each in node.get("node", NAME)["status"].get("runtimeHandlers", [])]
