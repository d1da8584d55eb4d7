"""scheduler-config/policies says what extender/admission says; tests/e2e puts it into force."""

from typing import Final

import pytest

from extender.admission import namespace_rules
from extender.admission.policy_subjects import EXEMPT_NAMESPACES
from tests.config.shipped import FOLDER, Json, documents

_POLICIES: Final = FOLDER / "policies"

#: folder → the name of its policy.
_JUDGING: Final = {
    "allowed-classes": namespace_rules.ALLOWED_POLICY,
    "required-class": namespace_rules.REQUIRED_POLICY,
}
_ALL: Final = sorted(each.name for each in _POLICIES.iterdir())


def policy_of(folder: str) -> tuple[Json, list[Json]]:
    """The policy of a folder and its bindings."""
    policy, *bindings = documents(_POLICIES / folder / "policy.yaml")
    return policy, bindings


@pytest.mark.parametrize("folder", _ALL)
def test_a_policy_fails_closed_and_each_binding_is_its_own(folder: str) -> None:
    policy, bindings = policy_of(folder)
    name = policy["metadata"]["name"]
    assert name == f"runtimeclass-extender-{folder}"
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert bindings
    for each in bindings:
        assert each["kind"] == f"{policy['kind']}Binding"
        assert each["metadata"]["name"].startswith(name)
        assert each["spec"]["policyName"] == name


@pytest.mark.parametrize("folder", [*_JUDGING, "default-class"])
def test_the_cluster_s_own_namespaces_are_left_out_by_the_policy_itself(folder: str) -> None:
    """By no binding, of which somebody may make another."""
    policy, bindings = policy_of(folder)
    (left_out,) = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert left_out["operator"] == "NotIn"
    assert frozenset(left_out["values"]) == EXEMPT_NAMESPACES
    assert not any(
        "namespaceSelector" in each["spec"].get("matchResources", {}) for each in bindings
    )


@pytest.mark.parametrize(("folder", "name"), _JUDGING.items())
def test_pods_are_denied_and_templates_warned_about(folder: str, name: str) -> None:
    policy, bindings = policy_of(folder)
    assert policy["metadata"]["name"] == name
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    pods, templates = (each["spec"]["matchResources"]["resourceRules"] for each in bindings)
    assert [*pods, *templates] == rules
    assert [each["resources"] for each in pods] == [["pods"]]
    assert [each["spec"]["validationActions"] for each in bindings] == [["Deny"], ["Warn", "Audit"]]


def test_both_judging_policies_read_a_template_and_a_list_alike() -> None:
    variables = [
        {each["name"]: each["expression"] for each in policy_of(folder)[0]["spec"]["variables"]}
        for folder in _JUDGING
    ]
    for name in ("template", "class", "annotations", "allowed"):
        one, other = (each[name] for each in variables)
        assert one == other


@pytest.mark.parametrize(
    ("folder", "annotations"),
    [
        ("allowed-classes", [namespace_rules.ALLOWED_ANNOTATION]),
        (
            "required-class",
            [
                namespace_rules.ALLOWED_ANNOTATION,
                namespace_rules.REQUIRED_ANNOTATION,
                namespace_rules.DEFAULT_ANNOTATION,
            ],
        ),
        ("default-class", [namespace_rules.DEFAULT_ANNOTATION]),
        (
            "guard",
            [
                namespace_rules.ALLOWED_ANNOTATION,
                namespace_rules.REQUIRED_ANNOTATION,
                namespace_rules.DEFAULT_ANNOTATION,
            ],
        ),
    ],
)
def test_a_policy_reads_the_annotations_that_we_read(folder: str, annotations: list[str]) -> None:
    text = str(policy_of(folder)[0]["spec"]["variables"])
    assert all(f'"{each}"' in text for each in annotations)
