"""The kubeconfig that docs/install-control-plane.md makes without the key of the cluster's CA."""

import base64
import os
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.config.kustomize import kubectl
from tests.config.pages import blocks, section
from tests.e2e.cluster import EXTENDER, Cluster
from tests.processes import called, ready

_HEADING: Final = "### A kubeconfig without the CA's key"
_REQUEST: Final = f"/apis/certificates.k8s.io/v1/certificatesigningrequests/{EXTENDER}"


def _shell(where: Cluster, folder: Path, script: str) -> None:
    program = kubectl()
    assert program
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "KUBECONFIG": str(where.kubeconfig("admin")),
        "KUBECACHEDIR": str(folder / "cache"),
    }
    done = called("bash", "-euo", "pipefail", "-c", script, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl")
def test_a_kubeconfig_made_by_a_certificate_signing_request_follows_the_cluster(
    beside: Cluster, tmp_path: Path
) -> None:
    asking, storing = blocks(section("install-control-plane", _HEADING), "")

    _shell(beside, tmp_path, asking)
    # No kube-controller-manager runs here, so this is the signer.
    asked = beside.get(_REQUEST)
    assert [each["type"] for each in asked["status"]["conditions"]] == ["Approved"]
    signed = beside.authority.signed(base64.b64decode(asked["spec"]["request"]))
    asked["status"]["certificate"] = base64.b64encode(signed).decode()
    assert beside.request("PUT", f"{_REQUEST}/status", asked)[0] == 200
    _shell(beside, tmp_path, storing)

    made = tmp_path / "kubeconfig"
    assert made.stat().st_mode & 0o077 == 0
    assert sorted(each.name for each in (tmp_path / "my-cluster").iterdir()) == [
        "ca.crt",
        "client.crt",
    ]
    assert beside.request("GET", _REQUEST)[0] == 404
    with ready("serve", f"--kubeconfig={made}"):
        pass
