"""The webhook's answers to reviews that are not plain new pods, and to hostile ones."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Raw

from extender.inventory.impact import ImpactWarning
from extender.model.errors import UndecidedError
from extender.model.objects import Node, RuntimeClass
from extender.model.using_objects import PlacedPod
from extender.rules.pod_state import PodGroup, group_of
from tests.cases_file import cases, rows
from tests.reviews import Response, Webhook, response_of, review, runtime_class

KATA: dict[str, Any] = {
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m", "memory": "160Mi"}},
    "scheduling": {
        "nodeSelector": {"sandbox.example/kata": "true", "a~b": "x"},
        "tolerations": [{"key": "sandbox", "operator": "Exists"}],
    },
}

#: etcd takes pods of 1.5 MB, and kube-apiserver waits for an answer for ten seconds by default.
#: Processor time is measured, which other load does not change.
LARGE = 1_500_000
SECONDS = 1.0


@pytest.fixture
def webhook() -> Webhook:
    return Webhook(KATA)


def kata_pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"runtimeClassName": "kata", **spec}}


# What is patched


@pytest.mark.parametrize("amount", ["0.25", "250000u", "1e3", "1E3", "1.5Gi", 0.25, 1000, 1e-7])
def test_an_overhead_is_written_as_its_class_has_it_and_passes(amount: str | float) -> None:
    """kube-apiserver takes any quantity that is text, and stores it in its canonical form."""
    kata = KATA | {"overhead": {"podFixed": {"cpu": amount}}}
    webhook, pod = Webhook(kata), kata_pod()
    patched = webhook.mutate(pod).applied_to(pod)
    assert patched["spec"]["overhead"] == {"cpu": str(amount)}
    assert webhook.validate(patched).allowed


def test_tolerations_that_stay_keep_what_is_written_in_them(webhook: Webhook) -> None:
    covered = {"key": "sandbox", "operator": "Equal", "value": "x", "effect": "NoSchedule"}
    odd = {"key": "odd", "operator": "Exists", "fieldOfTheFuture": [1, {"a": None}]}
    operations = webhook.mutate(kata_pod(tolerations=[covered, odd])).operations or []
    (replaced,) = [each for each in operations if each["path"] == "/spec/tolerations"]
    assert replaced["op"] == "add"
    assert replaced["value"] == [odd, *KATA["scheduling"]["tolerations"]]


# What an update of a class breaks


def test_who_updates_a_class_is_warned_of_what_that_breaks() -> None:
    class_ = {"group": "node.k8s.io", "kind": "RuntimeClass"}
    label = {"sandbox": "kata"}
    kata = {"metadata": {"name": "kata"}, "handler": "k", "scheduling": {"nodeSelector": label}}
    known: Counter[PodGroup] | None = None

    def told(raw: Raw) -> Iterator[str]:
        return ImpactWarning(changing.store, lambda: known)(raw)

    changing = Webhook(kata, warns_of_impact=told)

    def warnings(kata: dict[str, Any] = kata, **scheduling: Any) -> list[str]:
        changed = kata | {"scheduling": scheduling}
        answer = changing.ask("/validate", changed, kind=class_, operation="UPDATE")
        assert answer.allowed
        return list(answer.raw.get("warnings", ()))

    (unknown,) = warnings(nodeSelector=label)
    assert "not known yet" in unknown
    nodes = [Node(name, {**label, "pool": name}) for name in "ab"]
    changing.store.replace_all(nodes, [runtime_class(kata)])
    placed = [PlacedPod("default", "p", "kata", each) for each in "aab"]
    known = Counter(group_of(each, changing.store.snapshot.runtime_classes) for each in placed)
    assert warnings(nodeSelector=label) == []
    stranded, fewer = warnings(nodeSelector={**label, "pool": "b"})
    assert ": 2 pods could not start again on the node: nodes don't match" in stranded
    assert ": new pods keep 1 of 2 nodes" in fewer
    # A condition that no class has asked for so far may be met; one that another asks for is known.
    ready = {
        "metadata": {
            "name": "kata",
            "annotations": {"runtimeclass-extender/node-conditions": "Ready"},
        }
    }
    assert warnings(kata | ready, nodeSelector=label) == []
    other = kata | {"metadata": ready["metadata"] | {"name": "other"}}
    changing.store.replace_all(nodes, [runtime_class(kata), runtime_class(other)])
    assert any("keep 0 of 2" in each for each in warnings(kata | ready, nodeSelector=label))


# What is left alone


@cases
@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_other_requests_are_allowed_untouched(
    request_fields: dict[str, Any], webhook: Webhook, path: str
) -> None:
    pod = kata_pod(runtimeClassName="nope", overhead={"cpu": 1})
    response = webhook.ask(path, pod, **request_fields)
    assert response.raw == {"uid": response.raw["uid"], "allowed": True}
    assert webhook.count(path[1:], "skipped") == 1


@pytest.mark.parametrize(
    "pod",
    [{"spec": {"tolerations": 7}}, {"spec": {"runtimeClassName": None}}, {"spec": None}, {}],
    ids=str,
)
def test_pods_without_a_class_pass_untouched_even_before_the_first_sync(pod: Any) -> None:
    webhook = Webhook(synced=False)
    assert webhook.mutate(pod).raw["allowed"]
    assert webhook.validate(pod).raw["allowed"]
    assert webhook.mutate(pod).operations is None


# What can't be decided


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_before_the_first_sync_pods_with_a_class_are_refused_for_now(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    webhook = Webhook(synced=False)
    response = webhook.ask(path, kata_pod())
    assert [each.levelname for each in caplog.records] == ["WARNING"]
    assert not response.allowed
    assert response.raw["status"] == {
        "status": "Failure",
        "message": "runtimeclass-extender: RuntimeClasses not synced yet",
        "reason": "ServiceUnavailable",
        "code": 503,
    }
    assert webhook.count(path[1:], "error") == 1


def test_a_class_is_asked_for_once_before_it_is_not_found() -> None:
    asked = []

    def live(name: str) -> RuntimeClass | None:
        asked.append(name)
        return None

    webhook = Webhook(KATA, lookup=live)
    response = webhook.mutate(kata_pod(runtimeClassName="nope"))
    assert response.message == 'pod rejected: RuntimeClass "nope" not found'
    assert webhook.mutate(kata_pod()).allowed
    assert asked == ["nope"]
    assert webhook.count("mutate", "refused") == 1
    assert webhook.count("mutate", "patched") == 1


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("", "resource name may not be empty", id="the empty one, in other words"),
        pytest.param("x", 'pod rejected: RuntimeClass "x" not found', id="one letter"),
        pytest.param(
            "x" * 253, f'pod rejected: RuntimeClass "{"x" * 253}" not found', id="the longest one"
        ),
        pytest.param(
            "x" * 254, f'pod rejected: RuntimeClass "{"x" * 253}…" not found', id="one that is cut"
        ),
    ],
)
def test_a_missing_class_is_refused_by_its_name(
    path: str, name: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The pod's author learns of it; nothing is logged."""
    response = Webhook(KATA).ask(path, kata_pod(runtimeClassName=name))
    assert not caplog.records
    assert (response.allowed, response.message) == (False, text)
    assert response.raw["status"]["code"] == 403


def test_nobody_answering_for_a_missing_class_is_not_a_not_found() -> None:
    def silent(name: str) -> RuntimeClass | None:
        raise UndecidedError("runtimeclass-extender: kube-apiserver does not answer")

    response = Webhook(lookup=silent).mutate(kata_pod())
    assert response.raw["status"]["code"] == 503
    assert "not found" not in response.message


# What can't be read


@pytest.mark.parametrize(
    ("body", "said"),
    [
        *rows("webhook", "a_body_that_is_no_review_is_a_400_of_one_line"),
        pytest.param(review({}) + b"x", "not JSON", id="trailing data"),
        pytest.param(
            review({}).replace(b"k8s.io/v1", b"k8s.io/v1beta1"), "v1beta1", id="other version"
        ),
        pytest.param(review({}, uid=None), "request.uid: missing", id="no uid"),
        pytest.param(review({}, uid=""), "request.uid: missing", id="empty uid"),
        pytest.param(review({}, uid=7), "request.uid: expected `str`", id="number as uid"),
        pytest.param(review({}, uid="\ud800"), "not JSON", id="lone surrogate as uid"),
        pytest.param(review({"x": "\ud800"}), "not JSON", id="lone surrogate in the pod"),
        pytest.param(b"[" * LARGE, "", id="nested deeply"),
        pytest.param(review({}).replace(b"CREATE", b"\xff"), "", id="not UTF-8"),
        pytest.param(
            review({}, kind="x\n\x1b[2J"),
            "request.kind: expected `object`",
            id="kind of a wrong type",
        ),
        pytest.param(
            b'{"kind":"\\n\\u001b","apiVersion":"' + b"x" * 5000 + b'"}',
            "…",
            id="control characters",
        ),
    ],
)
@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_a_body_that_is_no_review_is_a_400_of_one_line(
    webhook: Webhook, path: str, body: bytes | str, said: str
) -> None:
    status, answer = webhook.post(path, body if isinstance(body, bytes) else body.encode())
    assert status == 400
    document = json.loads(answer)
    assert list(document) == ["error"]
    assert said in document["error"]
    assert document["error"].isprintable()
    assert len(document["error"]) < 500
    assert webhook.count(path[1:], "error") == 1


@cases
def test_a_pod_that_cannot_be_read_is_refused_with_the_place(
    field: str, value: object, place: str, webhook: Webhook
) -> None:
    response = webhook.mutate(kata_pod(**{field: value}))
    assert not response.allowed
    assert response.raw["status"]["code"] == 400
    assert response.message.startswith(f"Pod.spec.{field}{place}")
    assert response.message.isprintable()


@pytest.mark.parametrize("pod", [None, [], "x", 5, {"spec": 5}], ids=str)
def test_an_object_that_is_no_pod_is_refused(webhook: Webhook, pod: Any) -> None:
    response = webhook.mutate(pod)
    assert response.raw["status"]["code"] == 400
    assert "Pod" in response.message


def test_of_duplicate_keys_the_last_counts(webhook: Webhook) -> None:
    body = review(kata_pod()).replace(
        b'"runtimeClassName": "kata"', b'"runtimeClassName": "nope", "runtimeClassName": "kata"'
    )
    status, answer = webhook.post("/mutate", body)
    assert status == 200
    assert response_of(answer).allowed


# Hostile text


def _timed(webhook: Webhook, body: bytes) -> Response:
    started = time.thread_time()
    status, answer = webhook.post("/mutate", body)
    assert time.thread_time() - started < SECONDS
    assert status == 200
    return response_of(answer)


@pytest.mark.parametrize(
    "tolerations",
    [
        pytest.param([{"key": f"k{i}", "operator": "Exists"} for i in range(20_000)], id="keys"),
        pytest.param(
            [
                {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": i}
                for i in range(20_000)
            ],
            id="seconds of one key",
        ),
        pytest.param([None] * 100_000, id="null"),
        pytest.param([{"key": "sandbox", "operator": "Equal"}] * 25_000, id="covered ones"),
    ],
)
def test_many_tolerations_take_no_second(webhook: Webhook, tolerations: list[Any]) -> None:
    assert _timed(webhook, review(kata_pod(tolerations=tolerations))).allowed


@pytest.mark.parametrize(
    "quantity",
    [
        pytest.param('"1e999999999"', id="huge exponent"),
        pytest.param(f'"{"9" * LARGE}"', id="many digits"),
        pytest.param(f'"0.{"0" * LARGE}1"', id="many places"),
        pytest.param(f'"1e{"9" * LARGE}"', id="endless exponent"),
        pytest.param(f'"{"i" * LARGE}"', id="endless suffix"),
        pytest.param("9" * LARGE, id="a number"),
    ],
)
def test_hostile_quantities_take_no_second(webhook: Webhook, quantity: str) -> None:
    body = review(kata_pod(overhead={"cpu": 12345, "memory": "160Mi"}))
    assert not _timed(webhook, body.replace(b"12345", quantity.encode())).allowed


def test_many_labels_take_no_second(webhook: Webhook) -> None:
    labels = {f"k{i}": "v" * 10 for i in range(60_000)}
    assert _timed(webhook, review(kata_pod(nodeSelector=labels))).allowed


def test_a_deeply_nested_pod_is_refused_or_skipped(webhook: Webhook) -> None:
    body = review(kata_pod(affinity=12345)).replace(b"12345", b"[" * LARGE + b"]" * LARGE)
    assert webhook.post("/mutate", body)[0] in (200, 400)


def test_foreign_names_are_quoted_and_cut(webhook: Webhook) -> None:
    response = webhook.mutate(kata_pod(runtimeClassName="\x1b[2J\n" + "x" * 100_000))
    assert response.message.startswith('pod rejected: RuntimeClass "?[2J?xxx')
    assert len(response.message) < 400
    conflict = webhook.mutate(kata_pod(nodeSelector={"a~b": "\x1b\n" + "y" * 100_000}))
    assert conflict.message.isprintable()
    assert len(conflict.message) < 500
