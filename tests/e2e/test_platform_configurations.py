"""kube-scheduler with the configurations of docs/platforms.md and the flags of those platforms.

Their own programs don't run here; what they write and how they start kube-scheduler is from their
source and documentation, which the page names.
"""

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.cases_file import tables
from tests.config.test_platforms import PLATFORMS, configurations
from tests.e2e.cluster import Cluster, Program, free_ports
from tests.processes import running, until

#: RKE2's, as its CIS self-assessment 1.11 lists them, and k3s, which is in it; Talos' as
#: control_plane_final.go has them, v1.14.
_FLAGS: Final = tables("platform_flags")

#: Texts of kube-scheduler about flags of platforms, not about the configuration.
_NOT_OURS: Final = ("The manifest file is empty, ignoring.",)

_CASES: Final = [
    pytest.param(platform, configuration, id=f"{platform}-{number}")
    for platform in PLATFORMS
    for number, configuration in enumerate(configurations(platform))
]


@pytest.mark.parametrize(("platform", "configuration"), _CASES)
def test_it_starts_binds_pods_and_asks_the_service(
    platform: str, configuration: dict[str, Any], beside: Cluster, tmp_path: Path
) -> None:
    beside.add_class("wasm", "spin")
    beside.add_node("n1", handlers=["", "runc"])
    own = str(beside.kubeconfig("scheduler"))
    port, secure = free_ports(2)
    (extender,) = configuration["extenders"]
    here = {
        **configuration,
        "clientConnection": {"kubeconfig": own},
        "extenders": [{**extender, "urlPrefix": f"http://127.0.0.1:{port}"}],
    }
    file = tmp_path / "scheduler.yaml"
    file.write_text(yaml.safe_dump(here))
    kubeconfig = str(beside.kubeconfig("extender"))
    serve = ("serve", "--bind", f"127.0.0.1:{port}", "--kubeconfig", kubeconfig)
    flags = [flag.format(own=own) for flag in _FLAGS[platform]]
    flags += ["--permit-port-sharing=true"] * (platform == "RKE2")
    own_flags = (f"--config={file}", f"--secure-port={secure}", f"--cert-dir={tmp_path}")
    with running(*serve) as server:
        until(lambda: server.request("GET", "/readyz")[0] == 200)
        program = Program("kube-scheduler", tmp_path, *flags, *own_flags)
        try:
            beside.add_pod("plain")
            beside.add_pod("refused", "wasm")
            until(lambda: beside.node_of("plain") == "n1", 60.0)
            until(lambda: "no runtime handler" in beside.message_of("refused"))
            program.check()
            complaints = re.findall(r"(?m)^[WEF]\d{4} .*", program.log.read_text())
        finally:
            program.stop()
    assert not [each for each in complaints if not each.endswith(_NOT_OURS)]
