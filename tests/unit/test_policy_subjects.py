"""Which pods and workloads the policies of namespaces judge, and by what."""

import json
from typing import Any

import pytest
from msgspec import Raw

from extender.admission.policy_subjects import Subject, pod_subject, template_subject
from extender.checks.policies import check_policies
from extender.decoding.decoder import DecodeError

ALLOWED = "runtimeclass-extender/allowed-classes"
REQUIRED = "runtimeclass-extender/required"
DEFAULT = "runtimeclass-extender/default-class"


def raw(document: Any) -> Raw:
    return Raw(json.dumps(document).encode())


def pod(name: str = "p", **changes: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "team-a"}, "spec": {}, **changes}


TEMPLATE = {"spec": {"runtimeClassName": "kata"}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(pod(), ("", True), id="no class"),
        pytest.param(pod(spec={"runtimeClassName": "kata"}), ("kata", False), id="a class"),
        pytest.param(pod(spec={"hostNetwork": True}), ("", False), id="never given a default"),
        pytest.param(pod(status={"phase": "Running"}), ("", True), id="running"),
        pytest.param(pod(status={"phase": "Succeeded"}), None, id="finished"),
        pytest.param(pod(status={"phase": "Failed"}), None, id="failed"),
        pytest.param(
            pod(metadata={"name": "p", "annotations": {"kubernetes.io/config.mirror": "x"}}),
            None,
            id="mirror pod",
        ),
        pytest.param(
            pod(metadata={"name": "p", "namespace": "kube-system"}), None, id="of the cluster"
        ),
    ],
)
def test_a_pod_is_judged_unless_no_policy_looks_at_it(
    document: dict[str, Any], expected: tuple[str, bool] | None
) -> None:
    found = pod_subject(raw(document))
    assert (found and found[3:]) == expected


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("Deployment", {"spec": {"template": TEMPLATE}}),
        ("Job", {"spec": {"template": TEMPLATE}}),
        ("CronJob", {"spec": {"jobTemplate": {"spec": {"template": TEMPLATE}}}}),
        ("PodTemplate", {"template": TEMPLATE}),
    ],
)
def test_a_workload_is_judged_by_its_template(kind: str, changes: dict[str, Any]) -> None:
    document: dict[str, Any] = {"metadata": {"name": "web"}, **changes}
    found = template_subject(raw(document), kind)
    assert found == Subject(kind, "default", "web", "kata", False)
    for owners, is_judged in (([{"controller": True}], False), ([{}, None], True)):
        document["metadata"] = {"name": "web", "ownerReferences": owners}
        assert (template_subject(raw(document), kind) is not None) is is_judged


def test_a_workload_without_a_template_makes_no_pods() -> None:
    assert template_subject(raw({"metadata": {"name": "web"}}), "ReplicationController") is None
    assert template_subject(raw({"spec": {"jobTemplate": None}}), "CronJob") is None


def test_what_can_not_be_read_is_called_by_its_place() -> None:
    with pytest.raises(DecodeError, match=r"Pod\.spec"):
        pod_subject(raw(pod(spec={"runtimeClassName": 7})))


def subject(name: str, runtime_class: str = "", *, default: bool = False) -> Subject:
    return Subject("Pod", "team-a", name, runtime_class, default)


def test_what_is_refused_for_the_same_is_one_finding_that_names_each_once() -> None:
    subjects = [subject(f"p{index}", "runc") for index in range(60)]
    rules = {"team-a": {ALLOWED: "kata"}, "team-b": {ALLOWED: ""}}
    (finding,), judged = check_policies([*subjects, subjects[0]], rules)
    assert judged == 61
    assert finding.what.startswith(
        'RuntimeClass "runc" is not allowed in namespace "team-a", which allows "kata": Pod'
        " team-a/p0, Pod team-a/p1, Pod team-a/p10,"
    )
    assert finding.what.endswith(" and 10 more")
    assert finding.what.count("p0,") == 1
    assert "policy runtimeclass-extender-allowed-classes would refuse them" in finding.why
    assert finding.fix.endswith(f"namespace team-a {ALLOWED}=kata,runc")


@pytest.mark.parametrize(
    ("rules", "given", "refused"),
    [
        pytest.param({REQUIRED: "true"}, False, True, id="required"),
        pytest.param({REQUIRED: "true", DEFAULT: "kata"}, True, False, id="given by default"),
        pytest.param({REQUIRED: "true", DEFAULT: "kata"}, False, True, id="not given"),
        pytest.param({DEFAULT: "kata", ALLOWED: "wasm"}, True, True, id="default not allowed"),
        pytest.param({DEFAULT: "kata", ALLOWED: "wasm"}, False, False, id="the default runtime"),
        pytest.param({}, True, False, id="no rules"),
    ],
)
def test_a_pod_without_a_class_is_judged_as_it_would_be_created(
    rules: dict[str, str], given: bool, refused: bool
) -> None:
    findings, _ = check_policies([subject("p", default=given)], {"team-a": rules})
    assert bool(findings) is refused
