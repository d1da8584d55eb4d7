"""Fields that look like a misspelt runtimeClassName: the pods would run without a sandbox."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.kubernetes.workloads import TEMPLATE_PATHS, Place, ignored_class
from tests.property import strategies as some

POD: Final[dict[str, Any]] = {
    "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}],
    "nodeSelector": {"runtimeClass": "gvisor"},
    "priorityClassName": "high",
}


def places(kind: str, plain: dict[str, Any]) -> list[Place]:
    return [place for finding, place in ignored_class(plain, kind) if finding.severity == "error"]


def made(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """An object of a kind whose pods have this spec."""
    made: dict[str, Any] = {"metadata": {"labels": {"runtimeClass": "gvisor"}}, "spec": spec}
    for step in reversed(TEMPLATE_PATHS[kind]):
        made = {step: made, "replicas": 1}
    return made


@pytest.mark.parametrize("kind", TEMPLATE_PATHS)
@pytest.mark.parametrize(
    "field",
    [
        *("RuntimeClassName", "runtime-class-name", "runtimeClasName", "runtimeClass"),
        *("runtimeClassNames", "runtimeClassname", "runtime_class", "runtimClassName"),
    ],
)
def test_a_near_miss_of_the_field_is_an_error_in_pods_and_templates(kind: str, field: str) -> None:
    where = (*TEMPLATE_PATHS[kind], "spec", field)
    assert places(kind, made(kind, {**POD, field: "gvisor"})) == [where]


@pytest.mark.parametrize("kind", TEMPLATE_PATHS)
def test_the_field_in_another_place_is_an_error_too(kind: str) -> None:
    plain = made(kind, POD) | {"runtimeClassName": "gvisor"}
    assert places(kind, plain) == [("runtimeClassName",)]
    (first, second) = POD["containers"]
    containers = [first, {**second, "runtimeClassName": "gvisor"}]
    found = places(kind, made(kind, {**POD, "containers": containers}))
    assert found == [(*TEMPLATE_PATHS[kind], "spec", "containers", 1, "runtimeClassName")]


@pytest.mark.parametrize("kind", TEMPLATE_PATHS)
def test_pods_that_name_a_class_get_it_whatever_stands_beside(kind: str) -> None:
    assert not places(kind, made(kind, {**POD, "runtimeClassName": "kata", "runtimeClass": "kata"}))
    assert not places(kind, made(kind, {**POD, "runtimeClass": None}))


@given(
    some.json_values(
        st.integers() | st.text(max_size=3), st.sampled_from(["spec", "containers", "runtimeClass"])
    )
)
def test_fields_of_any_type_are_looked_at(value: Any) -> None:
    places("Pod", {"spec": value})
