"""The shipped KubeSchedulerConfigurations say what docs and semantics say they must."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.config.shipped import SCHEDULER_CONFIGURATION, name_of, scheduler_configurations
from tests.processes import run

#: KubeSchedulerConfiguration and Extender of k8s.io/kube-scheduler/config/v1, v1.36.2.
CONFIGURATION_FIELDS: Final = {
    "apiVersion",
    "kind",
    "parallelism",
    "leaderElection",
    "clientConnection",
    "enableProfiling",
    "enableContentionProfiling",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "profiles",
    "extenders",
    "delayCacheUntilActive",
}
EXTENDER_FIELDS: Final = {
    "urlPrefix",
    "filterVerb",
    "preemptVerb",
    "prioritizeVerb",
    "weight",
    "bindVerb",
    "enableHTTPS",
    "tlsConfig",
    "httpTimeout",
    "nodeCacheCapable",
    "managedResources",
    "ignorable",
}

_ALL: Final = pytest.mark.parametrize("file", scheduler_configurations(), ids=name_of)


def _load(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    configuration = yaml.safe_load(file.read_text())
    (extender,) = configuration["extenders"]
    return configuration, extender


def _is_for_marked_pods(file: Path) -> bool:
    return "-marked" in name_of(file)


def test_each_way_has_one_beside_and_one_instead_of_the_plugin_for_all_and_for_marked_pods() -> (
    None
):
    names = set(map(name_of, scheduler_configurations()))
    assert names == {
        path.format(f"{way}-plugin{marked}")
        for way in ("beside", "instead-of")
        for marked in ("", "-marked")
        for path in (
            "control-plane/node/kube-scheduler-{}.yaml",
            "remote/kube-scheduler/{}.yaml",
            "second-scheduler/{}/kube-scheduler.yaml",
        )
    }


@_ALL
def test_fields_are_those_of_the_api(file: Path) -> None:
    configuration, extender = _load(file)
    assert configuration["apiVersion"] == SCHEDULER_CONFIGURATION
    assert set(configuration) <= CONFIGURATION_FIELDS
    assert set(extender) <= EXTENDER_FIELDS


@_ALL
def test_pods_cost_a_call_of_the_filter_and_marked_ones_all_three_verbs(file: Path) -> None:
    """Preempt is called where pods must give way only; a second call for each pod is a choice."""
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
def test_the_time_out_is_longer_than_a_look_up_and_shorter_than_patience(file: Path) -> None:
    _, extender = _load(file)
    seconds = re.fullmatch(r"(\d+)s", extender["httpTimeout"])
    assert seconds
    assert 2 <= int(seconds[1]) <= 5


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


#: Nothing about it is worth a finding.
SOUND_CLUSTER: Final = """
apiVersion: v1
kind: Node
metadata:
  name: n1
  labels: {node-restriction.kubernetes.io/sandbox: kata}
status:
  runtimeHandlers: [{name: ""}, {name: runc}, {name: kata}]
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kata}
handler: kata
scheduling:
  nodeSelector: {node-restriction.kubernetes.io/sandbox: kata}
overhead:
  podFixed: {memory: 160Mi, cpu: 250m}
"""


@_ALL
@pytest.mark.parametrize("version", ["1.30", "1.36"])
def test_our_own_check_finds_nothing(file: Path, version: str, tmp_path: Path) -> None:
    manifest = tmp_path / "cluster.yaml"
    manifest.write_text(SOUND_CLUSTER)
    plugin = () if "beside" in name_of(file) else ("--no-admission-plugin",)
    result = run(
        "check",
        f"--manifests={manifest}",
        f"--scheduler-config={file}",
        f"--kubernetes-version={version}",
        "--output=json",
        *plugin,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert json.loads(result.stdout)["findings"] == []
