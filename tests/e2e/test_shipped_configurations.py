"""kube-scheduler and `serve`, started as the shipped files say, with the rights they give.

What a cluster gets is what `kubectl kustomize` prints, applied with kubectl. Only paths, ports and
kubeconfigs are put in place of those that a real cluster has.
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
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import yaml

from tests.config.kustomize import objects_of, printed, the
from tests.config.shipped import FOLDER, containers, documents, name_of, scheduler_configurations
from tests.e2e.cluster import Cluster, Program, free_ports
from tests.e2e.policies import MARK, needs_mutating_policies
from tests.fakes.apiserver import NODES
from tests.processes import Server, running, until

Json = dict[str, Any]

#: The flags of kubeadm's kube-scheduler manifest (v1.36) that are no file names.
_KUBEADM_FLAGS: Final = ("--bind-address=127.0.0.1", "--leader-elect=true")

_SERVICE: Final = "https://runtimeclass-extender.runtimeclass-extender.svc"

#: Where a pod finds its service account.
_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"

#: kube-scheduler 1.36 says so of a flag that nobody gave it (component-base/metrics/options.go).
_NOT_OURS: Final = "The manifest file is empty, ignoring."

_FILES: Final = scheduler_configurations()

_BESIDE: Final = [file for file in _FILES if "beside" in name_of(file)]

_REMOTE: Final = [file for file in _FILES if name_of(file).startswith("remote/")]

#: Those that ask about plain pods too.
_REMOTE_UNMARKED: Final = [file for file in _REMOTE if "-marked" not in name_of(file)]

_ALL: Final = pytest.mark.parametrize("file", _FILES, ids=name_of)


def _folder_of(file: Path) -> Path:
    """What an operator applies who uses a KubeSchedulerConfiguration."""
    way = file.relative_to(FOLDER).parts[0]
    return {
        "control-plane": FOLDER / "control-plane",
        "second-scheduler": file.parent,
        "remote": FOLDER / "remote" / "base",
    }[way]


@dataclass(frozen=True)
class Way:
    """One of the ways in, put up on a cluster."""

    cluster: Cluster
    name: str
    folder: Path
    objects: list[Json]

    @classmethod
    def put_up(cls, cluster: Cluster, file: Path, folder: Path) -> "Way":
        text = printed(_folder_of(file))
        cluster.apply(text)
        way = cls(cluster, file.relative_to(FOLDER).parts[0], folder, objects_of(text))
        if way.name == "remote":
            script = FOLDER / "remote" / "make-certificates.sh"
            subprocess.run([script, folder], check=True, capture_output=True)
        return way

    @property
    def scheme(self) -> str:
        return "https" if self.name == "remote" else "http"

    @property
    def pod(self) -> Json:
        """The pod that runs the service: a static one, or of the Deployment."""
        if self.name == "control-plane":
            file = FOLDER / "control-plane" / "node" / "runtimeclass-extender.yaml"
            static: Json = documents(file)[0]["spec"]
            return static
        spec: Json = the("Deployment", self.objects)["spec"]["template"]["spec"]
        return spec

    def container(self, name: str) -> Json:
        (found,) = (each for each in containers(self.pod) if each["name"] == name)
        return found

    @property
    def account(self) -> tuple[str, str]:
        """(namespace, name) of the Deployment's service account."""
        namespace = the("Deployment", self.objects)["metadata"]["namespace"]
        return namespace, self.pod["serviceAccountName"]

    def service_kubeconfig(self) -> Path:
        """As the page has it made: a client certificate, or the pod's service account."""
        file = self.folder / "service.kubeconfig"
        if self.name != "control-plane":
            return self.cluster.account_kubeconfig(*self.account, file)
        authority = self.cluster.authority
        script = FOLDER / "control-plane" / "make-kubeconfig.sh"
        command = [str(script), self.cluster.url, str(authority.cert), str(authority.key)]
        subprocess.run([*command, str(file)], check=True, capture_output=True)
        return file

    @contextlib.contextmanager
    def service(self, port: int) -> Iterator[Server]:
        """`serve` with the arguments of the shipped manifest, ready."""
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
        for argument in self.container("extender")["args"]:
            flag, _, value = argument.partition("=")
            arguments.append(f"{flag}={replaced.get(flag, value)}" if value else flag)
        if not any(each.startswith("--kubeconfig=") for each in arguments):
            arguments.append(f"--kubeconfig={replaced['--kubeconfig']}")
        probes = port if self.name == "control-plane" else ops
        with running(*arguments) as server:
            until(lambda: _status(probes, "/readyz") == 200)
            yield server

    def _mounted(self, container: Json) -> dict[str, str]:
        """path → text of what the printed ConfigMaps put into a container."""
        maps = {
            each["metadata"]["name"]: each["data"]
            for each in self.objects
            if each["kind"] == "ConfigMap"
        }
        names = {
            volume["name"]: volume["configMap"]["name"]
            for volume in self.pod["volumes"]
            if "configMap" in volume
        }
        return {
            f"{mount['mountPath']}/{key}": text
            for mount in container["volumeMounts"]
            if mount["name"] in names
            for key, text in maps[names[mount["name"]]].items()
        }

    def _scheduler_command(self, file: Path, port: int) -> list[str]:
        """kube-scheduler's flags, and the files they name, written with what is here."""
        own = str(self.cluster.kubeconfig("scheduler"))
        here = {
            r"/etc/kube-scheduler/": f"{self.folder}/etc/kube-scheduler/",
            r"http://127\.0\.0\.1:8888": f"http://127.0.0.1:{port}",
            re.escape(f"urlPrefix: {_SERVICE}"): f"urlPrefix: https://127.0.0.1:{port}",
            r"/etc/runtimeclass-extender/": f"{self.folder}/client/",
        }
        if self.name == "second-scheduler":
            here |= {
                re.escape("https://kubernetes.default.svc"): self.cluster.url,
                re.escape(_ACCOUNT): str(self._service_account()),
            }
            container = self.container("kube-scheduler")
            files = self._mounted(container)
            program, *flags = container["command"]
            assert program == "kube-scheduler"
            flags.append("--bind-address=127.0.0.1")
        else:
            here[r"kubeconfig: /\S+"] = f"kubeconfig: {own}"
            files = {"/etc/kube-scheduler/config.yaml": file.read_text()}
            flags = [
                "--config=/etc/kube-scheduler/config.yaml",
                f"--authentication-kubeconfig={own}",
                f"--authorization-kubeconfig={own}",
            ]
            if self.name == "control-plane":
                flags += [*_KUBEADM_FLAGS, f"--kubeconfig={own}"]
            else:
                flags.append("--bind-address=127.0.0.1")

        def localized(text: str) -> str:
            for shipped, ours in here.items():
                text = re.sub(shipped, ours, text)
            return text

        for path, text in files.items():
            target = Path(localized(path))
            assert target.is_relative_to(self.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(localized(text))
        return [localized(each) for each in flags]

    def _service_account(self) -> Path:
        """As kubelet mounts it."""
        folder = self.folder / "serviceaccount"
        folder.mkdir(exist_ok=True)
        (folder / "ca.crt").write_bytes(self.cluster.authority.cert.read_bytes())
        (folder / "token").write_text(self.cluster.account_token(*self.account))
        return folder

    @contextlib.contextmanager
    def scheduler(self, file: Path, port: int) -> Iterator[Program]:
        """kube-scheduler with the shipped configuration, holding its lease."""
        flags = self._scheduler_command(file, port)
        (secure,) = free_ports(1)
        program = Program("kube-scheduler", self.folder, *flags, f"--secure-port={secure}")

        def leads() -> bool:
            program.check()
            return "acquired lease" in program.log.read_text()

        try:
            until(leads, 60.0)
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
def way(file: Path, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Way]:
    """On a cluster with the admission plugin or without, as the configuration is made for."""
    plugin = "beside" if "beside" in name_of(file) else "instead"
    where: Cluster = request.getfixturevalue(plugin)
    if re.match("second-scheduler/.*marked", name_of(file)):
        needs_mutating_policies(where)  # it brings the policy that marks pods
    for name in ("kata", "gvisor"):
        where.add_class(name, name, {"sandbox": name})
    where.add_class("wasm", "spin")
    where.add_node("n1", {"sandbox": "kata"}, handlers=["", "kata"])
    where.add_node("n2", handlers=[""])
    put_up = Way.put_up(where, file, tmp_path)
    yield put_up
    # Other tests create pods on this cluster, which are to be no others than they ask for.
    policies = [each for each in put_up.objects if each["kind"].startswith("MutatingAdmission")]
    if policies:
        where.kubectl("delete", "-f", "-", stdin=yaml.safe_dump_all(policies))


def _is_for_marked_pods(file: Path) -> bool:
    return "-marked" in name_of(file)


def _scheduler_name(file: Path) -> str:
    profiles = yaml.safe_load(file.read_text()).get("profiles", [{}])
    return str(profiles[0].get("schedulerName", "default-scheduler"))


def _add_pod(where: Cluster, file: Path, name: str, runtime_class: str | None = None) -> None:
    """One with a class is marked where kube-scheduler is to ask about marked pods only."""
    more: Json = {}
    if runtime_class and _is_for_marked_pods(file):
        resources = {kind: {MARK: "1"} for kind in ("requests", "limits")}
        more["containers"] = [
            {"name": "c", "image": "registry.example/none", "resources": resources}
        ]
    where.add_pod(name, runtime_class, schedulerName=_scheduler_name(file), **more)


@_ALL
def test_it_starts_without_a_warning_binds_pods_and_explains_refusals(way: Way, file: Path) -> None:
    where = way.cluster
    (port,) = free_ports(1)
    with way.service(port) as server, way.scheduler(file, port) as scheduler:
        _add_pod(where, file, "plain")
        _add_pod(where, file, "sandboxed", "kata")
        _add_pod(where, file, "refused", "gvisor")
        _add_pod(where, file, "without-handler", "wasm")
        until(lambda: bool(where.node_of("plain")))
        until(lambda: where.node_of("sandboxed") == "n1")
        until(lambda: bool(where.event_of("refused") and where.event_of("without-handler")))
        message, handler = where.event_of("refused"), where.event_of("without-handler")
        log = scheduler.log.read_text()
        service_log = server.log
    if "instead" in name_of(file):
        assert '2 nodes don\'t match RuntimeClass "gvisor" (nodeSelector sandbox=gvisor)' in message
    else:
        assert "2 node(s) didn't match Pod's node affinity/selector" in message
    assert 'nodes don\'t match RuntimeClass "wasm" (no runtime handler "spin")' in handler
    complaints = re.findall(r"(?m)^[WEF]\d{4} .*", log)
    assert not [each for each in complaints if not each.endswith(_NOT_OURS)]
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
        until(lambda: "connection refused" in where.message_of("sandboxed"))
        if _is_for_marked_pods(file):
            # Nobody is asked about the others.
            until(lambda: bool(where.node_of("plain")))
        else:
            until(lambda: "connection refused" in where.message_of("plain"))
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


@pytest.mark.parametrize("file", _REMOTE_UNMARKED[:1], ids=name_of)
def test_a_scheduler_without_a_certificate_is_not_answered(
    way: Way, file: Path, tmp_path: Path
) -> None:
    """With ignorable: true that opens every node; both logs tell of it."""
    stripped = tmp_path / "stripped.yaml"
    lines = file.read_text().splitlines(keepends=True)
    kept = [line for line in lines if "certFile" not in line and "keyFile" not in line]
    stripped.write_text("".join(kept))
    where = way.cluster
    (port,) = free_ports(1)
    with way.service(port) as service, way.scheduler(stripped, port) as scheduler:
        _add_pod(where, file, "plain")
        until(lambda: bool(where.node_of("plain")))
        until(lambda: "a TLS handshake failed" in service.log)
        until(lambda: "Skipping extender" in scheduler.log.read_text())


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
