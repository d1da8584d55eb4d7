"""scheduler-config/policies says what extender/admission says; tests/e2e puts it into force."""

from typing import Final

import pytest

from extender.admission.defaults import EXEMPT_NAMESPACES
from extender.kubernetes import namespaces as namespace_rules
from tests.config.shipped import FOLDER, Json, documents

_POLICIES: Final = FOLDER / "policies"

#: folder → the name of its policy, as explain and check tell it.
_JUDGING: Final = {
    "allowed-classes": namespace_rules.ALLOWED_POLICY,
    "required-class": namespace_rules.REQUIRED_POLICY,
}
#: Policies that change pods come in any order: the mark is asked again after a class was given.
_REINVOKED: Final = {"default-class": "Never", "mark": "IfNeeded"}
_ALL: Final = sorted(each.name for each in _POLICIES.iterdir())


def policy_of(folder: str) -> tuple[Json, list[Json]]:
    """The policy of a folder and its bindings."""
    objects = documents(_POLICIES / folder / "policy.yaml")
    (policy,) = (each for each in objects if each["kind"].endswith("AdmissionPolicy"))
    return policy, [each for each in objects if each["kind"].endswith("PolicyBinding")]


@pytest.mark.parametrize("folder", _ALL)
def test_a_policy_fails_closed_and_each_binding_is_its_own(folder: str) -> None:
    policy, bindings = policy_of(folder)
    name = policy["metadata"]["name"]
    assert name == _JUDGING.get(folder, f"runtimeclass-extender-{folder}")
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert policy["spec"].get("reinvocationPolicy") == _REINVOKED.get(folder)
    assert bindings
    for each in bindings:
        assert each["kind"] == f"{policy['kind']}Binding"
        assert each["metadata"]["name"].startswith(name)
        assert each["spec"]["policyName"] == name


@pytest.mark.parametrize("folder", [*_JUDGING, "default-class"])
def test_the_cluster_s_own_namespaces_are_left_out_by_the_policy_itself(folder: str) -> None:
    """No binding does it: somebody may make another binding."""
    policy, bindings = policy_of(folder)
    (left_out,) = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert left_out["operator"] == "NotIn"
    assert frozenset(left_out["values"]) == EXEMPT_NAMESPACES
    resources = [each["spec"].get("matchResources", {}) for each in bindings]
    assert not any("namespaceSelector" in each for each in resources)
