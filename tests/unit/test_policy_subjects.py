"""Which pods and workloads the policies of namespaces judge, and by what."""

from typing import Any

from extender.admission.defaults import Subject, subject_of
from extender.lint.lints.namespaces import refused_by_policies
from extender.model.objects import Namespace
from tests.cases_file import cases
from tests.stores import raw

ALLOWED = "runtimeclass-extender/allowed-classes"


@cases
def test_a_pod_is_judged_unless_no_policy_looks_at_it(
    document: dict[str, Any], expected: list[object] | None
) -> None:
    found = subject_of(raw(document), "Pod")
    assert (found and [*found[3:]]) == expected


@cases
def test_a_workload_is_judged_by_its_template(kind: str, changes: dict[str, Any]) -> None:
    document: dict[str, Any] = {"metadata": {"name": "web"}, **changes}
    found = subject_of(raw(document), kind)
    assert found == Subject(kind, "default", "web", "kata", False)
    for owners, is_judged in (([{"controller": True}], False), ([{}, None], True)):
        document["metadata"] = {"name": "web", "ownerReferences": owners}
        assert (subject_of(raw(document), kind) is not None) is is_judged


def test_a_workload_without_a_template_makes_no_pods() -> None:
    assert subject_of(raw({"metadata": {"name": "web"}}), "ReplicationController") is None
    assert subject_of(raw({"spec": {"jobTemplate": None}}), "CronJob") is None


def subject(name: str, runtime_class: str = "", *, default: bool = False) -> Subject:
    return Subject("Pod", "team-a", name, runtime_class, default)


def test_what_is_refused_for_the_same_is_one_finding() -> None:
    subjects = [subject(f"p{index}", "runc") for index in range(60)]
    rules = {"team-a": Namespace({ALLOWED: "kata"}, {}), "team-b": Namespace({ALLOWED: ""}, {})}
    (finding,) = refused_by_policies(subjects, rules)
    assert finding.what.startswith(
        'RuntimeClass "runc" is not allowed in namespace "team-a", which allows "kata": Pod'
        " team-a/p0, Pod team-a/p1, Pod team-a/p10,"
    )
    assert finding.what.endswith(" and 10 more")
    assert "policy runtimeclass-extender-allowed-classes would refuse them" in finding.why
    assert finding.fix.endswith(f"namespace team-a {ALLOWED}=kata,runc")


@cases
def test_a_pod_without_a_class_is_judged_as_it_would_be_created(
    rules: dict[str, str], given: bool, refused: bool
) -> None:
    findings = refused_by_policies([subject("p", default=given)], {"team-a": Namespace(rules, {})})
    assert bool(list(findings)) is refused
