"""The ways in, put up on a cluster as their pages say: what is applied, the service, the scheduler.

What a cluster gets is what Helm makes of the chart, applied with kubectl. Only paths, ports and
kubeconfigs are put in place of those that a real cluster has.
"""

import base64
import contextlib
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from release.manifests import VARIANTS, rendered
from tests.config.kustomize import objects_of, the
from tests.config.shipped import FOLDER, INSTALL, containers, documents
from tests.e2e.cluster import Cluster, Program, answers, free_ports
from tests.processes import Server, running, until

Json = dict[str, Any]

#: The flags of kubeadm's kube-scheduler manifest (v1.36) that are no file names.
_KUBEADM_FLAGS: Final = ("--bind-address=127.0.0.1", "--leader-elect=true")

_SERVICE: Final = "https://runtimeclass-extender.runtimeclass-extender.svc"

#: Where a pod finds its service account.
_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"

#: A scheduler beside kube-scheduler brings the rights on its own lease. Its tests run it as
#: system:kube-scheduler, whose role allows the lease called kube-scheduler only.
_LEASE: Final = ("example-scheduler", "--namespace=kube-system")


def with_values(arguments: list[str], replaced: dict[str, str]) -> list[str]:
    """Flags with some of their values replaced."""
    parted = (each.partition("=") for each in arguments)
    return [f"{flag}={replaced.get(flag, value)}" if value else flag for flag, _, value in parted]


def _made_for(file: Path) -> str:
    """What an operator applies who uses a KubeSchedulerConfiguration."""
    way = file.relative_to(FOLDER).parts[0]
    if way == "control-plane":
        return (INSTALL / "control-plane.yaml").read_text()
    if way == "second-scheduler":
        values = ("secondScheduler.enabled=true", *VARIANTS[file.stem])
        return rendered("runtimeclass-scheduler", "createNamespace=true", *values)
    return rendered("runtimeclass-extender", "createNamespace=true", "remote.enabled=true")


@dataclass(frozen=True)
class Way:
    """One of the ways in, put up on a cluster."""

    cluster: Cluster
    name: str
    folder: Path
    objects: list[Json]

    @classmethod
    def put_up(cls, cluster: Cluster, file: Path, folder: Path) -> "Way":
        text = _made_for(file)
        cluster.apply(text)
        way = cls(cluster, file.relative_to(FOLDER).parts[0], folder, objects_of(text))
        for each in way.objects:
            if each["kind"] == "Secret":
                # As a pod has it mounted.
                own = folder / each["metadata"]["name"].rpartition("-")[2]
                own.mkdir()
                for key, value in each["data"].items():
                    (own / key).write_bytes(base64.b64decode(value))
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
            "--tls-cert-file": f"{self.folder}/tls/tls.crt",
            "--tls-private-key-file": f"{self.folder}/tls/tls.key",
            "--client-ca-file": f"{self.folder}/tls/ca.crt",
        }
        arguments = with_values(self.container("extender")["args"], replaced)
        if not any(each.startswith("--kubeconfig=") for each in arguments):
            arguments.append(f"--kubeconfig={replaced['--kubeconfig']}")
        probes = port if self.name == "control-plane" else ops
        with running(*arguments) as server:
            until(lambda: answers(probes, "/readyz"))
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
                own_lease = (
                    "--resource=leases.coordination.k8s.io",
                    "--resource-name=example-scheduler",
                )
                self.cluster.make("role", *_LEASE, "--verb=get,update", *own_lease)
                who = "--role=example-scheduler", "--user=system:kube-scheduler"
                self.cluster.make("rolebinding", *_LEASE, *who)
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
