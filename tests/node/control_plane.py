"""docs/install-control-plane.md on the node, from installation to removal."""

import re
import time
from typing import Final

import yaml

from extender import __version__
from tests.config.shipped import FOLDER
from tests.node.node import Node
from tests.node.parts import until
from tests.node.reader import Reader
from tests.processes import ROOT

_PAGE: Final = "install-control-plane"
_CONFIG: Final = "/etc/kubernetes/kube-scheduler/config.yaml"
_SCHEDULER: Final = "/etc/kubernetes/manifests/kube-scheduler.yaml"
_KUBEADM: Final = FOLDER / "control-plane" / "kubeadm"


def install(reader: Reader) -> None:
    """Steps 1 to 4, with kubectl in place of kubeadm, which is not here."""
    (rights,) = reader.read(_PAGE, "## 1. Rights")
    reader.types(rights)
    by_kubeadm, by_script, *_ = reader.read(_PAGE, "## 2. On each control-plane node: a kubeconfig")
    folder, *_, install_it, tidy = by_kubeadm.splitlines()
    reader.types_on_the_node("\n".join((folder, by_script, install_it, tidy)))
    write_the_manifest(reader)
    (configure, *_) = reader.read(_PAGE, "## 4. On one node after the other: kube-scheduler")
    reader.types_on_the_node(configure.partition("runtimeclass-extender check")[0])
    patch = "scheduler-config/control-plane/kubeadm/patches/kube-scheduler+json.yaml"
    patched = f"kubectl patch --local --type=json -o yaml -f {_SCHEDULER} --patch-file={patch}"
    reader.types_on_the_node(
        f"cp {_SCHEDULER} before.yaml; {patched} > after.yaml\n"
        f"install -m 0600 after.yaml {_SCHEDULER}"
    )
    wait_for_the_scheduler(reader.node, f"--config={_CONFIG}")


def write_the_manifest(reader: Reader, tag: str = __version__) -> None:
    """Step 3, and what it says to wait for."""
    write, see = reader.read(_PAGE, "## 3. On each control-plane node: the service")
    ours = "runtimeclass-extender:"
    before, _, after = write.rpartition(f"{ours}{__version__}|")
    reader.types_on_the_node(f"{before}{ours}{tag}|{after}")

    def answers() -> bool:
        image = "-o=jsonpath={.items[*].spec.containers[*].image}"
        words = ("-n", "kube-system", "-l", "component=runtimeclass-extender")
        return reader.node.kubectl("get", "pod", *words, image).endswith(tag) and ready(reader.node)

    until(answers, 120)
    assert "Running" in reader.types_on_the_node(see)


def ready(node: Node) -> bool:
    """Whether the service of the static pod answers."""
    return node.inside("sh", "-c", "curl -s http://127.0.0.1:8888/readyz || true") == "ok"


def wait_for_the_scheduler(node: Node, sign: str = "") -> None:
    """Until a kube-scheduler is ready whose flags or annotations have that; or no configuration."""
    words = ("get", "pods", "-n", "kube-system", "-l", "component=kube-scheduler")

    def runs() -> bool:
        said = node.kubectl(*words, "-o=jsonpath={..metadata.annotations} {..command} {..ready}")
        is_it = sign in said if sign else '"--config=' not in said
        return is_it and said.endswith(" true")

    until(runs, 120)


def restart_the_scheduler(reader: Reader, config: str) -> None:
    """With another of the shipped configurations, as the page has it installed."""
    file = f"scheduler-config/control-plane/node/kube-scheduler-{config}.yaml"
    # The same manifest once more would be the same pod to kubelet, which would put off its restart.
    sign = f"{config}.{time.monotonic_ns()}"
    annotated = f"kubectl annotate --local --overwrite -o yaml -f {_SCHEDULER} config={sign}"
    reader.types_on_the_node(
        f"install -m 0644 {file} {_CONFIG}; {annotated} > after.yaml\n"
        f"install -m 0600 after.yaml {_SCHEDULER}"
    )
    wait_for_the_scheduler(reader.node, sign)


def switch_the_plugin(node: Node, *, on: bool) -> None:
    """By the flag of the patch that the page installs."""
    patch = _KUBEADM / "instead-of-plugin" / "kube-apiserver+json.yaml"
    (off,) = yaml.safe_load(patch.read_text())
    # Told to end it waits a minute for those who watch: a Node would be taken for dead meanwhile.
    node.end("kube-apiserver", "KILL")
    node.start_apiserver(*([] if on else [off["value"]]))


def remove(reader: Reader) -> None:
    """docs/upgrade-and-removal.md, Removal, steps 1 to 4."""
    reader.types_on_the_node(f"install -m 0600 before.yaml {_SCHEDULER}")
    wait_for_the_scheduler(reader.node)
    text = (ROOT / "docs" / "upgrade-and-removal.md").read_text()
    _, _, text = text.partition("\n## Removal\n")
    steps = re.findall(r"`((?:sudo|kubectl) [^`]+)`", text.partition("**second-scheduler**")[0])
    on_the_node = [each for each in steps if re.match("sudo rm(dir)? .*extender", each)]
    assert len(on_the_node) == 3, steps
    reader.types_on_the_node("\n".join(on_the_node))
    (rights,) = (each for each in steps if each.startswith("kubectl delete -f"))
    reader.types(rights)
    until(lambda: not ready(reader.node), 60)
