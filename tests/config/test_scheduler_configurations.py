"""The shipped KubeSchedulerConfigurations say what docs and semantics say they must."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.config.shipped import FOLDER, name_of, scheduler_configurations

_ALL: Final = pytest.mark.parametrize("file", scheduler_configurations(), ids=name_of)


def _load(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    configuration = yaml.safe_load(file.read_text())
    (extender,) = configuration["extenders"]
    return configuration, extender


def _is_for_marked_pods(file: Path) -> bool:
    return "-marked" in name_of(file)


@_ALL
def test_pods_cost_a_call_of_the_filter_and_marked_ones_all_three_verbs(file: Path) -> None:
    """preempt is called for evictions only; prioritize, a second call for each pod, is a choice."""
    _, extender = _load(file)
    marked = _is_for_marked_pods(file)
    verbs = {key: value for key, value in extender.items() if key.endswith("Verb")}
    scoring = {"prioritizeVerb": "prioritize"} if marked else {}
    assert verbs == {"filterVerb": "filter", "preemptVerb": "preempt", **scoring}
    assert extender.get("weight") == (3 if marked else None)
    assert extender["nodeCacheCapable"] is True
    ignored = [{"name": "runtimeclass-extender/pod", "ignoredByScheduler": True}]
    assert extender.get("managedResources") == (ignored if marked else None)


@_ALL
def test_the_lines_to_add_for_prioritize_are_those_that_are_commented_out(file: Path) -> None:
    if _is_for_marked_pods(file):
        return
    text = file.read_text()
    for line in ("prioritizeVerb: prioritize", "weight: 3"):
        assert text.count(f"    # {line}\n") == 1
        text = text.replace(f"# {line}", line)
    (extender,) = yaml.safe_load(text)["extenders"]
    assert (extender["prioritizeVerb"], extender["weight"]) == ("prioritize", 3)


@_ALL
def test_only_instead_of_the_plugin_every_node_is_looked_at(file: Path) -> None:
    configuration, extender = _load(file)
    arguments = {
        each["name"]: each["args"]
        for profile in configuration.get("profiles", ())
        for each in profile.get("pluginConfig", ())
    }
    if "beside" in name_of(file):
        assert extender["ignorable"] is True
        assert "percentageOfNodesToScore" not in configuration
        assert not arguments
    else:
        assert extender["ignorable"] is False
        assert configuration["percentageOfNodesToScore"] == 100
        assert arguments["DefaultPreemption"]["minCandidateNodesPercentage"] == 100


@_ALL
def test_plain_http_stays_on_loopback_and_tls_checks_whom_it_talks_to(file: Path) -> None:
    _, extender = _load(file)
    if extender["urlPrefix"].startswith("http://"):
        assert extender["urlPrefix"] == "http://127.0.0.1:8888"
        assert "tlsConfig" not in extender
        return
    assert extender["enableHTTPS"] is True
    assert set(extender["tlsConfig"]) == {"serverName", "caFile", "certFile", "keyFile"}


def test_that_of_cluster_autoscaler_asks_with_whole_nodes_and_never_stops_scaling() -> None:
    file = FOLDER / "remote" / "cluster-autoscaler" / "scheduler-config.yaml"
    document, extender = _load(file)
    assert (document["kind"], extender["nodeCacheCapable"]) == ("KubeSchedulerConfiguration", False)
    verbs = {key: value for key, value in extender.items() if key.endswith("Verb")}
    assert verbs == {"filterVerb": "filter"}
    assert extender["ignorable"] is True
    _, scheduler = _load(FOLDER / "remote" / "kube-scheduler" / "beside-plugin.yaml")
    for same in ("urlPrefix", "enableHTTPS", "tlsConfig", "httpTimeout"):
        assert extender[same] == scheduler[same]
