"""A Kubernetes node in namespaces of its own: control plane, kubelet, containerd and its runtimes.

Everything that it writes is in one folder. Its processes end with process 1 of their namespace, and
mounts and network with them; its cgroup is removed after that. `root/` has its configuration.
"""

import contextlib
import json
import os
import shutil
import signal
import string
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec

from tests.certificates import Authority, private_pem
from tests.e2e.cluster import ASSETS
from tests.fakes.apiserver import Json, kubeconfig
from tests.node import parts
from tests.node.parts import step, until
from tests.processes import ROOT, called

FOLDER: Final = Path(os.environ.get("NODE_DIR", "/tmp/runtimeclass-node"))
NAME: Final = "node"
#: Of the pair of network devices, and of the Service `kubernetes`.
_MACHINE, ADDRESS, _DEVICE, _API = "198.18.58.1", "198.18.58.2", "rc-node", "10.0.0.1"
#: Where a checkout is, seen from the node.
CHECKOUT: Final = "/srv/checkout"

_SKELETON: Final = parts.HERE / "root"
_CGROUP: Final = parts.HERE / "cgroup.sh"
_NAMESPACES: Final = ("--mount", "--net", "--pid", "--cgroup", "--ipc", "--uts")
_PATH: Final = "/opt/kubernetes:/opt/containerd:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: Handlers of containerd's configuration, and the program of each. The last is not there.
HANDLERS: Final = {
    "runc": "/usr/sbin/runc",
    "crun": "/usr/bin/crun",
    "broken": "/usr/bin/no-such-runtime",
}

#: Process 1: reaps what the runtimes leave behind.
_REAP: Final = "touch /ready; trap 'exit 0' TERM; while :; do sleep 86400 & wait $!; done"

_HANDLER: Final = """
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{name}]
runtime_type = "io.containerd.runc.v2"
options = {{BinaryName = "{program}", SystemdCgroup = false}}
"""


class Node:
    """The node in a folder, running or not."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.kubeconfig = folder / "kubeconfig"

    @property
    def pid(self) -> int:
        """Process 1 of the node, as the machine knows it; 0 where there is none."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            pid = int((self.folder / "pid").read_text())
            if Path(f"/proc/{pid}/root/ready").exists() and pid != os.getpid():
                return pid
        return 0

    # Its life.

    def start(self) -> None:
        """All of it, up to a Node that is Ready."""
        self.stop()
        with step("unpacking the node's root filesystem"):
            parts.unpack(parts.DEBIAN, self.root)
            self._configure()
        with step("starting etcd and kube-apiserver"):
            self._make_namespaces()
            self.run("etcd")
            self.start_apiserver()
        with step("starting containerd, and loading the images"):
            self.run("dnsmasq")
            self.run("containerd")
            until(lambda: self._answers("ctr", "version"), 30)
            for image in sorted(parts.IMAGES.glob("*.tar")):
                self.inside("ctr", "-n", "k8s.io", "images", "import", f"/srv/images/{image.name}")
        with step("starting kubelet and controllers, and waiting for a Node that is Ready"):
            self.run("kube-controller-manager")
            self.run("kubelet")
            ready = "--for=condition=Ready"
            until(lambda: self.succeeds("wait", "node", NAME, ready, "--timeout=20s"), 120)

    def stop(self) -> None:
        """End it and remove what it has made; silent where there is nothing."""
        if pid := self.pid:
            os.kill(pid, signal.SIGKILL)
            until(lambda: not Path(f"/proc/{pid}").exists(), 30)
        parts.run(_CGROUP, "remove")
        mounts = Path("/proc/self/mounts").read_text()
        if f" {self.folder}/" in mounts:
            raise parts.MissingError(f"there are mounts under {self.folder}: unmount them first")
        shutil.rmtree(self.folder, ignore_errors=True)

    # Making it.

    def _configure(self) -> None:
        pki = self.root / "etc" / "kubernetes" / "pki"
        authority = Authority(pki)
        authority.issue("kube-apiserver", hosts=(ADDRESS, _API, "kubernetes.default.svc"))
        authority.issue("kubelet-client", "system:masters")
        front = Authority(pki / "front-proxy", "front proxy CA")
        front.issue("front-proxy-client")
        (pki / "accounts.key").write_bytes(private_pem(ec.generate_private_key(ec.SECP256R1())))
        known = {"NAME": NAME, "ADDRESS": ADDRESS, "MACHINE": _MACHINE, "API": _API}
        known["SCHEDULER"] = parts.scheduler_image()
        for file in (each for each in _SKELETON.rglob("*") if each.is_file()):
            text = string.Template(file.read_text()).safe_substitute(known)
            shutil.copymode(file, self.write(str(file.relative_to(_SKELETON)), text))
        url, ca = f"https://{ADDRESS}:6443", "/etc/kubernetes/pki/ca.crt"
        for line in (pki / "tokens.csv").read_text().splitlines():
            token = line.split(",")[0]
            who = token.removesuffix("-token")
            self.write(f"etc/kubernetes/{who}.conf", kubeconfig(url, ca_file=ca, token=token))
        text = kubeconfig(url, ca_file=str(pki / "ca.crt"), token="admin-token")
        self.kubeconfig.write_text(text)
        self.configure_handlers(HANDLERS)
        (self.root / "opt" / "cni").mkdir(parents=True)
        (self.root / "opt" / "cni" / "bin").symlink_to("/usr/lib/cni")

    def write(self, place: str, text: str) -> Path:
        """A file of the node."""
        file = self.root / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_text(text)
        return file

    def configure_handlers(self, handlers: dict[str, str]) -> None:
        """What containerd finds when it starts."""
        place = "etc/containerd/config.toml"
        sections = (_HANDLER.format(name=name, program=path) for name, path in handlers.items())
        self.write(place, (_SKELETON / place).read_text() + "".join(sections))

    def _make_namespaces(self) -> None:
        parts.run(_CGROUP, "make")
        places = {
            parts.IMAGES: "srv/images",
            parts.CONTAINERD: "opt/containerd",
            ASSETS: "opt/kubernetes",
            ROOT: CHECKOUT[1:],
        }
        binds = (f"{folder}:{place}" for folder, place in places.items())
        command = ["unshare", *_NAMESPACES, "--fork", "--kill-child", str(parts.ENTER)]
        command += [str(self.root), *binds, "--", "/bin/bash", "-c", _REAP]
        parent = Path("/proc", str(self._spawn("namespaces", command)))

        def made() -> bool:
            assert parent.exists(), (self.folder / "namespaces.log").read_text()
            return (self.root / "ready").exists()

        until(made, 20)
        pid = (parent / "task" / parent.name / "children").read_text().strip()
        (self.folder / "pid").write_text(pid)
        parts.run(_CGROUP, "split", pid)
        for words in (
            f"link add {_DEVICE} type veth peer name eth0 netns {pid}",
            f"addr add {_MACHINE}/30 dev {_DEVICE}",
            f"link set {_DEVICE} up",
        ):
            parts.run("ip", *words.split())
        self.inside("sh", "/etc/programs/network")
        self.redirect(_API, 443, f"{ADDRESS}:6443")

    def redirect(self, service: str, port: int, to: str) -> None:
        """What kube-proxy would do for a Service with one endpoint."""
        for chain in ("from-pods", "from-node"):
            rule = f"add rule ip services {chain} ip daddr {service} tcp dport {port} dnat to {to}"
            self.inside("nft", *rule.split())

    # Its programs.

    def _spawn(self, name: str, command: list[str]) -> int:
        """In the node's cgroup, with its output in a file of that name; the process's number."""
        script = f'setsid "$@" < /dev/null >> {self.folder}/{name}.log 2>&1 & echo $!'
        words = ["sh", "-c", script, "sh", str(_CGROUP), "join", *command]
        done = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True)
        return int(done.stdout)

    def _entering(self, *words: str) -> list[str]:
        settings = (f"PATH={_PATH}", "HOME=/root", "KUBECONFIG=/etc/kubernetes/admin.conf")
        places = (*_NAMESPACES, "--root", "--wd")
        return ["nsenter", f"--target={self.pid}", *places, "env", *settings, *words]

    def run(self, name: str, *flags: str) -> None:
        """A program of the node that goes on, by its file in /etc/programs."""
        script = f"echo $$ > /run/{name}.pid; . /etc/programs/{name}"
        self._spawn(name, self._entering("bash", "-c", script, "bash", *flags))

    def end(self, name: str, signal: str = "TERM") -> None:
        """Stop a program, and wait until it has ended."""
        ended = "pid=$(cat /run/$0.pid); kill -$1 $pid; while [ -d /proc/$pid ]; do sleep 0.1; done"
        self.inside("sh", "-c", ended, name, signal)

    def start_apiserver(self, *flags: str) -> None:
        """Start kube-apiserver and wait until it is ready."""
        self.run("kube-apiserver", *flags)
        until(lambda: self.succeeds("get", "--raw", "/readyz"), 60)

    def inside(self, *words: str) -> str:
        """A command in the node, as root there; fails where it does."""
        done = parts.said(self._entering(*words))
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}"
        return done.stdout

    def _answers(self, *words: str) -> bool:
        return parts.said(self._entering(*words)).returncode == 0

    # What a person does.

    def _kubectl(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        flags = ["--kubeconfig", str(self.kubeconfig), "--cache-dir", str(self.folder / "kubectl")]
        return called(ASSETS / "kubectl", *flags, *words, stdin=stdin, seconds=300)

    def kubectl(self, *words: str, stdin: str = "") -> str:
        """As admin, from the machine; fails where kubectl does."""
        done = self._kubectl(*words, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def refused(self, document: Json) -> str:
        """Why an object would not be created; empty where it would."""
        words = ("create", "--dry-run=server", "-f", "-")
        return self._kubectl(*words, stdin=json.dumps(document)).stderr

    def succeeds(self, *words: str) -> bool:
        return self._kubectl(*words).returncode == 0

    def get(self, *words: str) -> Any:
        return json.loads(self.kubectl("get", *words, "-o", "json"))


def started() -> Iterator[Node]:
    """The node that runs already, or a new one, which ends with the tests."""
    node = Node()
    was_running = node.pid != 0
    if not was_running:
        parts.look()
        parts.build()
        node.start()
    try:
        yield node
    finally:
        if not was_running:
            node.stop()
