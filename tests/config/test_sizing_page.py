"""docs/sizing.md: its commands exist, its figures are an output, its patch fits what is shipped."""

import re
from typing import Any, Final

import yaml

from extender.cluster.list_watch import MAX_WATCH_SECONDS, MIN_WATCH_SECONDS
from extender.cluster.requeue import BURST, RATE
from loadtest import sizing, sizing_tables
from loadtest.shipped import shipped
from loadtest.sizing_model import EVENTS_A_POD, MOST_PODS, REPORT_SECONDS, UPDATE_SECONDS
from tests.config.shipped import containers, pod_specs, the_object
from tests.json_patch import apply
from tests.processes import ROOT

_PAGE: Final = (ROOT / "docs" / "sizing.md").read_text()
_PUBLISHED: Final = _PAGE.partition("<!-- sizing -->")[2].partition("<!-- end sizing -->")[0]


def test_each_command_is_a_target_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"make ([a-z-]+)", _PAGE))
    assert {"bench-sizing", "bench-docs", "bench-memory"} <= named <= targets


def test_the_figures_are_all_sizes_in_both_modes() -> None:
    """What stands between the marks is an output of the command, never of --quick."""
    for nodes in sizing.SIZES:
        rows = re.findall(rf"^\| +{nodes:,} \| (\S+(?: \S+)?) +\|", _PUBLISHED, re.MULTILINE)
        assert rows.count("as shipped") == rows.count("--watch-pods") == 3, nodes
    assert (ROOT / "docs" / "sizing" / "sizing.png").is_file()


def test_the_shipped_resources_are_those_that_the_figures_are_held_against() -> None:
    cpu = shipped("requests", "cpu", review=False)
    memory, limit = (
        shipped(kind, "memory", review=False) // 2**20 for kind in ("requests", "limits")
    )
    assert f"(shipped: requests of {cpu}m and {memory}Mi, a limit of {limit}Mi)" in " ".join(
        _PUBLISHED.split()
    )


def test_what_was_over_the_shipped_requests_is_said() -> None:
    """Up to 5,000 nodes the shipped files fit, as the page says; more is a line in the output."""
    said = " ".join(_PUBLISHED.split())
    (line,) = re.findall(r"The shipped requests are less than that for: (.*?)\. ", said)
    smaller = [f"{nodes:,} nodes as shipped" for nodes in sizing.SIZES if nodes <= 5_000]
    assert len(smaller) == 3
    assert not any(each in line.split("; ") for each in smaller)


def test_the_service_is_measured_with_the_flags_of_the_manifests() -> None:
    (mode, flags), _ = sizing.MODES
    assert mode == "shipped"
    serving = [
        each["args"]
        for _, spec in pod_specs()
        for each in containers(spec)
        if each.get("args", [""])[0] == "serve"
    ]
    assert serving
    for arguments in serving:
        assert set(flags) <= set(arguments)
        assert "--watch-pods" not in arguments


def test_the_assumptions_are_those_of_the_command() -> None:
    said = " ".join(_PAGE.split())
    assert REPORT_SECONDS == 5 * 60
    for words in (
        f"nodes / {REPORT_SECONDS} s, and one for each pod that starts",
        f"at most nodes / {UPDATE_SECONDS} s",
        f"{EVENTS_A_POD} for each pod placed",
        f"at most {MOST_PODS:,}",
        "a quarter more",
        f"at most {RATE:.0f} patches a second and {BURST:.0f} at once",
        f"after {MIN_WATCH_SECONDS // 60} to {MAX_WATCH_SECONDS // 60} minutes at random",
    ):
        assert words in said
    assert sizing_tables.SPARE == 1.25


def test_the_patch_of_the_page_changes_the_resources_of_the_service_only() -> None:
    block = next(each for each in re.findall(r"```yaml\n(.*?)```", _PAGE, re.DOTALL))
    kustomization = yaml.safe_load(block)
    (patch,) = kustomization["patches"]
    deployment = the_object("Deployment", "remote/base/deployment.yaml")
    assert patch["target"] == {"kind": "Deployment", "name": deployment["metadata"]["name"]}
    changed: Any = apply(deployment, yaml.safe_load(patch["patch"]))
    (before,) = containers(deployment["spec"]["template"]["spec"])
    (after,) = containers(changed["spec"]["template"]["spec"])
    assert {key for key in before if before[key] != after[key]} == {"resources"}
    assert "cpu" not in after["resources"]["limits"]
