"""What docs/platforms.md tells an operator to write, by platform."""

import re
from typing import Any, Final

import yaml

from tests.processes import ROOT

PLATFORMS: Final = ("kubeadm", "kind", "k3s", "RKE2", "Talos", "OpenShift", "GKE", "EKS", "AKS")

_KIND: Final = "KubeSchedulerConfiguration"

#: What Talos sets itself: control_plane_final.go, v1.14.
_TALOS: Final = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": _KIND,
    "clientConnection": {"kubeconfig": "/system/secrets/kubernetes/kube-scheduler/kubeconfig"},
}

_BLOCK: Final = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section(platform: str) -> str:
    page = (ROOT / "docs" / "platforms.md").read_text()
    return page.split(f"\n## {platform}\n", 1)[1].partition("\n## ")[0]


def blocks(platform: str) -> list[Any]:
    """The documents of the YAML blocks."""
    return [
        document
        for block in _BLOCK.findall(section(platform))
        for document in yaml.safe_load_all(block)
    ]


def configurations(platform: str) -> list[Any]:
    """The KubeSchedulerConfigurations, as kube-scheduler gets them."""
    found = []
    for block in blocks(platform):
        if block.get("kind") == _KIND:
            found.append(block)
        elif block.get("kind") == "KubeSchedulerConfig":
            found.append({**block["config"], **_TALOS})
        elif "scheduler" in block.get("cluster", {}):
            found.append({**block["cluster"]["scheduler"]["config"], **_TALOS})
    return found
