"""What a node is made of, built once: containerd, a Debian, the images of its pods.

Go modules and Debian's packages are all that is fetched. No registry of images is asked: Debian's
packages stand in for the base images of the Dockerfile, and a static busybox for the small ones.
"""

import contextlib
import hashlib
import os
import platform
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from extender import __version__
from image.steps import commit_time, copy_context
from tests.e2e.cluster import ASSETS
from tests.processes import ROOT

HERE: Final = Path(__file__).parent
ENTER: Final = HERE / "enter.sh"
#: `make clean` removes it.
BUILT: Final = ROOT / ".venv" / "node"
CONTAINERD: Final = BUILT / "containerd"
DEBIAN: Final = BUILT / "debian.tar"
IMAGES: Final = BUILT / "images"

#: The image as the pages name it.
OURS: Final = f"docker.io/library/runtimeclass-extender:{__version__}"
BUSYBOX: Final = "docker.io/library/busybox:stable"

_SUITE: Final = "trixie"
_SLIM: Final = "ca-certificates,python3"
#: The node's own programs, and what the Dockerfile's first stage finds in its base image.
_NODE: Final = (
    f"{_SLIM},buildah,busybox-static,containernetworking-plugins,crun,curl,dnsmasq-base,gcc,iproute2,"
    "kmod,libc6-dev,mount,netavark,nftables,openssl,procps,python3-dev,python3-venv,runc"
)
_TOOLS: Final = "containerd", "containerd-shim-runc-v2", "ctr"


class MissingError(Exception):
    """Something that the node needs is not on this machine."""


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """Says what is being done, each ten seconds for how long, and how long it took."""
    print(f"{what} ...", flush=True)
    begun = time.monotonic()
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(10):
            print(f"  {time.monotonic() - begun:.0f} s", flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
        print(f"  done after {time.monotonic() - begun:.1f} s", flush=True)


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for a condition that takes a while to look at, as one that asks kubectl does."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {condition}"
        pause.wait(0.1)


def said(
    words: Sequence[str | Path], cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command that has ended, with all that it printed; variables beside those there are."""
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=1800,
    )


def run(*words: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    """A command whose output is shown only where it fails."""
    done = said(words, cwd, env)
    if done.returncode != 0:
        raise MissingError(f"{words[0]} failed:\n{done.stdout[-3000:]}")


def look() -> None:
    """Names the first thing that is missing, before anything is begun."""
    if platform.system() != "Linux" or os.geteuid() != 0:
        raise MissingError("a node needs Linux and root")
    for program, package in (
        ("go", "Go, https://go.dev/dl"),
        ("mmdebstrap", "the package mmdebstrap (apt-get install mmdebstrap)"),
        ("unshare", "the package util-linux"),
        ("ip", "the package iproute2"),
    ):
        if not shutil.which(program):
            raise MissingError(f"there is no {program} here: {package}")
    for name in ("etcd", "kube-apiserver", "kube-scheduler", "kubelet", "kubectl", "helm"):
        if not (ASSETS / name).is_file():
            raise MissingError(f"{ASSETS} has no {name}: make kubernetes")


def build() -> None:
    """All of it; what is there already and came of the same sources stays."""
    BUILT.mkdir(parents=True, exist_ok=True)
    IMAGES.mkdir(exist_ok=True)
    modules = [HERE / "containerd" / f"go.{end}" for end in ("mod", "sum")]
    _once("containerd", _build_containerd, *modules)
    for name, packages in (("debian", _NODE), ("slim", _SLIM)):
        _once(name, partial(_install_debian, BUILT / f"{name}.tar", packages), said=packages)
    context = BUILT / "context"
    shutil.rmtree(context, ignore_errors=True)
    context.mkdir()
    copy_context(context)
    shutil.copy2(ROOT / "Dockerfile", context)
    files = sorted(file for file in context.rglob("*") if file.is_file())
    script, debian = HERE / "images.sh", BUILT / ".debian"
    small = partial(_make_images, "pause, busybox and kube-scheduler", SCHEDULER=scheduler_image())
    _once("small", small, debian, script, ASSETS / ".made-from")
    ours = partial(_make_images, OURS, OURS=OURS, COMMIT_TIME=commit_time())
    _once("extender", ours, debian, script, *files)


def _once(name: str, make: Callable[..., None], *sources: Path, said: str = "") -> None:
    """Make that part where its sources are others than when it was last made."""
    digest = hashlib.sha256(said.encode())
    for source in sources:
        digest.update(source.read_bytes())
    stamp = BUILT / f".{name}"
    if not stamp.is_file() or stamp.read_text() != digest.hexdigest():
        make()
        stamp.write_text(digest.hexdigest())


def _build_containerd() -> None:
    module = "github.com/containerd/containerd/v2/cmd/"
    with step("building containerd (three minutes on two idle cores, the first time)"):
        run(
            *("go", "build", "-ldflags", "-s -w", "-o", f"{CONTAINERD}/"),
            *(f"{module}{tool}" for tool in _TOOLS),
            cwd=HERE / "containerd",
            env={"CGO_ENABLED": "0"},
        )


def _install_debian(archive: Path, packages: str) -> None:
    with step(f"installing Debian {_SUITE} with {packages} into {archive.name}"):
        words = ("--variant=minbase", "--mode=root", f"--include={packages}", _SUITE)
        run("mmdebstrap", "--quiet", *words, archive)


def _make_images(names: str, **env: str) -> None:
    """By images.sh, in a Debian of its own."""
    root = BUILT / "work"
    with step(f"building {names}"), contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)
        unpack(DEBIAN, root)
        for place in ("etc/resolv.conf", "etc/hosts", "etc/ssl/certs/ca-certificates.crt"):
            shutil.copy2(Path("/", place), root / place)
        shutil.copy2(HERE / "images.sh", root / "srv")
        places = {IMAGES: "images", BUILT: "built", BUILT / "context": "context"}
        binds = [
            f"{folder}:srv/{place}" for folder, place in {**places, ASSETS: "kubernetes"}.items()
        ]
        run(
            *("unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", ENTER, root),
            *(*binds, "--", "/bin/bash", "/srv/images.sh"),
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", **env},
        )


def scheduler_image() -> str:
    told = said([ASSETS / "kubelet", "--version"]).stdout
    return f"registry.k8s.io/kube-scheduler:{told.split()[-1]}"


def unpack(archive: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    run("tar", "--extract", "--numeric-owner", "--file", archive, "--directory", folder)
