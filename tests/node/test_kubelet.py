"""The kubelet's rejections (docs/kubelet.md) happen where `explain` foresees them, only there."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.node.conftest import SCHEDULER
from tests.node.node import NAME, Node
from tests.node.parts import HERE, until
from tests.node.reader import Reader, a_pod
from tests.processes import run

_PODS: Final[dict[str, Any]] = yaml.safe_load((HERE / "pods.yaml").read_text())


def _made(name: str, **more: Any) -> dict[str, Any]:
    asked = _PODS[name]
    pod = a_pod(name, asked.get("class"), **asked.get("spec", {}), **more)
    pod["metadata"]["labels"] = asked.get("labels", {})
    if recursive := asked.get("mount"):
        mount = {"name": "v", "mountPath": "/v", "readOnly": True, "recursiveReadOnly": recursive}
        pod["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
        pod["spec"]["containers"][0]["volumeMounts"] = [mount]
    return pod


def _outcome(reader: Reader, name: str) -> str:
    """What became of a bound pod: `runs`, or the kubelet's word for why not; empty: too early."""
    status = reader.node.get("pod", name)["status"]
    if status.get("phase") == "Failed":
        return str(status["reason"])
    # A pod that is bound when it is created has no conditions until the kubelet writes some.
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    if conditions.get("Ready") == "True":
        return "runs"
    events = reader.events(name)
    return next((word for word in ("FailedCreatePodSandBox", "Failed:") if word in events), "")


@pytest.mark.parametrize("name", _PODS)
def test_a_pod_that_is_bound_by_hand_runs_where_explain_says_so_and_nowhere_else(
    node: Node, reader: Reader, tmp_path: Path, name: str
) -> None:
    (tmp_path / "pod.json").write_text(json.dumps(_made(name)))
    explained = run(
        *("explain", "-f", str(tmp_path / "pod.json"), "-o", "json"),
        env={"KUBECONFIG": str(node.kubeconfig)},
    )
    assert explained.stderr == ""
    answer = json.loads(explained.stdout)
    reader.apply(_made(name, nodeName=NAME))
    until(lambda: _outcome(reader, name) != "", 90)
    outcome = _outcome(reader, name)
    print(f"{outcome}; foreseen: {[each['reason'] for each in answer['reasons']]}")
    assert (outcome == "runs") == (answer["feasible"] == 1), reader.events(name)


def test_the_scheduler_binds_those_that_run_and_says_why_of_the_others(
    second_scheduler: Reader,
) -> None:
    reader = second_scheduler
    reader.apply(*(_made(name, schedulerName=SCHEDULER) for name in _PODS))

    def is_bound(name: str) -> bool:
        return "nodeName" in reader.node.get("pod", name)["spec"]

    def is_settled(name: str) -> bool:
        if is_bound(name):
            return _outcome(reader, name) != ""
        return "FailedScheduling" in reader.events(name)

    until(lambda: all(is_settled(name) for name in _PODS), 180)
    bound = {name for name in _PODS if is_bound(name)}
    assert bound >= {"plain", "strict-groups", "users-of-crun", "mounts-of-runc"}
    for name in bound:
        assert _outcome(reader, name) == "runs", (name, reader.events(name))


def test_a_handler_whose_program_is_missing_is_not_foreseen(second_scheduler: Reader) -> None:
    """The API does not tell of it: the pod is bound, and fails."""
    second_scheduler.apply(a_pod("fails", "broken", schedulerName=SCHEDULER))
    until(lambda: "FailedCreatePodSandBox" in second_scheduler.events("fails"), 60)
    assert "no such file or directory" in second_scheduler.events("fails")
