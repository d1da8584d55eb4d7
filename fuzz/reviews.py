"""Bodies of the webhook: a 200 or a 400, and a patch that applies and leaves nothing to patch.

With all that a webhook can do switched on: a default class, marks, fitting, refusing what is
unsupported.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson

from extender.admission.endpoint import WebhookService
from extender.admission.review import Reviewer, Unsupported
from extender.cluster.manifest_objects import load_manifests
from extender.cluster.snapshot_store import SnapshotStore
from extender.http.asgi import Application
from extender.http.health import Health
from extender.kubernetes.namespaces import NamespaceRules
from extender.server.app import create_webhook_app
from extender.verbs.metrics import Metrics
from tests.asking import Client
from tests.processes import ROOT, SAMPLES
from tests.reviews import UID, Response, review

#: The first byte of an input says which.
PATHS: Final = (b"/mutate", b"/validate")

MAX_SIZE: Final = 6_000

WORDS: Final = (
    *(b'"request":{', b'"object":{', b'"operation":"CREATE"', b'"metadata":{', b'"spec":{'),
    *(b'"runtimeClassName":"kata"', b'"runtimeClassName":""', b'"overhead":{"cpu":"250m"}'),
    *(b'"nodeSelector":{', b'"tolerations":[{', b'"affinity":{', b'"nodeAffinity":{', b"null"),
    *(b'"requiredDuringSchedulingIgnoredDuringExecution":{', b'"nodeSelectorTerms":[{'),
    *(b'"matchExpressions":[{', b'"operator":"Exists"', b'"effect":"NoSchedule"', b'"key":"'),
    *(b'"containers":[{', b'"initContainers":[{', b'"resources":{', b'"requests":{', b'"limits":{'),
    *(b'"runtimeclass-extender/pod":"1"', b'"runtimeclass-extender/isolation":"vm"'),
    *(b'"runtimeclass-extender/default-class":"false"', b'"hostNetwork":true', b'"annotations":{'),
    *(b'"securityContext":{"privileged":true}', b'"nodeName":"n"', b'"namespace":"default"'),
    *(b'"topologySpreadConstraints":[{', b'"whenUnsatisfiable":"DoNotSchedule"', b"\\u0000"),
    *(b"\\ud800", b"\\\\", b"\xc3\xa4", b"\xff", b"1e400", b"~1", b"~0", b"[[[[[[[[", b'""'),
)


def seeds() -> Iterator[bytes]:
    for file in sorted((ROOT / "tests" / "recorded" / "admission").glob("*.json"))[::6]:
        yield bytes(["validate" in file.stem]) + file.read_bytes()[:MAX_SIZE]
    for file in sorted((SAMPLES / "reviews").glob("*.json")):
        yield b"\0" + orjson.dumps(orjson.loads(file.read_bytes()))
    for annotations in ({}, {"runtimeclass-extender/isolation": "vm"}):
        pod = {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "c"}]}}
        yield b"\0" + review(pod)


def _rules(namespace: str) -> NamespaceRules:
    return NamespaceRules(namespace, "gvisor" if namespace == "default" else "")


@functools.cache
def webhook() -> Application:
    manifests = load_manifests([str(SAMPLES / "cluster")])
    store = SnapshotStore()
    store.replace_all(manifests.nodes.values(), manifests.runtime_classes.values())
    reviewer = Reviewer(
        store,
        namespace_rules=_rules,
        marks_pods=True,
        unsupported=Unsupported.DENY,
        fits=True,
    )
    service = WebhookService(reviewer, Metrics(), Health(lambda: store.snapshot))
    return create_webhook_app(service)


def answer(path: bytes, body: bytes) -> tuple[int, Any]:
    """The status, and the JSON that is answered."""
    answered = Client(webhook()).post(path.decode(), body)
    return answered.status_code, answered.json


def one(data: bytes) -> None:
    """Try one input. Raises whatever it should not."""
    path, body = PATHS[data[0] % len(PATHS)] if data else PATHS[0], data[1:]
    status, document = answer(path, body)
    assert status in (200, 400), f"{status}: {document}"
    if status == 400:
        assert list(document) == ["error"]
        assert document["error"].isprintable(), "an error that is more than one line"
        return
    response = Response(document["response"])
    if not response.allowed:
        assert response.raw["status"]["code"] in (400, 403, 503), response.raw
        return
    try:
        request = orjson.loads(body)["request"]
    except orjson.JSONDecodeError:
        return  # no UTF-8 in a part that is not read; its bytes come back as they are
    if response.operations:
        assert path == b"/mutate"
        _check_patch(request, response)


def _check_patch(request: dict[str, Any], response: Response) -> None:
    patched = response.applied_to(request["object"])
    again = review(patched, namespace=request.get("namespace"))
    status, document = answer(b"/mutate", again)
    assert (status, document["response"]["uid"]) == (200, UID)
    second = Response(document["response"])
    assert second.allowed, f"refused once it is patched: {second.raw}"
    assert not second.operations, f"patched again: {second.operations} after {response.operations}"


TARGET: Final[Callable[[bytes], None]] = one
