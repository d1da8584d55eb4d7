"""What the API server is told about the webhook."""

from typing import Final

import pytest

from tests.config.chart import named, needs_helm, objects_of_chart
from tests.config.kustomize import the
from tests.config.shipped import Json
from tests.processes import ROOT, run

pytestmark = needs_helm

_VALUES: Final = ("webhook.enabled=true", "webhook.defaultClass=true")

#: (kind, name) → its condition
_CONDITIONS: Final = {
    ("MutatingWebhookConfiguration", "zzz-runtimeclass-extender"): (
        "has(object.spec.runtimeClassName)"
    ),
    ("ValidatingWebhookConfiguration", "zzz-runtimeclass-extender"): (
        "has(object.spec.runtimeClassName) || has(object.spec.overhead)"
    ),
    ("MutatingWebhookConfiguration", "zzz-runtimeclass-extender-default-class"): (
        "!has(object.spec.runtimeClassName)"
    ),
}


def _webhook(kind: str, name: str) -> Json:
    (webhook,) = named(kind, name, objects_of_chart(*_VALUES))["webhooks"]
    found: Json = webhook
    return found


@pytest.mark.parametrize(("kind", "name"), _CONDITIONS)
def test_the_configurations_see_new_pods_only_and_leave_out_two_namespaces(
    kind: str, name: str
) -> None:
    webhook = _webhook(kind, name)
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
    assert set(expression["values"]) == {"kube-system", "release"}
    assert kind.startswith("Validating") or webhook["reinvocationPolicy"] == "IfNeeded"


def test_the_conditions_are_those_that_no_pod_slips_through() -> None:
    for (kind, name), wanted in _CONDITIONS.items():
        (condition,) = _webhook(kind, name)["matchConditions"]
        assert condition["expression"] == wanted


def test_pods_without_a_class_depend_on_the_webhook_only_where_a_namespace_asks_for_it() -> None:
    """Otherwise networking and certificates could not start without it, nor it without them."""
    webhook = _webhook("MutatingWebhookConfiguration", "zzz-runtimeclass-extender-default-class")
    asked, _ = webhook["namespaceSelector"]["matchExpressions"]
    label = "runtimeclass-extender/default-class"
    assert asked == {"key": label, "operator": "In", "values": ["enabled"]}
    assert f"{label}=enabled" in (ROOT / "docs" / "webhook.md").read_text()


@pytest.mark.parametrize("plugin", ["beside", "instead"])
def test_the_container_is_started_with_flags_that_exist(plugin: str) -> None:
    more = ("webhook.fit=true", "webhook.markPods=true", f"plugin={plugin}")
    deployment = the("Deployment", objects_of_chart(*_VALUES, *more))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    result = run(*container["args"])
    # All flags were taken: what is missing are the files.
    assert "/tls/tls.crt: No such file" in result.stderr
