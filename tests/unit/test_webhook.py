"""The webhook's answers to reviews that are not plain new pods, and to hostile ones."""

import json
import time
from typing import Any

import pytest

from extender.admission.merging import Merge
from extender.objects import RuntimeClass
from extender.undecided_errors import UndecidedError
from extender.validation.quantity import parse_quantity
from extender.validation.runtimeclass_rules import validate_runtimeclass
from tests.reviews import Response, Webhook, response_of, review

KATA: dict[str, Any] = {
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m", "memory": "160Mi"}},
    "scheduling": {
        "nodeSelector": {"sandbox.example/kata": "true", "a~b": "x"},
        "tolerations": [{"key": "sandbox", "operator": "Exists"}],
    },
}

#: A pod may be 1.5 MB in etcd; an answer is awaited for seconds, by default ten. What is measured
#: is processor time, whatever else the machine is doing.
LARGE = 1_500_000
SECONDS = 1.0


@pytest.fixture
def webhook() -> Webhook:
    return Webhook(KATA)


def kata_pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"runtimeClassName": "kata", **spec}}


# What is patched


@pytest.mark.parametrize("absent", [{}, None], ids=["empty", "null"])
def test_empty_and_null_fields_are_patched_like_absent_ones(webhook: Webhook, absent: Any) -> None:
    tolerations: list[Any] | None = None if absent is None else []
    pods = [
        kata_pod(),
        kata_pod(overhead=absent, nodeSelector=absent, tolerations=tolerations),
    ]
    plain, with_fields = [webhook.mutate(pod).applied_to(pod)["spec"] for pod in pods]
    assert plain == with_fields
    assert plain["nodeSelector"] == KATA["scheduling"]["nodeSelector"]
    assert plain["tolerations"] == KATA["scheduling"]["tolerations"]
    assert plain["overhead"] == KATA["overhead"]["podFixed"]


@pytest.mark.parametrize(
    ("constraints", "merged"),
    [
        pytest.param([{"whenUnsatisfiable": "DoNotSchedule"}], True, id="hard"),
        pytest.param(
            [{"whenUnsatisfiable": "DoNotSchedule", "nodeAffinityPolicy": "Honor"}],
            True,
            id="hard, and said so",
        ),
        pytest.param(
            [{"whenUnsatisfiable": "DoNotSchedule", "nodeAffinityPolicy": "Ignore"}],
            False,
            id="hard, over all nodes",
        ),
        pytest.param([{"whenUnsatisfiable": "ScheduleAnyway"}], False, id="soft"),
        pytest.param(
            [{"whenUnsatisfiable": "ScheduleAnyway"}, {"whenUnsatisfiable": "DoNotSchedule"}],
            True,
            id="soft and hard",
        ),
        pytest.param([{}], False, id="nothing said"),
        pytest.param([], False, id="none"),
        pytest.param(None, False, id="null"),
    ],
)
def test_with_merge_tolerations_only_a_hard_spread_gets_the_node_selector(
    constraints: list[Any] | None, merged: bool
) -> None:
    """PodTopologySpread looks at the pod's own nodeSelector, and at nothing else."""
    pod = kata_pod(topologySpreadConstraints=constraints)
    spec = Webhook(KATA, merge=Merge.TOLERATIONS).mutate(pod).applied_to(pod)["spec"]
    assert ("nodeSelector" in spec) is merged
    assert spec["tolerations"] == KATA["scheduling"]["tolerations"]


def test_only_what_is_missing_is_patched(webhook: Webhook) -> None:
    own = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    pod = kata_pod(
        overhead={"cpu": "0.25", "memory": "163840Ki"},
        nodeSelector={"sandbox.example/kata": "true"},
        tolerations=[own],
    )
    assert webhook.mutate(pod).operations == [
        {"op": "add", "path": "/spec/nodeSelector/a~0b", "value": "x"},
        {"op": "add", "path": "/spec/tolerations/-", "value": KATA["scheduling"]["tolerations"][0]},
    ]


def test_slashes_in_keys_are_escaped(webhook: Webhook) -> None:
    pod = kata_pod(nodeSelector={"a~b": "x"})
    operations = webhook.mutate(pod).operations or []
    assert "/spec/nodeSelector/sandbox.example~1kata" in [each["path"] for each in operations]


def test_tolerations_that_stay_keep_what_is_written_in_them(webhook: Webhook) -> None:
    covered = {"key": "sandbox", "operator": "Equal", "value": "x", "effect": "NoSchedule"}
    odd = {"key": "odd", "operator": "Exists", "fieldOfTheFuture": [1, {"a": None}]}
    operations = webhook.mutate(kata_pod(tolerations=[covered, odd])).operations or []
    (replaced,) = [each for each in operations if each["path"] == "/spec/tolerations"]
    assert replaced["op"] == "replace"
    assert replaced["value"] == [odd, *KATA["scheduling"]["tolerations"]]


def test_quantities_are_written_as_the_api_server_writes_them() -> None:
    webhook = Webhook({**KATA, "overhead": {"podFixed": {"cpu": "0.250", "memory": "1024Mi"}}})
    pod = kata_pod()
    overhead = webhook.mutate(pod).applied_to(pod)["spec"]["overhead"]
    assert overhead == {"cpu": "250m", "memory": "1Gi"}


# What is left alone


@pytest.mark.parametrize(
    "request_fields",
    [
        pytest.param({"operation": "UPDATE"}, id="update"),
        pytest.param({"operation": "DELETE", "object": None}, id="delete"),
        pytest.param({"operation": "CONNECT"}, id="connect"),
        pytest.param({"operation": None}, id="no operation"),
        pytest.param({"subResource": "ephemeralcontainers"}, id="subresource"),
        pytest.param(
            {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}}, id="other kind"
        ),
        pytest.param(
            {"resource": {"group": "", "version": "v1", "resource": "services"}},
            id="other resource",
        ),
        pytest.param(
            {"resource": {"group": "metrics.k8s.io", "version": "v1", "resource": "pods"}},
            id="pods of another group",
        ),
    ],
)
@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_other_requests_are_allowed_untouched(
    webhook: Webhook, path: str, request_fields: dict[str, Any]
) -> None:
    pod = kata_pod(runtimeClassName="nope", overhead={"cpu": 1})
    response = webhook.ask(path, pod, **request_fields)
    assert response.raw == {"uid": response.raw["uid"], "allowed": True}
    assert webhook.count(path[1:], "skipped") == 1


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param({"metadata": {"name": "p"}, "spec": {"tolerations": 7}}, id="no class"),
        pytest.param({"spec": {"runtimeClassName": None}}, id="class null"),
        pytest.param({"spec": None}, id="spec null"),
        pytest.param({}, id="no spec"),
    ],
)
def test_pods_without_a_class_pass_untouched_even_before_the_first_sync(pod: Any) -> None:
    webhook = Webhook(synced=False)
    assert webhook.mutate(pod).raw["allowed"]
    assert webhook.validate(pod).raw["allowed"]
    assert webhook.mutate(pod).operations is None


def test_a_dry_run_is_answered_as_any_other(webhook: Webhook) -> None:
    wet, dry = [webhook.mutate(kata_pod(), dryRun=flag) for flag in (False, True)]
    assert wet.raw == dry.raw
    assert wet.operations


# What can't be decided


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_before_the_first_sync_pods_with_a_class_are_refused_for_now(path: str) -> None:
    webhook = Webhook(synced=False)
    response = webhook.ask(path, kata_pod())
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
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(b"{", "not JSON", id="cut off"),
        pytest.param(b"null", "expected `object`", id="null"),
        pytest.param(b"[]", "expected `object`", id="list"),
        pytest.param(b"{}", "expected admission.k8s.io/v1", id="no kind"),
        pytest.param(review({}) + b"x", "not JSON", id="trailing data"),
        pytest.param(
            review({}).replace(b"k8s.io/v1", b"k8s.io/v1beta1"), "v1beta1", id="other version"
        ),
        pytest.param(b'{"kind":"Pod","apiVersion":"v1"}', "got v1 Pod", id="other kind"),
        pytest.param(
            b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}',
            "request: missing",
            id="no request",
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
    webhook: Webhook, path: str, body: bytes, said: str
) -> None:
    status, answer = webhook.post(path, body)
    assert status == 400
    document = json.loads(answer)
    assert list(document) == ["error"]
    assert said in document["error"]
    assert document["error"].isprintable()
    assert len(document["error"]) < 500
    assert webhook.count(path[1:], "error") == 1


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        pytest.param({"runtimeClassName": 5}, "Pod.spec.runtimeClassName", id="class"),
        pytest.param({"overhead": "1"}, "Pod.spec.overhead", id="overhead"),
        pytest.param({"overhead": {"cpu": {}}}, "Pod.spec.overhead", id="quantity"),
        pytest.param({"overhead": {"cpu": "1_0"}}, "Pod.spec.overhead[cpu]", id="underscore"),
        pytest.param({"overhead": {"cpu": "1 1"}}, "Pod.spec.overhead[cpu]", id="blank"),
        pytest.param({"overhead": {"cpu": "\t1"}}, "Pod.spec.overhead[cpu]", id="escaped tab"),
        pytest.param({"overhead": {"cpu": "NaN"}}, "Pod.spec.overhead[cpu]", id="NaN"),
        pytest.param({"overhead": {"cpu": "\u0661"}}, "Pod.spec.overhead[cpu]", id="Arabic digit"),
        pytest.param({"nodeSelector": []}, "Pod.spec.nodeSelector", id="selector"),
        pytest.param({"nodeSelector": {"a": 1}}, "Pod.spec.nodeSelector", id="label value"),
        pytest.param({"tolerations": {}}, "Pod.spec.tolerations", id="tolerations"),
        pytest.param({"tolerations": [5]}, "Pod.spec.tolerations", id="toleration"),
        pytest.param(
            {"tolerations": [{"tolerationSeconds": "5"}]},
            "Pod.spec.tolerations[0].tolerationSeconds",
            id="seconds",
        ),
    ],
)
def test_a_pod_that_cannot_be_read_is_refused_with_the_place(
    webhook: Webhook, spec: dict[str, Any], place: str
) -> None:
    response = webhook.mutate(kata_pod(**spec))
    assert not response.allowed
    assert response.raw["status"]["code"] == 400
    assert response.message.startswith(place)
    assert response.message.isprintable()


def test_what_is_not_read_is_not_judged(webhook: Webhook) -> None:
    pod = kata_pod(containers="?", affinity=[], volumes=7)
    assert webhook.mutate(pod).allowed


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


def _timed(webhook: Webhook, pod: Any) -> Response:
    body = review(pod)
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
            [{"key": "k", "operator": "Equal", "value": str(i)} for i in range(20_000)],
            id="values of one key",
        ),
        pytest.param(
            [
                {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": i}
                for i in range(20_000)
            ],
            id="seconds of one key",
        ),
        pytest.param([{}] * (LARGE // 4), id="empty ones"),
        pytest.param([None] * (LARGE // 6), id="null"),
        pytest.param([{"key": "sandbox", "operator": "Equal"}] * 25_000, id="covered ones"),
    ],
)
def test_many_tolerations_take_no_second(webhook: Webhook, tolerations: list[Any]) -> None:
    response = _timed(webhook, kata_pod(tolerations=tolerations))
    assert response.allowed


@pytest.mark.parametrize(
    "quantity",
    [
        pytest.param("1e999999999", id="huge exponent"),
        pytest.param("1e-999999999", id="tiny exponent"),
        pytest.param("9" * LARGE, id="many digits"),
        pytest.param("0." + "0" * LARGE + "1", id="many places"),
        pytest.param("0" * LARGE, id="many zeros"),
        pytest.param("1e" + "9" * LARGE, id="endless exponent"),
        pytest.param("i" * LARGE, id="endless suffix"),
    ],
)
def test_hostile_quantities_take_no_second(webhook: Webhook, quantity: str) -> None:
    response = _timed(webhook, kata_pod(overhead={"cpu": quantity, "memory": "160Mi"}))
    assert not response.allowed


def test_a_quantity_that_is_a_huge_number_takes_no_second(webhook: Webhook) -> None:
    body = review(kata_pod(overhead={"cpu": 12345})).replace(b"12345", b"9" * LARGE)
    started = time.thread_time()
    status, answer = webhook.post("/mutate", body)
    assert time.thread_time() - started < SECONDS
    assert status == 200
    assert not response_of(answer).allowed


def test_many_labels_take_no_second(webhook: Webhook) -> None:
    labels = {f"k{i}": "v" * 10 for i in range(60_000)}
    assert _timed(webhook, kata_pod(nodeSelector=labels)).allowed


def test_a_deeply_nested_pod_is_refused_or_skipped(webhook: Webhook) -> None:
    body = review(kata_pod(affinity=12345)).replace(b"12345", b"[" * LARGE + b"]" * LARGE)
    assert webhook.post("/mutate", body)[0] in (200, 400)


def test_foreign_names_are_quoted_and_cut(webhook: Webhook) -> None:
    response = webhook.mutate(kata_pod(runtimeClassName="\x1b[2J\n" + "x" * 100_000))
    assert response.message.startswith('pod rejected: RuntimeClass "\\x1b[2J\\nxxx')
    assert len(response.message) < 400
    conflict = webhook.mutate(kata_pod(nodeSelector={"a~b": "\x1b\n" + "y" * 100_000}))
    assert conflict.message.isprintable()
    assert len(conflict.message) < 500


@pytest.mark.parametrize(
    ("amount", "in_pod"),
    [
        pytest.param(" 1", "1", id="blank before"),
        pytest.param("1\u2003", "1", id="blank behind"),
        pytest.param("100u", "1m", id="finer than a thousandth"),
        pytest.param("1500u", "2m", id="rounded up"),
        pytest.param("1n", "1m", id="nano"),
    ],
)
def test_what_a_class_may_say_a_pod_may_carry(amount: str, in_pod: str) -> None:
    """A class that is valid makes a patch, and the pod as kube-apiserver keeps it is let in."""
    document = {**KATA, "overhead": {"podFixed": {"cpu": amount}}, "scheduling": None}
    assert validate_runtimeclass(document) == []
    webhook = Webhook(document)
    pod = kata_pod()
    patched = webhook.mutate(pod).applied_to(pod)
    assert parse_quantity(patched["spec"]["overhead"]["cpu"]) <= parse_quantity(in_pod)
    patched["spec"]["overhead"]["cpu"] = in_pod
    assert webhook.validate(patched).allowed
    assert webhook.mutate(patched).operations is None
    patched["spec"]["overhead"]["cpu"] = "3m"
    assert not webhook.validate(patched).allowed
