"""check: pods that a configuration with marks misses, keeps Pending, or hides from autoscalers."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from extender.lint.lints.marked_pods import autoscalers
from extender.model.objects import Node
from extender.rules.pools import POOL_LABELS
from tests.cases_file import cases
from tests.config.shipped import FOLDER
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
    """A pod of class kata, unless spec says otherwise; marked: "requests" or "limits"."""
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
    found = {each["code"]: each for each in findings}
    assert len(found) == len(findings)
    return found


@cases
def test_pods_and_a_configuration_that_do_not_go_together_are_found(
    marked: bool, pods: list[dict[str, Any]], expected: dict[str, list[str]], tmp_path: Path
) -> None:
    """expected: check → its severity, then words of its finding."""
    named = [pod(name, **fields) for name, fields in zip("abc", pods, strict=False)]
    found = check(tmp_path, MARKED if marked else PLAIN, _NODE, *named)
    assert found.keys() == expected.keys()
    for name, (severity, *words) in expected.items():
        assert found[name]["severity"] == severity
        assert not [each for each in words if each not in " ".join(found[name].values())]


@cases
def test_an_autoscaler_that_does_not_know_the_mark_is_told_of(
    labels: dict[str, str], taint: str, fix: str, tmp_path: Path
) -> None:
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    metadata = {"name": "n1", "labels": labels}
    scaled = {**_NODE, "metadata": metadata, "spec": {"taints": taints}}
    (finding,) = check(tmp_path, MARKED, scaled).values()
    assert (finding["code"], finding["severity"]) == ("autoscaler", "warning")
    assert fix in finding["fix"]
    assert check(tmp_path, PLAIN, scaled) == {}


@pytest.mark.parametrize("label", POOL_LABELS)
def test_every_label_of_a_pool_is_a_sign_of_its_autoscaler(label: str) -> None:
    extender = {"managedResources": [{"name": MARK, "ignoredByScheduler": True}]}
    nodes = [Node("n0"), Node("n1", {label: "a", "other": "b"})]
    document = {**yaml.safe_load(MARKED.read_text()), "extenders": [extender]}
    (finding,) = autoscalers(document, nodes, ())
    assert label in finding.what
