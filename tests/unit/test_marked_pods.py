"""check: pods that a configuration with marks misses, keeps Pending, or hides from autoscalers."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.config.shipped import FOLDER, name_of, scheduler_configurations
from tests.processes import run

MARK: Final = "runtimeclass-extender/pod"

_CONTROL_PLANE: Final = FOLDER / "control-plane" / "node"
PLAIN: Final = _CONTROL_PLANE / "kube-scheduler-beside-plugin.yaml"
MARKED: Final = _CONTROL_PLANE / "kube-scheduler-beside-plugin-marked.yaml"

_NODE: Final[dict[str, Any]] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
_CLASS: Final[dict[str, Any]] = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
}


def pod(name: str, *, marked: str = "", **spec: Any) -> dict[str, Any]:
    """With a class, unless it is said otherwise; marked: "requests" or "limits"."""
    container: dict[str, Any] = {"name": "c", "image": "i"}
    if marked:
        container["resources"] = {marked: {MARK: "1"}}
    whole = {"runtimeClassName": "kata", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}


def check(folder: Path, config: Path, *objects: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Findings by check."""
    (folder / "cluster.yaml").write_text(yaml.safe_dump_all([_CLASS, *objects]))
    files = ("--manifests", str(folder / "cluster.yaml"), "--scheduler-config", str(config))
    result = run("check", *files, "--kubernetes-version", "1.36", "-o", "json")
    assert result.returncode in (0, 1), result.stderr
    findings = json.loads(result.stdout)["findings"]
    assert result.returncode == bool(findings)
    found = {each["check"]: each for each in findings}
    assert len(found) == len(findings)
    return found


def test_marks_that_nobody_gives_are_found(tmp_path: Path) -> None:
    (found,) = check(tmp_path, MARKED, _NODE, pod("a"), pod("b"), pod("c", runtimeClassName=None))
    finding = check(tmp_path, MARKED, _NODE, pod("a"), pod("b"))[found]
    assert (found, finding["severity"]) == ("unmarked-pods", "error")
    assert "2 pods without a node that name a RuntimeClass do not ask for it" in finding["what"]
    assert "nothing marks pods: default/a, default/b" in finding["what"]
    alone = check(tmp_path, MARKED, _NODE, pod("a"))[found]["what"]
    assert "1 pod without a node that names a RuntimeClass does not ask for it" in alone
    assert "policies/mark" in finding["fix"]
    assert "--mark-pods" in finding["fix"]


def test_a_pod_from_before_is_found_among_marked_ones(tmp_path: Path) -> None:
    (finding,) = check(tmp_path, MARKED, _NODE, pod("old"), pod("new", marked="requests")).values()
    assert (finding["check"], finding["severity"]) == ("unmarked-pods", "warning")
    assert "1 of 2 pods" in finding["what"]
    assert finding["what"].endswith("default/old")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod("a", nodeName="n1"), id="it has its node"),
        pytest.param(pod("a", schedulerName="another"), id="of another scheduler"),
        pytest.param(pod("a", runtimeClassName=None), id="no class"),
        pytest.param(pod("a", marked="requests"), id="marked"),
        pytest.param(pod("a", marked="limits"), id="marked by its limits"),
    ],
)
def test_other_pods_need_no_mark(tmp_path: Path, other: dict[str, Any]) -> None:
    assert check(tmp_path, MARKED, _NODE, other) == {}


def test_marked_pods_are_stuck_where_the_mark_is_not_ignored(tmp_path: Path) -> None:
    (finding,) = check(tmp_path, PLAIN, _NODE, pod("a", marked="limits")).values()
    assert (finding["check"], finding["severity"]) == ("mark-not-ignored", "error")
    assert finding["what"].startswith(f"1 pod asks for {MARK}, which this kube-scheduler does not")
    assert finding["why"].endswith(f"Insufficient {MARK}")
    assert check(tmp_path, PLAIN, _NODE, pod("a")) == {}


@pytest.mark.parametrize(
    ("args", "managed", "stuck"),
    [
        pytest.param({"ignoredResources": [MARK]}, None, False, id="the profile ignores it"),
        pytest.param(
            {"ignoredResourceGroups": ["runtimeclass-extender"]}, None, False, id="its group"
        ),
        pytest.param({"ignoredResources": ["example.com/a"]}, None, True, id="another resource"),
        pytest.param(
            {"ignoredResources": [MARK]},
            [{"name": "example.com/a", "ignoredByScheduler": True}],
            True,
            id="what an extender has ignored takes its place",
        ),
    ],
)
def test_a_profile_may_ignore_the_mark_by_itself(
    tmp_path: Path, args: dict[str, Any], managed: object, stuck: bool
) -> None:
    config = yaml.safe_load(PLAIN.read_text())
    config["profiles"] = [{"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}]
    if managed:
        config["extenders"].append({"urlPrefix": "http://gpu:1", "managedResources": managed})
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    found = check(tmp_path, file, _NODE, pod("a", marked="requests"))
    assert ("mark-not-ignored" in found) is stuck


@pytest.mark.parametrize(
    ("node", "fix"),
    [
        pytest.param({"labels": {"karpenter.sh/nodepool": "a"}}, "don't use marks", id="Karpenter"),
        pytest.param(
            {"labels": {"eks.amazonaws.com/nodegroup": "a"}}, "ignoredResources", id="a node group"
        ),
        pytest.param({"taint": "ToBeDeletedByClusterAutoscaler"}, "ignoredResources", id="a taint"),
    ],
)
def test_an_autoscaler_that_does_not_know_the_mark_is_told_of(
    tmp_path: Path, node: dict[str, Any], fix: str
) -> None:
    scaled = {**_NODE, "metadata": {"name": "n1", "labels": node.get("labels", {})}}
    if "taint" in node:
        scaled["spec"] = {"taints": [{"key": node["taint"], "effect": "NoSchedule"}]}
    (finding,) = check(tmp_path, MARKED, scaled).values()
    assert (finding["check"], finding["severity"]) == ("autoscaler", "warning")
    assert fix in finding["fix"]
    assert check(tmp_path, PLAIN, scaled) == {}


@pytest.mark.parametrize("file", scheduler_configurations(), ids=name_of)
def test_the_shipped_configurations_and_marks_go_together(file: Path, tmp_path: Path) -> None:
    """Whoever marks pods for them finds them ignored; who does not, hears of it."""
    name = yaml.safe_load(file.read_text()).get("profiles", [{}])[0].get("schedulerName", "")
    asks = {"schedulerName": name} if name else {}
    plugin = "instead" in name_of(file)
    marked, unmarked = pod("a", marked="limits", **asks), pod("a", **asks)
    expected = {True: (set(), {"unmarked-pods"}), False: ({"mark-not-ignored"}, set())}
    for each, checks in zip((marked, unmarked), expected["-marked" in name_of(file)], strict=True):
        (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all([_CLASS, _NODE, each]))
        files = ("--manifests", str(tmp_path / "cluster.yaml"), "--scheduler-config", str(file))
        result = run("check", *files, *(["--no-admission-plugin"] if plugin else []), "-o", "json")
        found = {each["check"] for each in json.loads(result.stdout)["findings"]}
        assert found == checks
