"""The monitoring files: the rules say what they should, and all speak of metrics that exist."""

import json
import re
import shutil
import subprocess
from typing import Any, Final

import pytest
import yaml

from extender.metrics import (
    CacheCollector,
    Metrics,
    PodsCollector,
    RefusedPodsCollector,
    SupportCollector,
)
from extender.predicates.node_checks import HandlerCheck, Policy
from extender.reasons import Code
from extender.refused_pods import RefusedPods
from extender.snapshot import Snapshot
from extender.verbs.class_nodes import Support
from tests.config.shipped import objects
from tests.processes import ROOT

FOLDER: Final = ROOT / "scheduler-config" / "monitoring"
PROMETHEUS: Final = FOLDER / "prometheus"
DOCUMENT: Final = ROOT / "docs" / "monitoring.md"

_METRIC: Final = re.compile(r"\bruntimeclass_extender_[a-z_]+")
_SUFFIXES: Final = ("", "_bucket", "_count", "_sum", "_total")


def rules() -> Any:
    return yaml.safe_load((PROMETHEUS / "rules.yaml").read_text())


def names_of_metrics() -> set[str]:
    metrics = Metrics()
    snapshot = Snapshot()
    metrics.registry.register(CacheCollector(lambda: snapshot))
    metrics.registry.register(RefusedPodsCollector(RefusedPods(lambda: 0.0), lambda: snapshot))
    metrics.registry.register(SupportCollector(Support(HandlerCheck.AUTO), lambda: snapshot))
    metrics.registry.register(PodsCollector(dict, lambda: snapshot, Policy()))
    return {family.name + suffix for family in metrics.registry.collect() for suffix in _SUFFIXES}


@pytest.mark.parametrize(
    "file",
    [*sorted(file for file in FOLDER.rglob("*") if file.is_file()), DOCUMENT],
    ids=lambda file: str(file.name),
)
def test_every_metric_named_exists(file: Any) -> None:
    named = set(_METRIC.findall(file.read_text()))
    assert named <= names_of_metrics()


def test_the_document_names_every_reason_that_a_filter_counts() -> None:
    (listed,) = re.findall(r"^Reasons: ([^;]*);", DOCUMENT.read_text(), re.MULTILINE)
    named = re.findall(r"`(\w+)`", listed)
    of_explain = {
        Code.POD_SELECTOR,
        Code.POD_AFFINITY,
        Code.POD_TAINT,
        Code.CORDONED,
        Code.POD_FEATURES,
        Code.RESOURCES,
    }
    assert sorted(named) == sorted(set(Code) - of_explain)


def test_the_operator_gets_the_same_rules() -> None:
    wrapped = yaml.safe_load((FOLDER / "prometheusrule.yaml").read_text())
    assert wrapped["spec"] == rules()


def test_the_folder_itself_holds_nothing_but_objects_to_apply() -> None:
    """`kubectl apply -f FOLDER` takes every .yaml and .json in it, and none of its folders."""
    for file in (each for each in FOLDER.iterdir() if each.is_file()):
        for document in yaml.safe_load_all(file.read_text()):
            assert document["apiVersion"] == "monitoring.coreos.com/v1", file.name
            assert document["kind"] in ("PrometheusRule", "ServiceMonitor")
            assert document["metadata"]["name"]
            assert "namespace" not in document["metadata"]


def test_every_rule_is_tested() -> None:
    tests = yaml.safe_load((PROMETHEUS / "rules_test.yaml").read_text())["tests"]
    fired = {
        case["alertname"]
        for each in tests
        for case in each.get("alert_rule_test", ())
        if case["exp_alerts"]
    }
    assert fired == {rule["alert"] for group in rules()["groups"] for rule in group["rules"]}


def test_the_queries_of_the_document_are_tested() -> None:
    """Each of the KEP's three questions has its query in the document and in promtool's tests."""
    tested = {
        case["expr"]
        for each in yaml.safe_load((PROMETHEUS / "rules_test.yaml").read_text())["tests"]
        for case in each.get("promql_expr_test", ())
    }
    blocks = re.findall(r"^```promql\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    assert {block.splitlines()[0] for block in blocks} == tested


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize("command", [("check", "rules.yaml"), ("test", "rules_test.yaml")])
def test_promtool_agrees(command: tuple[str, str]) -> None:
    what, file = command
    result = subprocess.run(
        ["promtool", what, "rules", file],
        cwd=PROMETHEUS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_service_monitor_finds_the_services() -> None:
    monitor = yaml.safe_load((FOLDER / "servicemonitor.yaml").read_text())
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    services = [
        service
        for _, service in objects("Service")
        if wanted <= service["metadata"].get("labels", {}).items()
    ]
    assert len(services) == 3
    for service in services:
        assert service["spec"]["clusterIP"] == "None"
        assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
        job = service["metadata"]["labels"][monitor["spec"]["jobLabel"]]
        assert re.fullmatch("runtimeclass-(extender|scheduler|webhook)", job)


def test_the_dashboard_has_panels_that_do_not_overlap() -> None:
    dashboard = json.loads((FOLDER / "grafana" / "dashboard.json").read_text())
    cells = [
        (x, y)
        for panel in dashboard["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert all(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
