"""The chart on a real kube-apiserver: installed, upgraded, rolled back and removed by Helm."""

from typing import Any, Final

import pytest
import yaml

from release.manifests import CHART, FILES, helm
from tests.config.chart import RELEASES, needs_helm, objects_of_chart
from tests.e2e.cluster import Cluster
from tests.e2e.test_webhook import finish_namespace, open_kinds
from tests.processes import ROOT, called

pytestmark = needs_helm

_NAMESPACE: Final = "release"

_KINDS: Final = (
    "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,"
    "mutatingwebhookconfigurations,validatingwebhookconfigurations,"
    "roles,rolebindings,serviceaccounts,configmaps,secrets,services,deployments,pods,"
    "networkpolicies,poddisruptionbudgets,resourcequotas,issuers,certificates,"
    "servicemonitors,podmonitors,prometheusrules"
)


def _helm(where: Cluster, *arguments: str) -> str:
    flags = ("--kubeconfig", where.kubeconfig("admin"), "--namespace", _NAMESPACE)
    done = called(helm(), *flags, *arguments, seconds=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _left(where: Cluster) -> list[str]:
    """What of the release is still there, in whichever namespace."""
    kinds = _KINDS
    if where.minor >= 36:
        kinds += ",mutatingadmissionpolicies,mutatingadmissionpolicybindings"
    label = "app.kubernetes.io/instance=release"
    return where.kubectl("get", kinds, "--all-namespaces", "-l", label, "-oname").split()


def _set(values: tuple[str, ...]) -> list[str]:
    return [f"--set={each}" for each in values]


#: The rights of the service of the other tests: the cluster has them from its start.
_RIGHTS: Final = str(ROOT / "install" / "control-plane.yaml")


@pytest.mark.parametrize("values", RELEASES.values(), ids=RELEASES)
def test_install_upgrade_rollback_and_uninstall_leave_nothing(
    instead: Cluster, values: tuple[str, ...]
) -> None:
    if where_too_old(instead, values):
        pytest.skip("mutating policies are v1 since Kubernetes 1.36")
    open_kinds(instead)
    wanted = {each["metadata"]["name"] for each in objects_of_chart(*values)}
    if RELEASES["control-plane"] == values:
        instead.kubectl("delete", "-f", _RIGHTS)
    try:
        notes = _helm(
            instead, "install", "release", str(CHART), "--create-namespace", *_set(values)
        )
        assert "helm test release" in notes
        assert {each.rpartition("/")[2] for each in _left(instead)} == wanted
        secrets = _secrets(instead)
        _helm(instead, "upgrade", "release", str(CHART), "--reuse-values", "--set=image.tag=next")
        # A caller that trusted the CA before trusts the service after.
        assert _secrets(instead) == secrets
        _helm(instead, "rollback", "release", "1")
        assert _secrets(instead) == secrets
        assert ":next" not in instead.kubectl("get", "deployments", "-n", _NAMESPACE, "-oyaml")
        _helm(instead, "uninstall", "release")
        assert _left(instead) == []
    finally:
        instead.kubectl("delete", "namespace", _NAMESPACE, "--wait=false", "--ignore-not-found")
        finish_namespace(instead, _NAMESPACE)
        instead.kubectl("apply", "-f", _RIGHTS)


def where_too_old(where: Cluster, values: tuple[str, ...]) -> bool:
    marks = {"secondScheduler.marked=true", "policies.mark=true"}
    return where.minor < 36 and bool(marks.intersection(values))


def _secrets(where: Cluster) -> dict[str, Any]:
    selector = ("-l", "app.kubernetes.io/instance=release", "-oyaml")
    found = where.kubectl("get", "secrets", "-n", _NAMESPACE, *selector)
    return {each["metadata"]["name"]: each["data"] for each in yaml.safe_load(found)["items"]}


@pytest.mark.parametrize("path", [path for path in FILES if path.startswith("install/")])
def test_a_file_is_applied_and_deleted_with_kubectl_alone(instead: Cluster, path: str) -> None:
    open_kinds(instead)
    instead.make("namespace", "monitoring")
    namespace, _ = FILES[path]
    objects = [each for each in yaml.safe_load_all((ROOT / path).read_text()) if each]
    if path == "install/webhook-registration.yaml":
        instead.kubectl("apply", "--dry-run=server", "-f", str(ROOT / path))
        return
    try:
        instead.kubectl("apply", "-f", str(ROOT / path))
        said = instead.kubectl("delete", "--wait=false", "-f", str(ROOT / path))
        assert len(said.splitlines()) == len(objects)
    finally:
        instead.kubectl("delete", "namespace", namespace, "--wait=false", "--ignore-not-found")
        finish_namespace(instead, namespace)
        instead.kubectl("apply", "-f", _RIGHTS)
