"""The webhook against the in-tree RuntimeClass admission plugin of Kubernetes v1.36.2."""

import json
import re
from typing import Any

import pytest
import yaml

from extender.kubernetes.quantity import billionths
from extender.model.objects import RuntimeClass
from tests.reviews import Response, Webhook, response_of, runtime_class
from tests.vectors_file import RECORDED, recorded, vectors

Case = dict[str, Any]

#: What kube-apiserver puts before the text of a plugin, and something else before a webhook's.
PREFIX = re.compile(r'.*pods "[^"]*" is forbidden: ')


def reviewed(case: Case) -> tuple[Response, Any]:
    """The last answer, and the pod as it is then."""
    classes = {each["metadata"]["name"]: each for each in case["runtime_classes"]}

    def live(name: str) -> RuntimeClass | None:
        return runtime_class(classes[name]) if name in classes else None

    cached = () if case.get("cache") == "stale" else classes.values()
    webhook, pod = Webhook(*cached, lookup=live), case["pod"]
    operation, subresource = case.get("operation", "CREATE"), case.get("subresource", "")
    request = {"operation": operation, "subResource": subresource}
    if case["phase"] in ("mutate", "both"):
        response = webhook.mutate(pod, **request)
        pod = response.applied_to(pod)
        if case["phase"] == "mutate" or not response.allowed:
            return response, pod
    return webhook.validate(pod, **request), pod


@pytest.mark.parametrize("case", vectors("admission", "cases"))
def test_pods_are_admitted_as_by_the_plugin(case: Case) -> None:
    response, pod = reviewed(case)
    expected = case["expect"]
    assert response.allowed is expected["allowed"]
    if not response.allowed:
        assert response.message == PREFIX.sub("", expected["message"])
        assert response.raw["status"]["code"] == expected.get("code", 403)
        assert response.raw["status"]["reason"] == expected.get("reason", "Forbidden")
        return
    spec, wanted = pod["spec"], expected["spec"]
    for name in ("nodeSelector", "tolerations"):
        assert (spec.get(name) or None) == (wanted.get(name) or None)
    overhead, wanted_overhead = spec.get("overhead") or {}, wanted.get("overhead") or {}
    assert overhead.keys() == wanted_overhead.keys()
    assert all(billionths(overhead[name]) == billionths(wanted_overhead[name]) for name in overhead)


@pytest.fixture(scope="module")
def cluster() -> Webhook:
    """The RuntimeClasses there were when the reviews were recorded."""
    return Webhook(*yaml.safe_load_all((RECORDED / "runtimeclasses.yaml").read_text()))


ADMITTED: dict[str, Any] = json.loads((RECORDED / "in-tree-admission/admitted.json").read_text())
_ERRORS = (RECORDED / "in-tree-admission/errors.txt").read_text()
REFUSED: dict[str, str] = dict(re.findall(r'pods "([^"]*)" is forbidden: (.*)', _ERRORS))


def ask(cluster: Webhook, path: str, body: bytes) -> tuple[Response, Any, str]:
    """The answer, the pod of the review, and the name it has in admitted.json."""
    request = json.loads(body)["request"]
    status, answer = cluster.post(path, body)
    assert status == 200
    metadata = request["object"]["metadata"]
    generated = metadata.get("generateName")
    return response_of(answer, request["uid"]), request["object"], generated or metadata["name"]


@pytest.mark.parametrize("body", recorded("admission", "mutate"))
def test_recorded_pods_become_what_the_plugin_made_of_them(cluster: Webhook, body: bytes) -> None:
    response, pod, name = ask(cluster, "/mutate", body)
    assert response.allowed is (name in ADMITTED)
    if not response.allowed:
        assert response.message == REFUSED[name]
        assert response.raw["status"]["code"] == 403
        return
    patched = response.applied_to(pod)
    fields = {key: patched["spec"].get(key) for key in ("nodeSelector", "tolerations", "overhead")}
    assert fields == ADMITTED[name]
    assert (response.operations is None) is (patched == pod)
    patched["spec"] |= {key: pod["spec"].get(key) for key in fields}
    original = {**pod, "spec": {**pod["spec"], **{key: pod["spec"].get(key) for key in fields}}}
    assert patched == original


@pytest.mark.parametrize("body", recorded("admission", "validate"))
def test_recorded_pods_are_validated_as_they_are(cluster: Webhook, body: bytes) -> None:
    response, pod, name = ask(cluster, "/validate", body)
    named = pod["spec"].get("runtimeClassName")
    # Nobody has merged the recorded pods, so those of kata lack its overhead.
    assert response.allowed is (named in (None, "gvisor"))
    if named == "kata":
        assert response.message == REFUSED["h-overhead-preset"]
    if named == "nope":
        assert response.message == REFUSED[name]


def test_the_plugin_and_we_refuse_the_same_recorded_pods() -> None:
    pods = yaml.safe_load_all((RECORDED / "admission/pods.yaml").read_text())
    metadata = [pod["metadata"] for pod in pods]
    names = {each.get("name") or each["generateName"] for each in metadata}
    assert names == ADMITTED.keys() | REFUSED.keys()


def test_an_empty_overhead_of_a_class_is_one() -> None:
    # Seen on the real kube-apiserver.
    webhook = Webhook({"metadata": {"name": "empty"}, "handler": "h", "overhead": {}})
    response = webhook.mutate({"spec": {"runtimeClassName": "empty", "overhead": {"cpu": "1"}}})
    text = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    assert response.message == text


def merged(of_pod: list[Case], **scheduling: Any) -> Any:
    """The tolerations of a pod of a class."""
    webhook = Webhook({"metadata": {"name": "x"}, "handler": "h", **scheduling})
    pod = {"spec": {"runtimeClassName": "x", "tolerations": of_pod}}
    return webhook.mutate(pod).applied_to(pod)["spec"]["tolerations"]


def test_an_empty_scheduling_merges_the_pods_own_tolerations() -> None:
    # Seen on the real kube-apiserver: without scheduling the plugin leaves them alone.
    one = {"key": "k", "operator": "Exists"}
    tolerations = [one, {**one, "effect": "NoSchedule"}]
    assert merged(tolerations, scheduling={}) == [one]
    assert merged(tolerations) == tolerations


def test_the_seconds_of_a_class_are_merged() -> None:
    one = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    of_pod = [{**one, "tolerationSeconds": 3}]
    assert merged(of_pod, scheduling={"tolerations": [one]}) == [one]
