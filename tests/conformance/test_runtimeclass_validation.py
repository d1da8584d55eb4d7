"""RuntimeClasses against recorded answers of Kubernetes v1.36.2: which are refused, and where."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.kubernetes.decoder import DecodeError, decode
from extender.kubernetes.name_rules import node_name_fault
from extender.kubernetes.runtime_classes import RawRuntimeClass, runtimeclass_fault
from tests.cases_file import cases
from tests.vectors_file import vectors


def fault_of(obj: object) -> str:
    """Why a manifest with this RuntimeClass is refused; "" for one that is taken."""
    try:
        return runtimeclass_fault(decode(json.dumps(obj).encode(), RawRuntimeClass))
    except DecodeError as error:
        return str(error)


def place(text: str) -> str:
    """The field that an error begins with, without names in brackets."""
    field = re.split(r"\[|: ", text)[0]
    # kube-apiserver checks the overhead as if it were the limits of a container.
    return "overhead.podFixed" if field in ("overhead", "overhead.limits") else field


@pytest.mark.parametrize(
    "case",
    [case for case in vectors("runtimeclass_validation", "cases") if "old" not in case.values[0]],
)
def test_refuses_what_kubernetes_refuses_and_names_the_field(case: dict[str, Any]) -> None:
    fault = fault_of(case["object"])
    assert (fault == "") is case["valid"]
    assert "\n" not in fault
    if case.get("errors"):
        assert place(fault) in {place(each["text"]) for each in case["errors"]}


def of_tolerations(tolerations: object) -> str:
    """Why a RuntimeClass with these is refused."""
    return fault_of(runtimeclass(scheduling={"tolerations": tolerations}))


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in vectors("tolerations", "pod_toleration_validity")
        # A class has neither Lt and Gt, nor two tolerations alike as a pod may.
        if not case.values[0]["comparison_operators"]
        and not case.values[0]["name"].startswith("duplicates")
    ],
)
def test_refuses_what_kubernetes_refuses_and_names_the_toleration(case: dict[str, Any]) -> None:
    fault = of_tolerations(case["tolerations"])
    assert (fault == "") is case["valid"]
    if fault:
        (first, *_) = case["errors"]
        wanted = first["field"].replace("spec.", "scheduling.").partition("]")[0]
        assert fault.startswith(f"{wanted}]")


def test_tolerations_of_a_class_are_unique_but_for_their_seconds() -> None:
    one = {"key": "a", "operator": "Exists", "effect": "NoExecute"}
    assert not of_tolerations([one, {**one, "effect": "NoSchedule"}])
    assert of_tolerations([one, {**one, "tolerationSeconds": 5}]) == (
        "scheduling.tolerations[1]: is the same as an earlier one"
    )


def runtimeclass(**fields: object) -> dict[str, object]:
    return {"metadata": {"name": "foo"}, "handler": "bar", **fields}


@cases
def test_a_fault_is_one_line_with_field_and_cause(obj: dict[str, object], text: str) -> None:
    assert fault_of(obj) == text


def test_lengths_count_bytes_and_not_characters() -> None:
    def fault(value: str) -> str:
        return fault_of({"metadata": {"name": "n", "labels": {"a": value}}})

    assert fault("x" * 63) == "handler: is missing"
    assert fault("x" * 64).startswith("metadata.labels: ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("node-1.example.com", "", id="subdomain"),
        pytest.param("", "is missing", id="empty"),
        pytest.param("node\n", "is no DNS subdomain", id="trailing newline"),
        pytest.param("n" * 254, "is no DNS subdomain", id="254 bytes"),
    ],
)
def test_node_names_are_dns_subdomains(name: str, text: str) -> None:
    fault = node_name_fault(name)
    assert text in fault
    assert bool(fault) is bool(text)


TEXTS = st.text() | st.characters(categories=["Cs"])  # lone surrogates: JSON can hold them
QUANTITIES = TEXTS | st.from_regex(r"[+-]?[0-9]{0,25}(\.[0-9]{0,12})?[eEinumkKMGTP]{0,2}")
MAPS = st.dictionaries(TEXTS, TEXTS)


@given(
    st.fixed_dictionaries({"name": TEXTS, "labels": MAPS, "annotations": MAPS}),
    st.dictionaries(TEXTS | st.just("cpu"), QUANTITIES | st.integers() | st.floats()),
    MAPS,
    st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(("key", "operator"), TEXTS))),
)
def test_any_json_is_answered(metadata: Any, amounts: Any, selector: Any, tolerations: Any) -> None:
    """Law: whatever the JSON, validation raises nothing and answers in one line."""
    scheduling = {"nodeSelector": selector, "tolerations": tolerations}
    fields = {"overhead": {"podFixed": amounts}, "scheduling": scheduling}
    assert "\n" not in fault_of({"metadata": metadata, "handler": "h", **fields})
