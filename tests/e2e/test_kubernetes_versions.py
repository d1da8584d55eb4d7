"""The table by version says of the Kubernetes under test what its own source says."""

import json
import os
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from extender.kubernetes.explained_pods import explained_pod
from extender.kubernetes.versions import DECIDING_FEATURES, ON_SINCE, SCORES_AS_IF_IDLE, is_on
from tests.cases_file import tables
from tests.e2e.cluster import Cluster, scheduler_minor, sized
from tests.e2e.gates import KNOWN
from tests.processes import called, until

#: A folder with a go.mod for each version, and programs that print what that version knows.
MODULES: Final = Path(__file__).parents[1] / "kubernetes"

#: Each with containers that need a feature, or that look like it, in all places for containers.
PODS: Final = [{"spec": each} for each in tables("kubernetes_versions")["pods"]] + [
    {"spec": {kind: [{}, each]}}
    for kind in ("containers", "initContainers", "ephemeralContainers")
    for each in tables("kubernetes_versions")["containers"]
]


@pytest.fixture(scope="module")
def minor() -> int:
    if shutil.which("go") is None:
        pytest.skip("no Go, which runs the version's own source")
    return scheduler_minor()


def told(program: str, minor: int, asked: object = None) -> Any:
    """What a program of tests/kubernetes prints, linked with a version's source."""
    done = called(
        *("go", "run", f"../{program}.go"),
        cwd=MODULES / f"1.{minor}",
        env={**os.environ, "CGO_ENABLED": "0"},
        stdin=json.dumps(asked),
        seconds=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_a_gate_is_known_and_on_in_the_versions_of_the_table(minor: int) -> None:
    found = told("gates", minor)
    for name, known in KNOWN.items():
        if not known.holds((1, minor)):
            assert name not in found
        elif name in found or name not in ON_SINCE:  # a locked gate is removed in the end
            is_expected = name in ON_SINCE and is_on(name, (1, minor))
            assert found[name]["isOn"] == is_expected, name
    assert KNOWN.keys() >= ON_SINCE.keys()


def test_what_nodes_declare_and_pods_need_is_what_the_table_says(minor: int) -> None:
    if minor < 35:
        pytest.skip("nodes declare features since 1.35")
    answer = told("declared_features", minor, PODS)
    registered = {name for name, first in DECIDING_FEATURES.items() if first <= (1, minor)}
    assert registered <= set(answer["registry"])
    assert set().union(*answer["needed"]) == registered
    for document, needed in zip(PODS, answer["needed"], strict=True):
        pod = explained_pod(json.dumps(document).encode())
        assert pod.declared_needs & registered == set(needed), document


@pytest.mark.parametrize("names", [True, False], ids=["names", "whole nodes"])
def test_with_whole_nodes_the_scores_are_those_of_idle_ones_in_the_versions_of_the_table(
    names: bool, instead: Cluster
) -> None:
    """kubernetes#141781: by their scores all pods go to the idle node, else to either."""
    room = {"cpu": "4", "memory": "8Gi", "pods": "100"}
    with instead.serving() as server, instead.scheduler(server.url, nodeCacheCapable=names):
        instead.add_node("busy", capacity=room, allocatable=room)
        instead.add_pod("big", containers=sized("3"))
        until(lambda: instead.node_of("big") == "busy")
        instead.add_node("idle", capacity=room, allocatable=room)
        # kube-scheduler and the service are to know the node before they choose.
        instead.add_pod("first", nodeSelector={"kubernetes.io/hostname": "idle"})
        until(lambda: instead.node_of("first") == "idle")
        until(lambda: b'"idle"' in server.request("GET", "/nodes")[1])
        pods = [f"small{number}" for number in range(16)]
        for name in pods:
            instead.add_pod(name, containers=sized("10m"))
        to_the_busy_one = "busy" in {instead.bound(name) for name in pods}
        assert to_the_busy_one == (not names and SCORES_AS_IF_IDLE.holds((1, instead.minor)))
