"""The chart: what its switches bring, and that the committed files are made from it."""

import base64
import re
import socket
import ssl
from pathlib import Path
from typing import Final

import kubernetes_validate
import pytest
import yaml

from extender import __version__
from release.manifests import CHART, files, helm, rendered
from tests.cases_file import cases
from tests.config.chart import RELEASES, named, needs_helm, objects_of_chart
from tests.config.kustomize import the
from tests.config.shipped import IMAGE, Json, containers
from tests.config.test_manifests import VERSIONS, schemas_read_once
from tests.processes import ROOT, called, running

pytestmark = needs_helm

__all__ = ["schemas_read_once"]

_ALL: Final = pytest.mark.parametrize("values", RELEASES.values(), ids=RELEASES)


def test_what_is_made_from_the_chart_is_what_is_committed_byte_for_byte() -> None:
    """`make manifests` makes it anew."""
    for path, text in files().items():
        assert (ROOT / path).read_text() == text, path


def test_the_version_is_the_programs() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


@_ALL
def test_helm_has_nothing_to_say_against_it(values: tuple[str, ...]) -> None:
    done = called(helm(), "lint", "--strict", CHART, *(f"--set={each}" for each in values))
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


@_ALL
def test_every_object_fits_the_schema_of_each_supported_version(values: tuple[str, ...]) -> None:
    identities = set()
    for each in objects_of_chart(*values, flags=()):
        metadata = each["metadata"]
        identities.add((each["kind"], metadata.get("namespace"), metadata["name"]))
        assert metadata["labels"]["app.kubernetes.io/instance"] == "release"
        assert metadata["labels"]["app.kubernetes.io/version"] == __version__
        assert metadata["labels"]["app.kubernetes.io/managed-by"] == "Helm"
        assert metadata.get("namespace", "release") in ("release", "kube-system")
        for version in VERSIONS:
            if each["apiVersion"].startswith(("cert-manager.io/", "monitoring.coreos.com/")):
                continue
            if each["kind"].startswith("MutatingAdmission") and version < "1.36":
                continue
            kubernetes_validate.validate(each, version, strict=True)
    assert len(identities) == len(objects_of_chart(*values, flags=()))


@cases
def test_values_that_are_wrong_are_refused_in_words(values: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        rendered("release", *values)


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
def test_a_release_needs_a_namespace_of_its_own(namespace: str) -> None:
    """The webhook skips the pods of its own namespace."""
    with pytest.raises(ValueError, match="needs a namespace of its own"):
        rendered("release", "webhook.enabled=true", flags=("--namespace", namespace))


def test_the_alerts_lead_to_the_operators_copy_of_the_pages() -> None:
    values = ("monitoring.rules=true", "monitoring.docs=https://wiki.example.com/rc/")
    rules = the("PrometheusRule", objects_of_chart(*values, flags=()))["spec"]["groups"][0]["rules"]
    assert {each["annotations"]["runbook_url"].split("#")[0] for each in rules} == {
        f"https://wiki.example.com/rc/{page}.md" for page in ("troubleshooting", "usage", "verbs")
    }


def _pods(objects: list[Json]) -> list[Json]:
    return [each["spec"]["template"]["spec"] for each in objects if each["kind"] == "Deployment"]


def test_image_secrets_tolerations_and_networks_reach_every_pod() -> None:
    values = RELEASES["all in one namespace"]
    objects = objects_of_chart(*values, flags=())
    pods = [*_pods(objects), the("Pod", objects)["spec"]]
    assert len(pods) == 4
    for spec in pods:
        images = {each["image"] for each in containers(spec) if each["name"] != "kube-scheduler"}
        assert images == {f"{IMAGE}@sha256:{'a' * 64}"}
        assert spec["imagePullSecrets"] == [{"name": "mine"}]
        assert spec["tolerations"] == [{"operator": "Exists"}]
        assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
    policies = {each["metadata"]["name"] for each in objects if each["kind"] == "NetworkPolicy"}
    assert policies == {each["serviceAccountName"] for each in _pods(objects)}


def test_two_replicas_never_share_a_node_where_there_is_another() -> None:
    for spec in _pods(objects_of_chart(*RELEASES["all in one namespace"])):
        node, zone = spec["topologySpreadConstraints"]
        # With anti-affinity a replica would be Pending on a single node, and in an upgrade on two.
        assert node["topologyKey"] == "kubernetes.io/hostname"
        assert node["whenUnsatisfiable"] == "DoNotSchedule"
        assert node["matchLabelKeys"] == ["pod-template-hash"]
        assert node["nodeTaintsPolicy"] == "Honor"
        assert zone["whenUnsatisfiable"] == "ScheduleAnyway"


_WEBHOOKS: Final = {name: values for name, values in RELEASES.items() if name.startswith("webhook")}


@pytest.mark.parametrize("values", _WEBHOOKS.values(), ids=_WEBHOOKS)
def test_the_webhook_and_who_asks_it_agree(values: tuple[str, ...]) -> None:
    objects = objects_of_chart(*values)
    flags = the("Deployment", objects)["spec"]["template"]["spec"]["containers"][0]["args"]
    configurations = [each for each in objects if each["kind"].endswith("WebhookConfiguration")]
    names = {each["metadata"]["name"] for each in configurations}
    assert ("--default-class" in flags) is ("zzz-runtimeclass-extender-default-class" in names)
    assert ("--merge=tolerations" in flags) is ("plugin=instead" in values)
    rules = the("ClusterRole", objects)["rules"]
    read = {resource for rule in rules for resource in rule["resources"]}
    assert ("nodes" in read) is ("--fit" in flags or "--warn-impact" in flags)
    assert ("pods" in read) is ("--warn-impact" in flags)
    assert ("namespaces" in read) is ("--fit" in flags or "--default-class" in flags)
    asked = named("MutatingWebhookConfiguration", "zzz-runtimeclass-extender", objects)
    condition = asked["webhooks"][0]["matchConditions"][0]["expression"]
    assert ("runtimeclass-extender/isolation" in condition) is ("--fit" in flags)
    for each in configurations:
        injected = "cert-manager.io/inject-ca-from" in each["metadata"].get("annotations", {})
        for webhook in each["webhooks"]:
            service = webhook["clientConfig"]["service"]
            assert named("Service", service["name"], objects)["metadata"]["namespace"] == "release"
            assert injected is ("caBundle" not in webhook["clientConfig"])
    asks = {webhook["name"] for each in configurations for webhook in each["webhooks"]}
    assert ("impact.webhook.runtimeclass-extender" in asks) is ("--warn-impact" in flags)
    unregistered = objects_of_chart(*values, "webhook.register=false")
    assert not [each for each in unregistered if each["kind"].endswith("WebhookConfiguration")]
    assert len(unregistered) == len(objects) - len(configurations)


@pytest.mark.parametrize("marked", ["true", "false"])
@pytest.mark.parametrize("plugin", ["beside", "instead"])
def test_the_second_scheduler_holds_its_lease_and_only_its_pods_are_marked(
    plugin: str, marked: str
) -> None:
    values = (f"plugin={plugin}", f"secondScheduler.marked={marked}")
    objects = objects_of_chart("secondScheduler.enabled=true", *values)
    config = yaml.safe_load(the("ConfigMap", objects)["data"]["kube-scheduler.yaml"])
    lease = config["leaderElection"]
    role = named("Role", "runtimeclass-scheduler-lease", objects)
    assert role["metadata"]["namespace"] == lease["resourceNamespace"] == "release"
    assert role["rules"][1]["resourceNames"] == [lease["resourceName"]]
    (extender,) = config["extenders"]
    assert ("managedResources" in extender) is (marked == "true")
    assert extender["ignorable"] is (plugin == "beside")
    policies = [each for each in objects if each["kind"] == "MutatingAdmissionPolicy"]
    assert len(policies) == (marked == "true")
    everybody = the("MutatingAdmissionPolicy", objects_of_chart("policies.mark=true"))
    for policy in policies:
        binding = the("MutatingAdmissionPolicyBinding", objects)
        assert binding["spec"]["policyName"] == policy["metadata"]["name"]
        # The policy for all pods, which may be there too, has another name.
        assert policy["metadata"]["name"] != everybody["metadata"]["name"]
        *conditions, last = policy["spec"]["matchConditions"]
        assert conditions == everybody["spec"]["matchConditions"]
        assert last["expression"] == 'object.spec.schedulerName == "runtimeclass-scheduler"'


def test_the_version_of_kube_scheduler_is_the_api_servers() -> None:
    flags = ("--kube-version", "v1.33.5-gke.1234+x")
    spec = _pods(objects_of_chart("secondScheduler.enabled=true", flags=flags))[0]
    images = {each["name"]: each["image"] for each in containers(spec)}
    assert images["kube-scheduler"] == "registry.k8s.io/kube-scheduler:v1.33.5"


def test_the_generated_certificates_let_a_strict_scheduler_in(tmp_path: Path) -> None:
    objects = objects_of_chart("remote.enabled=true")
    for name in ("tls", "client"):
        folder = tmp_path / name
        folder.mkdir()
        secret = named("Secret", f"runtimeclass-extender-{name}", objects)
        for key, value in secret["data"].items():
            (folder / key).write_bytes(base64.b64decode(value))
    server, client = tmp_path / "tls", tmp_path / "client"
    flags = (
        "serve",
        "--bind=127.0.0.1:0",
        "--manifests=scheduler-config/samples/cluster",
        f"--tls-cert-file={server}/tls.crt",
        f"--tls-private-key-file={server}/tls.key",
        f"--client-ca-file={server}/ca.crt",
    )
    context = ssl.create_default_context(cafile=str(client / "ca.crt"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_cert_chain(client / "tls.crt", client / "tls.key")
    host = "runtimeclass-extender.release.svc"
    with (
        running(*flags) as service,
        socket.create_connection(service.address) as plain,
        context.wrap_socket(plain, server_hostname=host) as tls,
    ):
        tls.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert tls.recv(4096).startswith(b"HTTP/1.1 200")


def test_helm_test_asks_check_about_the_cluster_and_the_configuration() -> None:
    for plugin in ("beside", "instead"):
        values = ("secondScheduler.enabled=true", f"plugin={plugin}")
        (container,) = the("Pod", objects_of_chart(*values, flags=()))["spec"]["containers"]
        assert container["args"][0] == "check"
        assert ("--no-admission-plugin" in container["args"]) is (plugin == "instead")
        (mount,) = container["volumeMounts"]
        assert f"--scheduler-config={mount['mountPath']}/kube-scheduler.yaml" in container["args"]
