"""kube-scheduler and `serve`, started as the shipped files say, with the rights they give.

Only paths, ports and kubeconfigs are put in place of those that a real cluster has.
"""

import base64
import contextlib
import http.client
import json
import re
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.config.shipped import FOLDER, containers, documents, name_of, scheduler_configurations
from tests.e2e.cluster import Cluster, Program, free_ports
from tests.fakes.apiserver import NODES, kubeconfig
from tests.processes import Server, running, until

Json = dict[str, Any]

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"

_PATHS = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ResourceQuota": "/api/v1/namespaces/{}/resourcequotas",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "Service": "/api/v1/namespaces/{}/services",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "ValidatingAdmissionPolicy": f"{_ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{_ADMISSION}/validatingadmissionpolicybindings",
}

#: folder with the objects, manifest with the service's arguments, service account.
_WAYS = {
    "control-plane": ("control-plane", "control-plane/node/runtimeclass-extender.yaml", ""),
    "second-scheduler": (
        "second-scheduler/base",
        "second-scheduler/base/deployment.yaml",
        "runtimeclass-scheduler",
    ),
    "remote": ("remote/base", "remote/base/deployment.yaml", "runtimeclass-extender"),
}

#: The flags of kubeadm's kube-scheduler manifest (v1.36) that are no file names.
_KUBEADM_FLAGS = ("--bind-address=127.0.0.1", "--leader-elect=true")

_SERVICE = "https://runtimeclass-extender.runtimeclass-extender.svc"

_FILES = scheduler_configurations()

_BESIDE = [file for file in _FILES if "beside" in name_of(file)]

_REMOTE = [file for file in _FILES if name_of(file).startswith("remote/")]

_ALL = pytest.mark.parametrize("file", _FILES, ids=name_of)


def _apply(where: Cluster, document: Json) -> None:
    metadata = document["metadata"]
    path = _PATHS[document["kind"]].format(metadata.get("namespace"))
    status, answer = where.request("POST", path, document)
    assert status in (201, 409), answer


def _apply_folder(where: Cluster, folder: Path) -> None:
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    for resource in kustomization["resources"]:
        for document in documents(folder / resource):
            _apply(where, document)


@dataclass(frozen=True)
class Way:
    """One of the ways in, put up on a cluster."""

    cluster: Cluster
    name: str
    folder: Path

    @classmethod
    def put_up(cls, cluster: Cluster, file: Path, folder: Path) -> "Way":
        name = file.relative_to(FOLDER).parts[0]
        _apply_folder(cluster, FOLDER / _WAYS[name][0])
        way = cls(cluster, name, folder)
        if name == "remote":
            script = FOLDER / "remote" / "make-certificates.sh"
            subprocess.run([script, folder], check=True, capture_output=True)
        return way

    @property
    def scheme(self) -> str:
        return "https" if self.name == "remote" else "http"

    def service_kubeconfig(self) -> Path:
        """As the page has it made: a client certificate, or the pod's service account."""
        file = self.folder / "service.kubeconfig"
        account = _WAYS[self.name][2]
        if not account:
            authority = self.cluster.authority
            script = FOLDER / "control-plane" / "make-kubeconfig.sh"
            command = [str(script), self.cluster.url, str(authority.cert), str(authority.key)]
            made = subprocess.run(command, check=True, capture_output=True, text=True)
            text = made.stdout
        else:
            text = self._account_kubeconfig(account)
        file.write_text(text)
        return file

    def _account_kubeconfig(self, account: str) -> str:
        path = f"/api/v1/namespaces/{account}/serviceaccounts/{account}/token"
        token = self.cluster.create(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
        ca_file = str(self.cluster.authority.cert)
        return kubeconfig(self.cluster.url, ca_file=ca_file, token=token)

    def scheduler_kubeconfig(self) -> Path:
        if self.name != "second-scheduler":
            return self.cluster.kubeconfig("scheduler")
        file = self.folder / "scheduler.kubeconfig"
        file.write_text(self._account_kubeconfig(_WAYS[self.name][2]))
        return file

    @contextlib.contextmanager
    def service(self, port: int) -> Iterator[Server]:
        """`serve` with the arguments of the shipped manifest, ready."""
        manifest = FOLDER / _WAYS[self.name][1]
        spec = documents(manifest)[0]["spec"]
        spec = spec["template"]["spec"] if "template" in spec else spec
        (container,) = (each for each in containers(spec) if each["name"] == "extender")
        (ops,) = free_ports(1)
        replaced = {
            "--kubeconfig": str(self.service_kubeconfig()),
            "--bind": f"127.0.0.1:{port}",
            "--ops-bind": f"127.0.0.1:{ops}",
            "--tls-cert-file": f"{self.folder}/server/tls.crt",
            "--tls-private-key-file": f"{self.folder}/server/tls.key",
            "--client-ca-file": f"{self.folder}/server/ca.crt",
        }
        arguments = []
        for argument in container["args"]:
            flag, _, value = argument.partition("=")
            arguments.append(f"{flag}={replaced.get(flag, value)}" if value else flag)
        if not any(each.startswith("--kubeconfig=") for each in arguments):
            arguments.append(f"--kubeconfig={replaced['--kubeconfig']}")
        probes = port if self.name == "control-plane" else ops
        with running(*arguments) as server:
            until(lambda: _status(probes, "/readyz") == 200)
            yield server

    @contextlib.contextmanager
    def scheduler(self, file: Path, port: int) -> Iterator[Program]:
        """kube-scheduler with the shipped configuration, holding its lease."""
        own = str(self.scheduler_kubeconfig())
        text = file.read_text()
        for shipped, ours in {
            r"kubeconfig: /\S+": f"kubeconfig: {own}",
            r"http://127\.0\.0\.1:8888": f"http://127.0.0.1:{port}",
            re.escape(f"urlPrefix: {_SERVICE}"): f"urlPrefix: https://127.0.0.1:{port}",
            r"/etc/runtimeclass-extender/": f"{self.folder}/client/",
        }.items():
            text = re.sub(shipped, ours, text)
        configuration = self.folder / "kube-scheduler.yaml"
        configuration.write_text(text)
        (secure,) = free_ports(1)
        program = Program(
            "kube-scheduler",
            self.folder,
            f"--config={configuration}",
            f"--authentication-kubeconfig={own}",
            f"--authorization-kubeconfig={own}",
            f"--secure-port={secure}",
            *(_KUBEADM_FLAGS if self.name == "control-plane" else ("--bind-address=127.0.0.1",)),
            *((f"--kubeconfig={own}",) if self.name == "control-plane" else ()),
        )
        try:
            until(lambda: "acquired lease" in program.log.read_text(), 60.0)
            yield program
        finally:
            program.stop()


def _status(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


@pytest.fixture
def way(file: Path, request: pytest.FixtureRequest, tmp_path: Path) -> Way:
    """On a cluster with the admission plugin or without, as the configuration is made for."""
    plugin = "beside" if "beside" in name_of(file) else "instead"
    where: Cluster = request.getfixturevalue(plugin)
    for name in ("kata", "gvisor"):
        where.add_class(name, name, {"sandbox": name})
    where.add_node("n1", {"sandbox": "kata"}, handlers=["", "kata"])
    where.add_node("n2", handlers=[""])
    return Way.put_up(where, file, tmp_path)


def _scheduler_name(file: Path) -> str:
    profiles = yaml.safe_load(file.read_text()).get("profiles", [{}])
    return str(profiles[0].get("schedulerName", "default-scheduler"))


def _add_pod(where: Cluster, file: Path, name: str, runtime_class: str | None = None) -> None:
    where.add_pod(name, runtime_class, schedulerName=_scheduler_name(file))


@_ALL
def test_it_starts_without_a_warning_binds_pods_and_explains_refusals(way: Way, file: Path) -> None:
    where = way.cluster
    (port,) = free_ports(1)
    with way.service(port) as server, way.scheduler(file, port) as scheduler:
        _add_pod(where, file, "plain")
        _add_pod(where, file, "sandboxed", "kata")
        _add_pod(where, file, "refused", "gvisor")
        until(lambda: bool(where.node_of("plain")))
        until(lambda: where.node_of("sandboxed") == "n1")
        until(lambda: bool(where.message_of("refused")))
        message = where.message_of("refused")
        log = scheduler.log.read_text()
        service_log = server.log
    if "instead" in name_of(file):
        assert '2 nodes don\'t match RuntimeClass "gvisor" (nodeSelector sandbox=gvisor)' in message
    else:
        assert "2 node(s) didn't match Pod's node affinity/selector" in message
    assert not re.findall(r"(?m)^[WEF]\d{4} .*", log)
    assert not re.findall(r'.*"level": ?"(?:warning|error)".*', service_log)


@_ALL
def test_while_the_service_is_away_pods_are_placed_beside_the_plugin_only(
    way: Way, file: Path
) -> None:
    where = way.cluster
    (port,) = free_ports(1)
    with way.scheduler(file, port) as scheduler:
        _add_pod(where, file, "plain")
        _add_pod(where, file, "sandboxed", "kata")
        if "beside" in name_of(file):
            until(lambda: bool(where.node_of("plain")))
            until(lambda: where.node_of("sandboxed") == "n1")
            assert "Skipping extender as it returned error" in scheduler.log.read_text()
            return
        until(lambda: "connection refused" in where.message_of("plain"))
        until(lambda: "connection refused" in where.message_of("sandboxed"))
        assert not where.node_of("plain")
        with way.service(port):
            until(lambda: bool(where.node_of("plain")), 30.0)
            until(lambda: where.node_of("sandboxed") == "n1", 30.0)


@pytest.mark.parametrize("file", _REMOTE, ids=name_of)
def test_a_client_without_a_certificate_is_turned_away(way: Way, file: Path) -> None:
    assert way.name == "remote"
    (port,) = free_ports(1)
    with way.service(port):
        trusting = ssl.create_default_context(cafile=str(way.folder / "ca" / "ca.crt"))
        trusting.check_hostname = False
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            _post_filter(port, trusting)
        server = way.folder / "server"
        trusting.load_cert_chain(server / "tls.crt", server / "tls.key")
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
            _post_filter(port, trusting)  # the server's own certificate is not a client's
        client = way.folder / "client"
        trusting.load_cert_chain(client / "tls.crt", client / "tls.key")
        assert _post_filter(port, trusting) == ["n1"]


def _post_filter(port: int, context: ssl.SSLContext) -> Any:
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)
    pod = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": {}}
    try:
        connection.request("POST", "/filter", json.dumps({"Pod": pod, "NodeNames": ["n1"]}))
        return json.loads(connection.getresponse().read())["NodeNames"]
    finally:
        connection.close()


@pytest.mark.parametrize("file", _REMOTE[:1], ids=name_of)
def test_a_scheduler_without_a_certificate_is_not_answered(
    way: Way, file: Path, tmp_path: Path
) -> None:
    """With ignorable: true that opens every node; the log of kube-scheduler says why."""
    stripped = tmp_path / "stripped.yaml"
    lines = file.read_text().splitlines(keepends=True)
    kept = [line for line in lines if "certFile" not in line and "keyFile" not in line]
    stripped.write_text("".join(kept))
    where = way.cluster
    (port,) = free_ports(1)
    with way.service(port), way.scheduler(stripped, port) as scheduler:
        _add_pod(where, file, "plain")
        until(lambda: bool(where.node_of("plain")))
        until(lambda: "certificate required" in scheduler.log.read_text())


@pytest.mark.parametrize("file", _BESIDE, ids=name_of)
def test_the_service_may_change_one_annotation_of_a_pod_and_nothing_else(
    way: Way, file: Path
) -> None:
    where = way.cluster
    where.add_pod("web")
    user = yaml.safe_load(way.service_kubeconfig().read_text())["users"][0]["user"]
    context = ssl.create_default_context(cafile=str(where.authority.cert))
    headers = {"Content-Type": "application/merge-patch+json"}
    if "token" in user:
        headers["Authorization"] = f"Bearer {user['token']}"
    else:
        files = []
        for key in ("client-certificate-data", "client-key-data"):
            files.append(way.folder / key)
            files[-1].write_bytes(base64.b64decode(user[key]))
        context.load_cert_chain(files[0], files[1])

    def patch(document: Json) -> tuple[int, str]:
        connection = http.client.HTTPSConnection(
            urlsplit(where.url).netloc, context=context, timeout=10
        )
        try:
            path = "/api/v1/namespaces/default/pods/web"
            connection.request("PATCH", path, json.dumps(document), headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    # The policy is enforced a moment after it was created.
    image: Json = {"spec": {"containers": [{"name": "c", "image": "registry.example/other"}]}}
    until(lambda: patch({"metadata": {"labels": {"a": "b"}}})[0] == 422)
    for refused, reason in (
        (image, "may not change a pod's spec"),
        ({"metadata": {"labels": {"c": "d"}}}, "may not change a pod's labels"),
        (
            {"metadata": {"finalizers": ["a.example/b"]}},
            "may not change a pod's labels, finalizers",
        ),
        ({"metadata": {"annotations": {"x": "y"}}}, "one annotation of its own only"),
    ):
        status, answer = patch(refused)
        assert (status, reason in answer) == (422, True), answer
    status, answer = patch({"metadata": {"annotations": {"runtimeclass-extender/retry": "1"}}})
    assert status == 200, answer
    where.patch(f"{NODES}/n1", {"metadata": {"annotations": {"not": "bothered"}}})
