"""What the shipped rights allow: a viewer's everywhere, and a developer's in one namespace."""

import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.config.chart import needs_helm, objects_of_chart
from tests.config.kustomize import the
from tests.config.shipped import INSTALL
from tests.e2e.cluster import Cluster
from tests.e2e.test_webhook import finish_namespace
from tests.integration.test_rights import COMMANDS
from tests.processes import ROOT, run, until

_PAGE: Final = (ROOT / "docs" / "explain.md").read_text()
_SECTION: Final = _PAGE.partition("## With rights in one namespace")[2].partition("\n## ")[0]
_COMMANDS: Final = re.findall(r"^  (kubectl .*)$", _SECTION, re.MULTILINE)
_GRANTED: Final = [each for each in _COMMANDS if "runtimeclass-reader" in each]
_TENANT: Final = [each for each in _COMMANDS if "runtimeclass-tenant" in each]

_SERVICE: Final = ("runtimeclass-scheduler", "runtimeclass-scheduler-metrics")

_OWN: Final = (
    "create namespace team-a",
    "create serviceaccount dev -n team-a",
    "create role dev -n team-a --verb=get,list,create --resource=pods",
    "create rolebinding dev -n team-a --role=dev --serviceaccount=team-a:dev",
)


_SPEC: Final = {"containers": [{"name": "c", "image": "registry.example/none"}]}


def test_a_viewer_may_run_every_command(beside: Cluster, tmp_path: Path) -> None:
    beside.apply((INSTALL / "viewer.yaml").read_text())
    beside.make("namespace", "ns")
    beside.make("serviceaccount", "somebody", "-n", "ns")
    names = ("clusterrolebinding", "somebody", "--clusterrole=runtimeclass-viewer")
    beside.make(*names, "--serviceaccount=ns:somebody")
    kubeconfig = str(beside.account_kubeconfig("ns", "somebody", tmp_path / "kubeconfig"))
    beside.add_node("n1", handlers=["kata", "kata-v2"])
    for name in ("kata", "kata-v2"):
        beside.add_class(name, name)
    pod = {"metadata": {"name": "web"}, "spec": {"runtimeClassName": "kata", **_SPEC}}
    beside.create("/api/v1/namespaces/ns/pods", pod)
    for words in COMMANDS.values():
        result = run(*words, "--kubeconfig", kubeconfig, "-o", "json")
        assert (result.returncode in (0, 1), result.stderr) == (True, ""), words
    beside.kubectl("delete", *names[:2])
    # No controller deletes it with its namespace, and every later scheduler would try to bind it.
    beside.delete("/api/v1/namespaces/ns/pods/web")
    beside.kubectl("delete", "namespace", "ns", "--wait=false")
    finish_namespace(beside, "ns")


@pytest.fixture
def developer(beside: Cluster, tmp_path: Path) -> Iterator[str]:
    """Their kubeconfig; team-a has a pod of a class whose handler no node has."""
    beside.add_node("n1", handlers=["", "runc"])
    beside.add_class("gvisor", "runsc")
    for line in _OWN:
        beside.make(*shlex.split(line)[1:])
    spec = {"runtimeClassName": "gvisor", **_SPEC}
    beside.create("/api/v1/namespaces/team-a/pods", {"metadata": {"name": "web"}, "spec": spec})
    yield str(beside.account_kubeconfig("team-a", "dev", tmp_path / "kubeconfig"))
    beside.kubectl("delete", "pods", "--all", "-n", "team-a", "--force", "--grace-period=0")
    everything = ("clusterrole,clusterrolebinding", "runtimeclass-reader", "--ignore-not-found")
    beside.kubectl("delete", *everything)


def test_the_rights_that_the_page_asks_for_are_enough(beside: Cluster, developer: str) -> None:
    asked = ("explain", "team-a/web", "--kubeconfig", developer)
    before = run(*asked)
    assert before.returncode == 2
    assert "cannot list resource" in before.stderr
    assert len(_GRANTED) == 2
    for line in _GRANTED:
        words = shlex.split(line.replace("--group=GROUP", "--serviceaccount=team-a:dev"))
        beside.kubectl(*words[1:])
    after = run(*asked)
    assert after.returncode == 1
    reason = 'nodes don\'t match RuntimeClass "gvisor" (no runtime handler "runsc")'
    assert f"1 {reason}" in " ".join(after.stdout.split())
    assert "What runs on the nodes is not counted" in after.stdout


@needs_helm
def test_a_tenant_is_told_about_their_own_pod_by_the_service_and_about_no_other(
    beside: Cluster, developer: str
) -> None:
    """By the API server's proxy, which reaches no loopback address."""
    address = _own_address()
    flags = ("--bind=127.0.0.1:0", f"--ops-bind={address}:0")
    with beside.serving(*flags) as service:
        port = int(service.wait_for_line(r"probes and metrics on http://[\d.]+:(\d+)")[1])
        _publish(beside, address, port)
        values = ("viewer.enabled=true", "viewer.tenants=true", "pages=true")
        role = the("Role", objects_of_chart(*values))
        role["metadata"]["namespace"] = _SERVICE[0]
        beside.apply(yaml.safe_dump(role))
        server = f"--server={_SERVICE[0]}/{_SERVICE[1]}:8080"
        asked = ("explain", "team-a/web", "--kubeconfig", developer, server)
        before = run(*asked)
        assert before.returncode == 2
        assert 'cannot create resource "services/proxy"' in before.stderr
        (line,) = _TENANT
        beside.kubectl(
            *shlex.split(line.replace("--group=GROUP", "--serviceaccount=team-a:dev"))[1:]
        )
        until(lambda: run(*asked).returncode == 1)  # the API server knows the endpoints by now
        after = run(*asked)
        reason = '1 nodes don\'t match RuntimeClass "gvisor" (no runtime handler "runsc")'
        assert reason in " ".join(after.stdout.split())
        beside.add_pod("others")
        other = run("explain", "default/others", *asked[2:])
        assert other.returncode == 2
        assert 'cannot get resource "pods"' in other.stderr
        direct = f"/api/v1/namespaces/{_SERVICE[0]}/services/http:{_SERVICE[1]}:8080/proxy/explain"
        get = beside.request("GET", f"{direct}?pod=default/others", user="somebody")
        assert get[0] == 403
    beside.delete(f"/api/v1/namespaces/{_SERVICE[0]}/pods/service")
    beside.kubectl("delete", "namespace", _SERVICE[0], "--wait=false")
    finish_namespace(beside, _SERVICE[0])


def _own_address() -> str:
    """One of this machine that is not its loopback; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


def _publish(where: Cluster, address: str, port: int) -> None:
    """The Service of metrics, with what the controller of endpoints would add."""
    where.make("namespace", _SERVICE[0])
    metadata = {"name": _SERVICE[1], "namespace": _SERVICE[0]}
    ports = [{"name": "ops", "port": 8080, "targetPort": port}]
    labels = {"kubernetes.io/service-name": _SERVICE[1]}
    # The API server proxies to addresses of pods only.
    pods = f"/api/v1/namespaces/{_SERVICE[0]}/pods"
    where.create(pods, {"metadata": {"name": "service"}, "spec": _SPEC})
    ready = {"podIP": address, "podIPs": [{"ip": address}], "phase": "Running"}
    where.patch(f"{pods}/service/status", {"status": ready})
    target = {"kind": "Pod", "name": "service", "namespace": _SERVICE[0]}
    named = [{"name": "ops", "port": port}]
    objects = [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}},
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": metadata,
            "subsets": [{"addresses": [{"ip": address, "targetRef": target}], "ports": named}],
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": [address], "conditions": {"ready": True}, "targetRef": target}
            ],
            "ports": [{"name": "ops", "port": port, "protocol": "TCP"}],
        },
    ]
    where.apply(yaml.safe_dump_all(objects))
