"""The monitoring files: the rules say what they should, and all speak of metrics that exist."""

import re
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from extender.inventory.headroom import HeadroomCollector
from extender.model.reasons import Code
from extender.rules.class_nodes import Support
from extender.rules.node_checks import HandlerCheck, Policy
from extender.rules.resource_fit import Loads
from extender.rules.snapshot import Snapshot
from extender.verbs.metrics import (
    CacheCollector,
    Metrics,
    PodsCollector,
    RefusedPodsCollector,
    SupportCollector,
)
from extender.verbs.outcomes import RefusedPods
from tests.config.pages import blocks
from tests.config.shipped import FOLDER as SCHEDULER_CONFIG
from tests.config.shipped import documents, objects, the_object
from tests.json_patch import apply
from tests.processes import ROOT, called

FOLDER: Final = ROOT / "chart" / "files"
TESTS: Final = ROOT / "tests" / "config" / "rules_test.yaml"
INSTALLED: Final = "install/monitoring.yaml"
NODE: Final = "control-plane/node"
DOCUMENT: Final = ROOT / "docs" / "monitoring.md"

_METRIC: Final = re.compile(r"\bruntimeclass_extender_[a-z_]+")
_SUFFIXES: Final = ("", "_bucket", "_count", "_sum", "_total")


def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


def expressions() -> dict[str, str]:
    """alert → its expression."""
    groups = read("rules.yaml")["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def names_of_metrics() -> set[str]:
    metrics = Metrics()
    snapshot = Snapshot()
    metrics.registry.register(CacheCollector(lambda: snapshot))
    metrics.registry.register(RefusedPodsCollector(RefusedPods(lambda: 0.0), lambda: snapshot))
    metrics.registry.register(SupportCollector(Support(HandlerCheck.AUTO), lambda: snapshot))
    metrics.registry.register(PodsCollector(dict, lambda: snapshot, Policy()))
    metrics.registry.register(HeadroomCollector(Loads, lambda: snapshot, Policy()))
    return {family.name + suffix for family in metrics.registry.collect() for suffix in _SUFFIXES}


@pytest.mark.parametrize(
    "file", [*sorted(FOLDER.iterdir()), TESTS, DOCUMENT], ids=lambda file: str(file.name)
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
    assert the_object("PrometheusRule", INSTALLED)["spec"] == read("rules.yaml")


def test_every_rule_and_the_queries_of_the_document_are_tested() -> None:
    tests = yaml.safe_load(TESTS.read_text())["tests"]
    fired = {
        case["alertname"]
        for each in tests
        for case in each.get("alert_rule_test", ())
        if case["exp_alerts"]
    }
    assert fired == expressions().keys()
    queried = {case["expr"] for each in tests for case in each.get("promql_expr_test", ())}
    shown = blocks(DOCUMENT.read_text(), "promql")
    assert len(shown) == 4
    assert {block.splitlines()[0] for block in shown} == queried


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize(("verb", "file"), [("check", FOLDER / "rules.yaml"), ("test", TESTS)])
def test_promtool_agrees(verb: str, file: Path) -> None:
    result = called("promtool", verb, "rules", file)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_service_monitor_finds_the_services() -> None:
    monitor = the_object("ServiceMonitor", INSTALLED)
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


def test_the_pod_monitor_finds_the_static_pods_that_have_the_patch() -> None:
    monitor = the_object("PodMonitor", INSTALLED)
    pod = the_object("Pod", f"{NODE}/runtimeclass-extender.yaml")
    labels = pod["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": [pod["metadata"]["namespace"]]}
    assert labels[monitor["spec"]["jobLabel"]] == "runtimeclass-extender"
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (operations,) = documents(SCHEDULER_CONFIG / NODE / "scraped+json.yaml")
    (container,) = apply(pod, operations)["spec"]["containers"]
    (port,) = (each for each in container["ports"] if each["name"] == endpoint["port"])
    assert f"--ops-bind=:{port['containerPort']}" in container["args"]
    assert "--pages=false" in container["args"]


def test_the_alerts_know_the_static_pods_by_the_name_that_kubelet_gives_them() -> None:
    pod = the_object("Pod", f"{NODE}/runtimeclass-extender.yaml")["metadata"]
    for alert in ("ReplicaDown", "Down", "Missing"):
        expression = expressions()[f"RuntimeClassExtender{alert}"]
        assert f'namespace="{pod["namespace"]}"' in expression
        assert f'pod=~"{pod["name"]}-.+"' in expression
