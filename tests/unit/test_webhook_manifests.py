"""scheduler-config/webhook: what the configurations must say, and the certificate by script."""

import base64
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from tests.processes import ROOT, run

WEBHOOK = ROOT / "scheduler-config" / "webhook"
NAMESPACE = "runtimeclass-webhook"
HOST = "runtimeclass-webhook.runtimeclass-webhook.svc"

CONFIGURATIONS = {
    "mutating": "configurations/base/mutating.yaml",
    "validating": "configurations/base/validating.yaml",
    "default class": "configurations/default-class/mutating.yaml",
}


def documents(path: str) -> list[Any]:
    return list(yaml.safe_load_all((WEBHOOK / path).read_text()))


@pytest.mark.parametrize("path", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_the_configurations_see_new_pods_only_and_leave_out_two_namespaces(path: str) -> None:
    (document,) = documents(path)
    assert document["metadata"]["name"] > "zz"
    (webhook,) = document["webhooks"]
    assert webhook["failurePolicy"] == "Fail"
    assert webhook["matchPolicy"] == "Equivalent"
    assert webhook["sideEffects"] == "None"
    assert webhook["timeoutSeconds"] <= 10
    assert webhook["admissionReviewVersions"] == ["v1"]
    (rule,) = webhook["rules"]
    assert (rule["operations"], rule["resources"]) == (["CREATE"], ["pods"])
    expression = webhook["namespaceSelector"]["matchExpressions"][-1]
    assert expression["key"] == "kubernetes.io/metadata.name"
    assert expression["operator"] == "NotIn"
    assert set(expression["values"]) == {"kube-system", NAMESPACE}
    service = webhook["clientConfig"]["service"]
    assert f"{service['name']}.{service['namespace']}.svc" == HOST


def test_the_conditions_are_those_that_no_pod_slips_through() -> None:
    mutating, validating, default = (documents(path)[0] for path in CONFIGURATIONS.values())
    conditions = [
        [condition["expression"] for condition in document["webhooks"][0]["matchConditions"]]
        for document in (mutating, validating, default)
    ]
    assert conditions == [
        ["has(object.spec.runtimeClassName)"],
        ["has(object.spec.runtimeClassName) || has(object.spec.overhead)"],
        ["!has(object.spec.runtimeClassName)"],
    ]
    for document in (mutating, default):
        assert document["webhooks"][0]["reinvocationPolicy"] == "IfNeeded"


def test_pods_without_a_class_depend_on_the_webhook_only_where_a_namespace_asks_for_it() -> None:
    """Else networking and certificates could not start without it, nor it without them."""
    (document,) = documents(CONFIGURATIONS["default class"])
    asked, _ = document["webhooks"][0]["namespaceSelector"]["matchExpressions"]
    label = "runtimeclass-extender/default-class"
    assert asked == {"key": label, "operator": "In", "values": ["enabled"]}
    for page in ("webhook.md", "upgrade-and-removal.md"):
        assert f"{label}=enabled" in (ROOT / "docs" / page).read_text()


def test_the_container_is_started_with_flags_that_exist() -> None:
    (deployment,) = documents("base/deployment.yaml")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (component,) = documents("components/default-class/kustomization.yaml")
    (added,) = yaml.safe_load(component["patches"][0]["patch"])
    result = run(*container["args"], added["value"])
    # All flags were taken: what is missing are the files.
    assert "/tls/tls.crt: No such file" in result.stderr


def make_certificate(folder: Path) -> subprocess.CompletedProcess[str]:
    script = WEBHOOK / "components" / "openssl" / "make-certificate.sh"
    return subprocess.run(
        [str(script), str(folder)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PATH": os.environ["PATH"]},
    )


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_the_script_makes_a_certificate_that_kube_apiserver_accepts(tmp_path: Path) -> None:
    folder = tmp_path / "generated"
    assert "valid until" in make_certificate(folder).stdout
    ca, leaf = certificate(folder / "ca.crt"), certificate(folder / "tls.crt")
    leaf.verify_directly_issued_by(ca)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [HOST]
    assert isinstance(leaf.public_key(), ec.EllipticCurvePublicKey)
    (patch,) = yaml.safe_load((folder / "kustomization.yaml").read_text())["patches"]
    (operation,) = yaml.safe_load(patch["patch"])
    assert operation["path"] == "/webhooks/0/clientConfig/caBundle"
    assert base64.b64decode(operation["value"]) == (folder / "ca.crt").read_bytes()
    assert all(file.stat().st_mode & 0o077 == 0 for file in folder.iterdir())


def test_the_script_keeps_its_ca_and_replaces_the_certificate(tmp_path: Path) -> None:
    make_certificate(tmp_path)
    ca, leaf = (tmp_path / "ca.crt").read_bytes(), certificate(tmp_path / "tls.crt")
    make_certificate(tmp_path)
    assert (tmp_path / "ca.crt").read_bytes() == ca
    renewed = certificate(tmp_path / "tls.crt")
    assert renewed.serial_number != leaf.serial_number
    renewed.verify_directly_issued_by(certificate(tmp_path / "ca.crt"))
