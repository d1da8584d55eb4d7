"""docs/platforms.md: its YAML is what it should be, and each platform has its sources."""

import json
import re
from typing import Any, Final

import pytest
import yaml

from extender.rules.pools import POOL_LABELS
from tests.config.pages import blocks, page, rows, section
from tests.config.shipped import FOLDER, SCHEDULER_CONFIGURATION, documents, the_object
from tests.processes import ROOT, run

PLATFORMS: Final = ("kubeadm", "kind", "k3s", "RKE2", "Talos", "OpenShift", "GKE", "EKS", "AKS")

_KIND: Final = "KubeSchedulerConfiguration"

#: What Talos sets itself: control_plane_final.go, v1.14.
_TALOS: Final = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": _KIND,
    "clientConnection": {"kubeconfig": "/system/secrets/kubernetes/kube-scheduler/kubeconfig"},
}


def yaml_of(platform: str) -> list[Any]:
    """The documents of the YAML blocks."""
    text = section("platforms", f"## {platform}")
    return [document for block in blocks(text, "yaml") for document in yaml.safe_load_all(block)]


def configurations(platform: str) -> list[Any]:
    """The KubeSchedulerConfigurations, as kube-scheduler gets them."""
    found = []
    for block in yaml_of(platform):
        if block.get("kind") == _KIND:
            found.append(block)
        elif "scheduler" in block.get("cluster", {}):
            found.append({**block["cluster"]["scheduler"]["config"], **_TALOS})
    text = " ".join(section("platforms", f"## {platform}").split())
    of_k3s = re.search(r"is the file of k3s with `kubeconfig: (\S+)`", text)
    if of_k3s:
        (file,) = configurations("k3s")
        found.append({**file, "clientConnection": {"kubeconfig": of_k3s[1]}})
    return found


_BESIDE: Final = "kube-scheduler-beside-plugin.yaml"

#: Where kubeadm's kube-scheduler finds the file, by the shipped patch.
_KUBEADM: Final = "/etc/kubernetes/kube-scheduler"


def _the_block(platform: str, *, that_has: str) -> Any:
    (found,) = (each for each in yaml_of(platform) if that_has in each)
    return found


def test_the_labels_of_pools_are_those_that_are_looked_for() -> None:
    table = rows(section("platforms", "## Labels that name a pool"))
    assert tuple(label.strip("`") for label, *_ in table) == POOL_LABELS
    named = "".join(re.findall(r"Pool labels:.*", page("platforms")))
    assert set(re.findall(r"`([a-z.]+/[a-z-]+)`", named)) <= set(POOL_LABELS)


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
        file = tmp_path / "scheduler.yaml"
        file.write_text(yaml.safe_dump(configuration))
        flags = ("--manifests=tests/checks/sound", f"--scheduler-config={file}", "--output=json")
        result = run("check", *flags)
        assert json.loads(result.stdout)["findings"] == []


def test_kubeadm_mounts_the_file_that_its_flag_names() -> None:
    (scheduler,) = (
        yaml.safe_load(block)["scheduler"]
        for block in blocks(page("install-control-plane"), "yaml")
        if "\nscheduler:" in block
    )
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
    assert f"`{path}`" in section("platforms", f"## {platform}")


def test_openshift_gives_the_shipped_service_account_the_right_to_the_scc() -> None:
    role, binding = (_the_block("OpenShift", that_has=key) for key in ("rules", "subjects"))
    deployment = the_object("Deployment", "install/second-scheduler.yaml")
    namespace = deployment["metadata"]["namespace"]
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    assert binding["subjects"] == [subject]
    assert {role["metadata"]["namespace"], binding["metadata"]["namespace"]} == {namespace}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert role["rules"][0]["resourceNames"] == ["nonroot-v2"]
