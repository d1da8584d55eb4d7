"""The real webhook process, asked over a socket as kube-apiserver asks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import SAMPLES, Server, ready, until
from tests.reviews import Response, response_of, review
from tests.vectors_file import RECORDED, recorded

CLUSTER = str(SAMPLES / "cluster")


@pytest.fixture(scope="module")
def webhook() -> Iterator[Server]:
    manifests = str(RECORDED / "runtimeclasses.yaml")
    with ready("webhook", "--manifests", manifests) as server:
        yield server


@pytest.mark.parametrize("verb", ["mutate", "validate"])
def test_recorded_reviews_are_answered(webhook: Server, verb: str) -> None:
    for parameters in recorded("admission", verb):
        (body,) = parameters.values
        status, answer, headers = webhook.request("POST", f"/{verb}?timeout=10s", body)
        assert status == 200
        assert headers["Content-Type"] == "application/json"
        response_of(answer, json.loads(body)["request"]["uid"])


def test_reviews_are_counted_and_timed_by_verb(webhook: Server) -> None:
    webhook.request("POST", "/mutate", review({}))
    _, metrics, _ = webhook.request("GET", "/metrics")
    assert b'admission_requests_total{operation="mutate",outcome="skipped"}' in metrics
    assert b'request_duration_seconds_count{verb="mutate"}' in metrics


def _runtime_class(folder: Path, name: str) -> None:
    kind = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "h"}
    annotations = {"runtimeclass-extender/is-default-class": "true"}
    metadata = {"name": name, "annotations": annotations}
    fresh = folder / ".new"
    fresh.write_text(json.dumps({**kind, "metadata": metadata}))
    fresh.rename(folder / "class.json")


def _given(server: Server, namespace: str) -> Any:
    answer = server.post("/mutate", review({"spec": {}}, namespace=namespace))
    pod: Any = response_of(json.dumps(answer).encode()).applied_to({"spec": {}})
    return pod["spec"].get("runtimeClassName")


def test_default_classes_follow_edited_manifests(tmp_path: Path) -> None:
    _runtime_class(tmp_path, "one")
    (tmp_path / "namespaces.yaml").write_text(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: plain\n  annotations:"
        ' {runtimeclass-extender/default-class: "false"}\n'
        "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: 7}\n"
    )
    with ready("webhook", "--manifests", str(tmp_path), "--default-class") as server:
        assert (_given(server, "default"), _given(server, "plain")) == ("one", None)
        server.wait_for_line("Namespace ignored: metadata.name")
        _runtime_class(tmp_path, "two")
        until(lambda: _given(server, "default") == "two")


def test_with_mark_pods_a_pod_that_lacks_the_mark_gets_it_or_a_warning() -> None:
    with ready("webhook", "--manifests", CLUSTER, "--mark-pods") as server:
        spec = {"containers": [{"name": "c", "image": "i"}], "runtimeClassName": "runc"}
        pod = {"metadata": {"name": "p"}, "spec": spec}
        marked = _asked(server, "mutate", pod).applied_to(pod)
        # A pod that bypassed the mutating webhook is let in with a warning to its author.
        (warning,) = _asked(server, "validate", pod).raw["warnings"]
        assert "does not ask for runtimeclass-extender/pod" in warning
        assert "warnings" not in _asked(server, "validate", marked).raw


def _asked(server: Server, verb: str, pod: dict[str, Any]) -> Response:
    status, answer, _ = server.request("POST", f"/{verb}", review(pod))
    assert status == 200, answer
    return response_of(answer)
