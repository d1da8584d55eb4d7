"""docs/platforms.md: its YAML is what it should be, and each platform has its sources."""

import json
import re
from typing import Any, Final

import pytest
import yaml

from extender.verbs.pools import POOL_LABELS
from tests.config.shipped import FOLDER, SCHEDULER_CONFIGURATION, documents, the_object
from tests.config.test_scheduler_configurations import SOUND_CLUSTER
from tests.platforms import PLATFORMS, blocks, configurations, section
from tests.processes import ROOT, run

_PAGE: Final = (ROOT / "docs" / "platforms.md").read_text()

_WAYS: Final = ("control-plane", "second-scheduler", "remote")

_BESIDE: Final = "kube-scheduler-beside-plugin.yaml"

#: Where kubeadm's kube-scheduler finds the file, by the shipped patch.
_KUBEADM: Final = "/etc/kubernetes/kube-scheduler"


def _row(platform: str) -> list[str]:
    (row,) = re.findall(
        rf"^\| \[{platform}\]\(#{platform.lower()}\) \|(.*)\|$", _PAGE, re.MULTILINE
    )
    return [cell.strip() for cell in row.split("|")]


def _the_block(platform: str, *, that_has: str) -> Any:
    (found,) = (each for each in blocks(platform) if that_has in each)
    return found


@pytest.mark.parametrize("platform", PLATFORMS)
def test_each_platform_has_a_row_that_says_of_each_way_whether_it_works(platform: str) -> None:
    cells = _row(platform)
    assert len(cells) == len(_WAYS) + 1
    for cell in cells[:-1]:
        assert re.match(r"(yes|no|not known|for a scheduler of your own)\b", cell), cell
    assert cells[-1].startswith(_WAYS)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_each_platform_says_what_does_not_work_and_where_it_was_read(platform: str) -> None:
    text = section(platform)
    for word in ("* RuntimeClasses:", "* Pool labels:", "* Known not to work:", "\nSources: "):
        assert text.count(word) == 1, word
    sources = text.partition("\nSources: ")[2]
    assert "https://" in sources
    dates = re.findall(r"\b20[0-9]{2}-[0-9]{2}-[0-9]{2}\b", sources)
    assert dates
    # Each part has a date of its own.
    for part in re.split(r";\n", sources.strip()):
        assert re.search(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}", part), part


def test_no_line_tells_where_nothing_was_read() -> None:
    """What a platform ships or asks for ends with what it rests on."""
    for platform in PLATFORMS:
        for item in re.findall(
            r"^\* RuntimeClasses: (.*?)(?=^\*|\Z)", section(platform), re.M | re.S
        ):
            if not item.startswith("none."):
                assert re.search(r"\*(documentation|source)\*|none found", item), platform


def test_it_says_plainly_that_nothing_was_tried_in_containers() -> None:
    assert "**None of this was tried with containers.**" in _PAGE


def test_every_block_is_yaml() -> None:
    found = [each for platform in PLATFORMS for each in blocks(platform)]
    assert _PAGE.count("```yaml") == 10
    assert len(found) == 11  # the Role and the RoleBinding stand in one
    assert all(isinstance(each, dict) for each in found)


def test_the_labels_of_pools_are_those_that_are_looked_for() -> None:
    table = _PAGE.partition("## Labels that name a pool")[2]
    assert tuple(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)) == POOL_LABELS
    for label in re.findall(r"`([a-z.]+/[a-z-]+)`", "".join(re.findall(r"Pool labels:.*", _PAGE))):
        assert label in POOL_LABELS


@pytest.mark.parametrize("platform", [name for name in PLATFORMS if configurations(name)])
def test_each_configuration_is_the_shipped_one_with_the_platforms_kubeconfig(
    platform: str, tmp_path: Any
) -> None:
    (shipped,) = documents(FOLDER / "control-plane" / "node" / _BESIDE)
    for configuration in configurations(platform):
        assert configuration["apiVersion"] == SCHEDULER_CONFIGURATION
        kubeconfig = configuration["clientConnection"]["kubeconfig"]
        assert kubeconfig.endswith("kubeconfig")
        assert configuration == {**shipped, "clientConnection": {"kubeconfig": kubeconfig}}
        cluster, file = tmp_path / "cluster.yaml", tmp_path / "scheduler.yaml"
        cluster.write_text(SOUND_CLUSTER)
        file.write_text(yaml.safe_dump(configuration))
        flags = (f"--manifests={cluster}", f"--scheduler-config={file}", "--output=json")
        result = run("check", *flags)
        assert json.loads(result.stdout)["findings"] == []


def test_three_platforms_have_a_configuration_of_their_own() -> None:
    counts = {name: len(configurations(name)) for name in PLATFORMS}
    assert {name: count for name, count in counts.items() if count} == {
        "k3s": 1,
        "RKE2": 1,
        "Talos": 2,
    }


def test_kubeadm_mounts_the_file_that_its_flag_names() -> None:
    scheduler = _the_block("kubeadm", that_has="scheduler")["scheduler"]
    (flag,) = scheduler["extraArgs"]
    (volume,) = scheduler["extraVolumes"]
    assert flag == {"name": "config", "value": f"{_KUBEADM}/config.yaml"}
    assert volume["hostPath"] == volume["mountPath"] == _KUBEADM


def test_kind_hands_in_the_shipped_patch_and_the_folder_that_it_names() -> None:
    node = _the_block("kind", that_has="nodes")["nodes"][0]
    mounts = {each["containerPath"]: each["hostPath"] for each in node["extraMounts"]}
    assert (ROOT / mounts["/patches"] / "kube-scheduler+json.yaml").is_file()
    assert _KUBEADM in mounts
    (patch,) = node["kubeadmConfigPatches"]
    assert yaml.safe_load(patch)["patches"] == {"directory": "/patches"}


@pytest.mark.parametrize("platform", ["k3s", "RKE2"])
def test_the_flag_of_rancher_s_platforms_names_the_file_of_the_page(platform: str) -> None:
    (argument,) = _the_block(platform, that_has="kube-scheduler-arg")["kube-scheduler-arg"]
    flag, _, path = argument.partition("=")
    assert flag == "config"
    assert f"`{path}` (the path of the kubeconfig" in " ".join(section(platform).split())


def test_openshift_gives_the_shipped_service_account_the_right_to_the_scc() -> None:
    role, binding = (_the_block("OpenShift", that_has=key) for key in ("rules", "subjects"))
    deployment = the_object("Deployment", "second-scheduler/base/deployment.yaml")
    namespace = deployment["metadata"]["namespace"]
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    ]
    assert {role["metadata"]["namespace"], binding["metadata"]["namespace"]} == {namespace}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert role["rules"][0]["resourceNames"] == ["nonroot-v2"]
    security = deployment["spec"]["template"]["spec"]["securityContext"]
    assert f"user {security['runAsUser']}" in section("OpenShift")
