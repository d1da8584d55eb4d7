"""kubeadm's patches, applied to the manifests that kubeadm v1.36 writes."""

from typing import Any

from tests.cases_file import tables
from tests.config.shipped import FOLDER, Json, documents
from tests.json_patch import apply


def _patched(manifest: str, patch: str) -> tuple[Json, Any]:
    """The pod and its container."""
    (operations,) = documents(FOLDER / "control-plane" / "kubeadm" / patch)
    pod: Json = apply(tables("kubeadm")[manifest], operations)
    (container,) = pod["spec"]["containers"]
    return pod, container


def test_kube_scheduler_is_given_a_configuration_that_is_mounted() -> None:
    pod, container = _patched("kube-scheduler", "patches/kube-scheduler+json.yaml")
    (flag,) = (each for each in container["command"] if each.startswith("--config="))
    assert flag == "--config=/etc/kubernetes/kube-scheduler/config.yaml"
    mount = container["volumeMounts"][-1]
    assert flag.removeprefix("--config=").startswith(mount["mountPath"] + "/")
    volume = pod["spec"]["volumes"][-1]
    assert volume["name"] == mount["name"]
    assert volume["hostPath"]["path"] == mount["mountPath"]
    assert len(container["command"]) == 7
    # The configurations name the kubeconfig that kubeadm mounts.
    mounts = [each["mountPath"] for each in container["volumeMounts"]]
    for file in (FOLDER / "control-plane" / "node").glob("kube-scheduler-*.yaml"):
        (configuration,) = documents(file)
        assert configuration["clientConnection"]["kubeconfig"] in mounts


def test_kube_apiserver_loses_the_plugin_and_nothing_else() -> None:
    _, container = _patched("kube-apiserver", "instead-of-plugin/kube-apiserver+json.yaml")
    assert container["command"] == [
        "kube-apiserver",
        "--enable-admission-plugins=NodeRestriction",
        "--disable-admission-plugins=RuntimeClass",
    ]
