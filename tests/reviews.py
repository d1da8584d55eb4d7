"""AdmissionReviews for tests: made, asked of the application without a socket, and read."""

import base64
import json
from dataclasses import dataclass
from typing import Any

from extender.admission.endpoint import WebhookService
from extender.admission.review import Reviewer
from extender.cluster.snapshot_store import SnapshotStore
from extender.http.health import Health
from extender.kubernetes.decoder import decode
from extender.kubernetes.runtime_classes import RawRuntimeClass, runtime_class_of
from extender.model.objects import RuntimeClass
from extender.server.app import create_webhook_app
from extender.verbs.metrics import Metrics
from tests import json_patch
from tests.asking import Client

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def runtime_class(document: dict[str, Any]) -> RuntimeClass:
    return runtime_class_of(decode(json.dumps(document).encode(), RawRuntimeClass))


def review(pod: Any, **request: Any) -> bytes:
    """A review as kube-apiserver sends it for a new pod, apart from what `request` says."""
    full = {
        "uid": UID,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "default",
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        **request,
    }
    document = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": full}
    return json.dumps(document).encode()


@dataclass(frozen=True)
class Response:
    """An AdmissionResponse, looked at for what every one of them must have."""

    raw: dict[str, Any]

    @property
    def allowed(self) -> bool:
        allowed = self.raw["allowed"]
        assert isinstance(allowed, bool)
        return allowed

    @property
    def operations(self) -> list[dict[str, Any]] | None:
        """None where there is no patch."""
        if "patch" not in self.raw:
            assert "patchType" not in self.raw
            return None
        assert self.raw["patchType"] == "JSONPatch"
        operations = json.loads(base64.b64decode(self.raw["patch"], validate=True))
        assert operations
        assert isinstance(operations, list)
        return operations

    @property
    def message(self) -> str:
        message = self.raw["status"]["message"]
        assert isinstance(message, str)
        return message

    def applied_to(self, pod: Any) -> Any:
        return json_patch.apply(pod, self.operations or [])


def response_of(body: bytes, uid: str = UID) -> Response:
    document = json.loads(body)
    assert document["kind"] == "AdmissionReview"
    assert document["apiVersion"] == "admission.k8s.io/v1"
    assert set(document) == {"kind", "apiVersion", "response"}
    raw = document["response"]
    assert raw["uid"] == uid
    if not raw["allowed"]:
        assert "patch" not in raw
        assert raw["status"]["code"] >= 400
        assert raw["status"]["message"]
    return Response(raw)


class Webhook:
    """The webhook's application over a store of its own."""

    def __init__(self, *classes: dict[str, Any], **reviewer: Any) -> None:
        self.store = SnapshotStore()
        if reviewer.pop("synced", True):
            self.store.replace_runtime_classes(map(runtime_class, classes))
        self.metrics = Metrics()
        app = create_webhook_app(
            WebhookService(
                Reviewer(self.store, **reviewer),
                self.metrics,
                Health(lambda: self.store.snapshot, needs_nodes=False),
            ),
        )
        self._client = Client(app)

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        answer = self._client.post(path, data=body)
        return answer.status_code, answer.data

    def ask(self, path: str, pod: Any, **request: Any) -> Response:
        status, body = self.post(path, review(pod, **request))
        assert status == 200, body
        return response_of(body)

    def mutate(self, pod: Any, **request: Any) -> Response:
        return self.ask("/mutate", pod, **request)

    def validate(self, pod: Any, **request: Any) -> Response:
        response = self.ask("/validate", pod, **request)
        assert response.operations is None
        return response

    def count(self, operation: str, outcome: str) -> float:
        """The metric admission_requests_total."""
        labels = {"operation": operation, "outcome": outcome}
        name = "runtimeclass_extender_admission_requests_total"
        return self.metrics.registry.get_sample_value(name, labels) or 0.0
