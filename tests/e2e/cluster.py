"""etcd, kube-apiserver and kube-scheduler on free ports of loopback, and a client for them.

Everything is made in one folder and ends with the `Cluster`; nothing outside it is touched.
"""

import contextlib
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from cryptography.hazmat.primitives.asymmetric import ec

from tests.certificates import Authority, private_pem
from tests.config.kustomize import kubectl
from tests.config.shipped import INSTALL
from tests.fakes.apiserver import IMAGES, NODES, RUNTIME_CLASSES, Json, kubeconfig
from tests.processes import Server, called, listener, ready, until

ASSETS: Final = Path(os.environ.get("KUBEBUILDER_ASSETS", "/usr/local/kubebuilder/bin"))
PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-scheduler")
PODS: Final = "/api/v1/namespaces/default/pods"
EVENTS: Final = "/api/v1/namespaces/default/events"
PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"

#: Who the extender is to the API server, in install/control-plane.yaml.
EXTENDER: Final = "runtimeclass-extender"

_TOKENS: Final = {
    "admin": ("admin", "system:masters"),
    "scheduler": ("system:kube-scheduler", ""),
    "extender": (EXTENDER, ""),
}

#: kube-apiserver 1.30 drops a node's runtime handlers without it.
_GATE_OF_HANDLERS: Final = "--feature-gates=RecursiveReadOnlyMounts=true"

_START_SECONDS: Final = 60.0


def missing() -> str:
    """Why there are no e2e tests here; empty when there can be."""
    absent = [name for name in PROGRAMS if not (ASSETS / name).is_file()]
    if kubectl() is None:
        absent.append("kubectl")
    return f"{ASSETS} has no {', '.join(absent)}; set KUBEBUILDER_ASSETS" if absent else ""


def scheduler_minor() -> int:
    """The minor version of kube-scheduler 1."""
    told = called(ASSETS / "kube-scheduler", "--version").stdout
    found = re.search(r"v1\.([0-9]+)\.", told)
    assert found, told
    return int(found[1])


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on at the moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(listener()) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


class Program:
    """A running program with its output in a file."""

    def __init__(self, name: str, folder: Path, *flags: str) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                [str(ASSETS / name), *flags], stdout=output, stderr=output, cwd=folder
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        assert self._process.poll() is None, f"it ended: {self.log.read_text()[-3000:]}"

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Cluster:
    """A control plane without nodes of its own: what it schedules is never run."""

    def __init__(self, folder: Path, *apiserver_flags: str) -> None:
        self.folder = folder
        self.authority = Authority(folder / "pki")
        self._front_proxy = Authority(folder / "pki" / "front-proxy", "front proxy CA")
        self._programs: list[Program] = []
        self._apiserver_flags = apiserver_flags
        self._etcd, self._etcd_peer, self.port = free_ports(3)
        self._context = ssl.create_default_context(cafile=str(self.authority.cert))
        self._local = threading.local()
        self._apiserver: tuple[str, ...] = ()
        self._connections: list[http.client.HTTPSConnection] = []

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start etcd and kube-apiserver, and let the extender in, as an operator does."""
        self._start_etcd()
        self._start_apiserver()
        self.apply((INSTALL / "control-plane.yaml").read_text())

    def stop(self) -> None:
        for connection in self._connections:
            connection.close()
        for program in reversed(self._programs):
            program.stop()

    def _run(self, name: str, *flags: str) -> Program:
        program = Program(name, self.folder, *flags)
        self._programs.append(program)
        return program

    def _start_etcd(self) -> None:
        client = f"http://127.0.0.1:{self._etcd}"
        peer = f"http://127.0.0.1:{self._etcd_peer}"
        etcd = self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        )
        self._wait(etcd, lambda: answers(self._etcd, "/health"))

    def _start_apiserver(self) -> None:
        serving = self.authority.issue("kube-apiserver")
        accounts = self.folder / "pki" / "service-accounts.key"
        accounts.write_bytes(private_pem(ec.generate_private_key(ec.SECP256R1())))
        tokens = self.folder / "tokens.csv"
        tokens.write_text(
            "".join(
                f'{token}-token,{user},{token}-uid,"{group}"\n'
                for token, (user, group) in _TOKENS.items()
            )
        )
        self._apiserver = (
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            f"--token-auth-file={tokens}",
            f"--client-ca-file={self.authority.cert}",
            # As kubeadm has it; without this one kube-scheduler complains.
            f"--requestheader-client-ca-file={self._front_proxy.cert}",
            "--requestheader-allowed-names=front-proxy-client",
            f"--tls-cert-file={serving.cert}",
            f"--tls-private-key-file={serving.key}",
            f"--cert-dir={self.folder / 'certs'}",
            f"--service-account-issuer={self.url}/",
            f"--service-account-key-file={accounts}",
            f"--service-account-signing-key-file={accounts}",
            "--allow-privileged=true",
            "--endpoint-reconciler-type=none",
            *([_GATE_OF_HANDLERS] if scheduler_minor() == 30 else []),
            *self._apiserver_flags,
        )
        self._wait(self._run("kube-apiserver", *self._apiserver), self._is_ready)

    def restart_apiserver(self) -> Program:
        """Stop kube-apiserver and start it again, without waiting until it is ready."""
        *_, before = (each for each in self._programs if each.name == "kube-apiserver")
        before.stop()
        return self._run("kube-apiserver", *self._apiserver)

    def _is_ready(self) -> bool:
        try:
            return self.request("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def _wait(self, program: Program, condition: Callable[[], bool]) -> None:
        def settled() -> bool:
            program.check()
            return condition()

        until(settled, _START_SECONDS)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """What a person types, as admin; fails where kubectl does."""
        program = kubectl()
        assert program
        admin = str(self.kubeconfig("admin"))
        flags = ["--kubeconfig", admin, "--cache-dir", str(self.folder / "kubectl")]
        done = called(program, *flags, *arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, text: str) -> None:
        """As `kubectl kustomize FOLDER | kubectl apply -f -`."""
        self.kubectl("apply", "-f", "-", stdin=text)

    def make(self, *words: str) -> None:
        """`kubectl create KIND NAME`, of what may be there already."""
        self.apply(self.kubectl("create", *words, "--dry-run=client", "-oyaml"))

    def account_kubeconfig(self, namespace: str, name: str, file: Path) -> Path:
        """A kubeconfig with a token of a service account, as a pod of it has."""
        ca_file = str(self.authority.cert)
        token = self.account_token(namespace, name)
        file.write_text(kubeconfig(self.url, ca_file=ca_file, token=token))
        return file

    def account_token(self, namespace: str, name: str) -> str:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        made = self.create(path, {"spec": {"expirationSeconds": 3600}})
        return str(made["status"]["token"])

    def kubeconfig(self, who: str) -> Path:
        """A kubeconfig for admin, scheduler or extender."""
        file = self.folder / f"{who}.kubeconfig"
        file.write_text(
            kubeconfig(self.url, ca_file=str(self.authority.cert), token=f"{who}-token")
        )
        return file

    @contextlib.contextmanager
    def scheduler(self, extender_url: str, **extender: Any) -> Iterator[Program]:
        """A kube-scheduler that asks the extender at a URL; keywords go into its configuration."""
        asked = {
            "urlPrefix": extender_url,
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "preemptVerb": "preempt",
            "weight": 3,
            "nodeCacheCapable": True,
            "ignorable": False,
            **extender,
        }
        configuration = {"percentageOfNodesToScore": 100, "extenders": [asked]}
        with self.kube_scheduler(configuration) as program:
            yield program

    @contextlib.contextmanager
    def kube_scheduler(self, configuration: Json, *flags: str, port: int = 0) -> Iterator[Program]:
        """A kube-scheduler with that KubeSchedulerConfiguration, up to what it takes to start."""
        whole = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            **configuration,
        }
        own = str(self.kubeconfig("scheduler"))
        whole["clientConnection"] = {"kubeconfig": own, **configuration.get("clientConnection", {})}
        file = self.folder / "scheduler.json"
        file.write_text(json.dumps(whole))
        (port,) = (port,) if port else free_ports(1)
        program = Program(
            "kube-scheduler",
            self.folder,
            f"--config={file}",
            f"--authentication-kubeconfig={own}",
            f"--authorization-kubeconfig={own}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / 'certs'}",
            *flags,
        )
        try:
            self._wait(program, lambda: answers(port, "/healthz", tls=True))
            yield program
        finally:
            program.stop()

    @contextlib.contextmanager
    def serving(self, *flags: str) -> Iterator[Server]:
        """`serve` with the rights of the extender, ready."""
        with ready("serve", "--kubeconfig", str(self.kubeconfig("extender")), *flags) as server:
            yield server

    @contextlib.contextmanager
    def scheduling(self, *flags: str) -> Iterator[Server]:
        """`serve`, and a kube-scheduler that asks it."""
        with self.serving(*flags) as server, self.scheduler(server.url):
            yield server

    # The API.

    def request(
        self,
        method: str,
        path: str,
        document: object = None,
        content_type: str = "application/json",
        user: str = "",
    ) -> tuple[int, Json]:
        """One request as admin, or as another user without groups; a connection a thread."""
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection(
                "127.0.0.1", self.port, context=self._context, timeout=20
            )
            self._local.connection = connection
            self._connections.append(connection)
        was_open = connection.sock is not None
        try:
            connection.request(
                method,
                path,
                None if document is None else json.dumps(document),
                {
                    "Authorization": "Bearer admin-token",
                    "Content-Type": content_type,
                    **({"Impersonate-User": user} if user else {}),
                },
            )
            response = connection.getresponse()
            self._local.warnings = tuple(response.headers.get_all("Warning", []))
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            ended = isinstance(error, (ConnectionError, ssl.SSLError))
            if was_open and method == "GET" and ended:
                # kube-apiserver ends a connection that nothing has come on for 90 s.
                return self.request(method, path, document, content_type, user)
            raise OSError(str(error)) from error
        answer = json.loads(body) if body.startswith(b"{") else {}
        return response.status, answer

    @property
    def warnings(self) -> tuple[str, ...]:
        """The headers of that name in the answer to this thread's last request."""
        found: tuple[str, ...] = self._local.warnings
        return found

    def create(self, path: str, document: Json) -> Json:
        status, answer = self.request("POST", path, document)
        assert status == 201, (status, answer)
        return answer

    def get(self, path: str) -> Json:
        status, answer = self.request("GET", path)
        assert status == 200, (status, answer)
        return answer

    def patch(self, path: str, document: Json) -> Json:
        status, answer = self.request("PATCH", path, document, "application/merge-patch+json")
        assert status == 200, (status, answer)
        return answer

    def delete(self, path: str) -> None:
        status, answer = self.request("DELETE", path, {"gracePeriodSeconds": 0})
        assert status in (200, 202, 404), (status, answer)

    def add_node(
        self,
        name: str,
        labels: dict[str, str] | None = None,
        *,
        taints: list[Json] | None = None,
        handlers: list[str] | None = None,
        **status: Any,
    ) -> None:
        """A node that is ready and has room for 1,000 pods; more keywords go into its status.

        It is as large as a real one by its images.
        """
        self.create(
            NODES,
            {
                "metadata": {
                    "name": name,
                    "labels": {"kubernetes.io/hostname": name, **(labels or {})},
                },
                "spec": {"taints": taints or []},
            },
        )
        room = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
        status = {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "x", "message": "x"}],
            "images": IMAGES,
            **status,
        }
        if handlers is not None:
            status["runtimeHandlers"] = [{"name": each} for each in handlers]
        self.patch(f"{NODES}/{name}/status", {"status": status})
        # The API server puts a not-ready taint on each new node; its controller is not here.
        self.patch(f"{NODES}/{name}", {"spec": {"taints": taints or None}})

    def add_class(self, name: str, handler: str, selector: dict[str, str] | None = None) -> None:
        scheduling = {"scheduling": {"nodeSelector": selector}} if selector else {}
        self.create(RUNTIME_CLASSES, {"metadata": {"name": name}, "handler": handler, **scheduling})

    def add_pod(self, name: str, runtime_class: str | None = None, **spec: Any) -> None:
        container = {"name": "c", "image": "registry.example/none"}
        chosen = {"runtimeClassName": runtime_class} if runtime_class else {}
        self.create(
            PODS,
            {"metadata": {"name": name}, "spec": {"containers": [container], **chosen, **spec}},
        )

    def add_priorities(self) -> None:
        """PriorityClasses, which stay until the cluster ends."""
        for name, value in (("low", 1), ("middle", 100), ("high", 1000)):
            document = {"metadata": {"name": name}, "value": value}
            assert self.request("POST", PRIORITY_CLASSES, document)[0] in (201, 409)

    def add_a_victim_elsewhere(self) -> None:
        """Beside kube-scheduler: a pod that fits nowhere; the only victim is on a wrong node."""
        self.add_priorities()
        self.add_node("sandbox", {"sandbox": "gvisor"})
        self.add_node("plain")
        self.add_class("gvisor", "runsc", {"sandbox": "gvisor"})
        high: dict[str, Any] = {"containers": sized("60"), "priorityClassName": "high"}
        self.add_pod("equal", **high, nodeSelector={"sandbox": "gvisor"})
        assert self.bound("equal") == "sandbox"
        self.add_pod("low", containers=sized("60"), priorityClassName="low")
        assert self.bound("low") == "plain"
        self.add_pod("new", "gvisor", **high)

    def set_handlers(self, node: str, *handlers: str) -> None:
        reported = [{"name": each} for each in handlers]
        self.patch(f"{NODES}/{node}/status", {"status": {"runtimeHandlers": reported}})

    @property
    def minor(self) -> int:
        """Of Kubernetes 1."""
        return int(str(self.get("/version")["minor"]).rstrip("+"))

    def pod(self, name: str) -> Json:
        return self.get(f"{PODS}/{quote(name)}")

    def node_of(self, name: str) -> str:
        """The node a pod is bound to; empty while it is Pending."""
        return str(self.pod(name)["spec"].get("nodeName", ""))

    def message_of(self, name: str) -> str:
        """Why a pod is Pending, as `kubectl describe` shows it."""
        conditions = self.pod(name).get("status", {}).get("conditions", [])
        found = [each for each in conditions if each["type"] == "PodScheduled"]
        return str(found[0].get("message", "")) if found else ""

    def told(self, name: str) -> str:
        """Why a pod is Pending, once kube-scheduler has said so."""
        until(lambda: bool(self.message_of(name)))
        print(self.message_of(name))
        return self.message_of(name)

    def bound(self, name: str, seconds: float = 20.0) -> str:
        """The node of a pod, once it has one."""
        until(lambda: bool(self.node_of(name)), seconds)
        return self.node_of(name)

    def refused(self, name: str, text: str, seconds: float = 20.0) -> None:
        """Wait until a pod is Pending for that."""
        until(lambda: text in self.message_of(name), seconds)

    def event_of(self, name: str) -> str:
        """The latest FailedScheduling event of a pod; empty while there is none."""
        selector = quote(f"involvedObject.name={name},reason=FailedScheduling")
        found = self.get(f"{EVENTS}?fieldSelector={selector}")["items"]
        found.sort(key=lambda each: int(each["metadata"]["resourceVersion"]))
        return str(found[-1]["message"]) if found else ""

    def clear(self) -> None:
        """Delete all pods, nodes, RuntimeClasses and events."""
        for path in (PODS, NODES, RUNTIME_CLASSES, EVENTS):
            self._delete_all(path)
        until(lambda: not any(self.get(path)["items"] for path in (PODS, NODES, RUNTIME_CLASSES)))

    def clear_events(self) -> None:
        self._delete_all(EVENTS)

    def _delete_all(self, path: str) -> None:
        for item in self.get(path)["items"]:
            self.delete(f"{path}/{item['metadata']['name']}")


def sized(cpu: str) -> list[Json]:
    """The containers of a pod that asks for so much; a node has 64 unless it says otherwise."""
    requests = {"requests": {"cpu": cpu}}
    return [{"name": "c", "image": "registry.example/none", "resources": requests}]


def answers(port: int, path: str, *, tls: bool = False) -> bool:
    context = ssl._create_unverified_context() if tls else None
    connection = (
        http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=5)
        if tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@contextlib.contextmanager
def cluster(*apiserver_flags: str) -> Iterator[Cluster]:
    """A running control plane without kube-scheduler."""
    folder = Path(tempfile.mkdtemp(prefix="extender-e2e-"))
    running = Cluster(folder, *apiserver_flags)
    try:
        running.start()
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)
