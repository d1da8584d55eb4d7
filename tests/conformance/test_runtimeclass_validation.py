"""validate_runtimeclass against recorded answers of Kubernetes v1.36.2."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from extender.validation.field_errors import FieldError
from extender.validation.name_rules import validate_node_name
from extender.validation.runtimeclass_rules import validate_runtimeclass

VECTORS = Path(__file__).parents[1] / "vectors" / "runtimeclass_validation.json"
CASES: list[dict[str, Any]] = json.loads(VECTORS.read_text(encoding="utf-8"))["cases"]


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=f"{case['id']} {case['name']}") for case in CASES if "old" not in case],
)
def test_answers_as_kubernetes_does(case: dict[str, Any]) -> None:
    errors = validate_runtimeclass(case["object"])
    assert (errors == []) is case["valid"]
    if "decode_error" in case:
        (error,) = errors
        assert error.type == "FieldValueTypeInvalid"
        assert error.text == f"{error.field}: {case['decode_error']}"
    else:
        assert errors == [FieldError(**expected) for expected in case["errors"]]


def runtimeclass(**fields: object) -> dict[str, object]:
    return {"metadata": {"name": "foo"}, "handler": "bar", **fields}


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        pytest.param(
            runtimeclass(handler=5),
            "handler: Invalid type: expected string, got integer (quote it in YAML)",
            id="handler is a number",
        ),
        pytest.param(
            runtimeclass(scheduling={"nodeSelector": {"a": True}}),
            "scheduling.nodeSelector[a]: Invalid type: expected string, got boolean "
            "(quote it in YAML)",
            id="nodeSelector value is a boolean",
        ),
        pytest.param(
            runtimeclass(scheduling={"nodeSelector": ["a"]}),
            "scheduling.nodeSelector: Invalid type: expected object, got list",
            id="nodeSelector is a list",
        ),
        pytest.param(
            runtimeclass(scheduling={"tolerations": {"key": "a"}}),
            "scheduling.tolerations: Invalid type: expected list, got object",
            id="tolerations are an object",
        ),
        pytest.param(
            runtimeclass(scheduling={"tolerations": ["a"]}),
            "scheduling.tolerations[0]: Invalid type: expected object, got string",
            id="a toleration is a string",
        ),
        pytest.param(
            runtimeclass(scheduling={"tolerations": [{"tolerationSeconds": "5"}]}),
            "scheduling.tolerations[0].tolerationSeconds: Invalid type: "
            "expected integer, got string",
            id="tolerationSeconds is a string",
        ),
        pytest.param(
            runtimeclass(scheduling={"tolerations": [{"tolerationSeconds": True}]}),
            "scheduling.tolerations[0].tolerationSeconds: Invalid type: "
            "expected integer, got boolean",
            id="tolerationSeconds is a boolean, which Python takes for an int",
        ),
        pytest.param(
            runtimeclass(scheduling={"tolerations": [{"tolerationSeconds": 2**63}]}),
            "scheduling.tolerations[0].tolerationSeconds: Invalid value: "
            "integer out of the range of int64",
            id="tolerationSeconds beyond int64",
        ),
        pytest.param(
            runtimeclass(overhead={"podFixed": {"cpu": True}}),
            "overhead.podFixed[cpu]: quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="quantity is a boolean",
        ),
        pytest.param(
            {"metadata": {"name": "foo", "creationTimestamp": "yesterday"}, "handler": "bar"},
            "metadata.creationTimestamp: Invalid value: not a time as RFC 3339 writes it",
            id="creationTimestamp is no time",
        ),
    ],
)
def test_what_does_not_decode_is_one_error_with_field_and_cause(
    obj: dict[str, object], text: str
) -> None:
    (error,) = validate_runtimeclass(obj)
    assert error.text == text
    assert error.type == "FieldValueTypeInvalid"


@pytest.mark.parametrize(
    ("obj", "texts"),
    [
        pytest.param(
            {"metadata": None, "handler": None},
            [
                "metadata.name: Required value: name or generateName is required",
                "handler: Required value",
            ],
            id="null is the zero value",
        ),
        pytest.param(runtimeclass(overhead=None, scheduling=None), [], id="null for no struct"),
        pytest.param(
            runtimeclass(
                overhead={"podFixed": {"cpu": 1, "memory": 0.5, "ephemeral-storage": " 1 "}}
            ),
            [],
            id="numbers and padded text are quantities",
        ),
        pytest.param(
            runtimeclass(overhead={"podFixed": {"hugepages-2Mi": "4Mi"}}),
            ["overhead: Forbidden: HugePages require cpu or memory"],
            id="huge pages without cpu or memory",
        ),
        pytest.param(
            runtimeclass(overhead={"podFixed": {"example.com/gpu": "0.5"}}),
            ['overhead.limits[example.com/gpu]: Invalid value: "500m": must be an integer'],
            id="half an extended resource",
        ),
        pytest.param(
            runtimeclass(overhead={"podFixed": {"requests.example.com/gpu": "1"}}),
            [
                "overhead.limits[requests.example.com/gpu]: Invalid value: "
                '"requests.example.com/gpu": doesn\'t follow extended resource name standard'
            ],
            id="extended resource with a quota prefix",
        ),
        pytest.param(
            runtimeclass(overhead={"podFixed": {"cpu": "-1000m"}}),
            ['overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
            id="quantities are shown in canonical form",
        ),
        pytest.param(
            runtimeclass(overhead={"podFixed": {"cpu": "1", "hugepages-1e30": "1"}}),
            [
                "overhead.limits[hugepages-1e30]: Invalid value: "
                '"1": 1 is not positive integer multiple of hugepages-1e30'
            ],
            id="page size beyond int64, where Go divides by zero",
        ),
        pytest.param(
            runtimeclass(scheduling={"tolerations": [{"key": "a", "operator": "<&"}]}),
            [
                'scheduling.tolerations[0].operator: Unsupported value: "\\u003c\\u0026": '
                'supported values: "Equal", "Exists"'
            ],
            id="an operator is shown as Go writes JSON",
        ),
        pytest.param(
            {"metadata": {"name": "foo", "annotations": {"a": "x" * 2**18}}, "handler": "bar"},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
            id="annotations of 256 KiB and one byte",
        ),
        pytest.param(
            {"metadata": {"name": "foo", "annotations": {"A.B/C": "x y"}}, "handler": "bar"},
            [],
            id="annotation keys in upper case",
        ),
        pytest.param(
            {"metadata": {"name": "foo", "namespace": "x"}, "handler": "bar"},
            ["metadata.namespace: Forbidden: not allowed on this type"],
            id="namespace",
        ),
    ],
)
def test_rules_beside_the_vectors(obj: dict[str, object], texts: list[str]) -> None:
    # outcomes recorded on v1.36.2, but for the division by zero
    assert [error.text for error in validate_runtimeclass(obj)] == texts


def test_lengths_count_bytes_and_not_characters() -> None:
    (too_long, _) = validate_runtimeclass(
        runtimeclass(scheduling={"nodeSelector": {"a": "é" * 32}})
    )
    assert too_long.text.endswith("must be no more than 63 bytes")


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        pytest.param("node-1.example.com", [], id="subdomain"),
        pytest.param("", ["FieldValueRequired"], id="empty"),
        pytest.param("node\n", ["FieldValueInvalid"], id="trailing newline"),
        pytest.param("n" * 254, ["FieldValueInvalid"], id="254 bytes"),
        pytest.param(5, ["FieldValueTypeInvalid"], id="number"),
    ],
)
def test_node_names_are_dns_subdomains(name: object, kinds: list[str]) -> None:
    assert [error.type for error in validate_node_name(name)] == kinds


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.characters(categories=["Cs"])  # lone surrogates: JSON can hold them
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)
QUANTITIES = SCALARS | st.from_regex(r"[+-]?[0-9]{0,25}(\.[0-9]{0,12})?[eEinumkKMGTP]{0,2}")


def some_fields(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with any of the fields, each as described or of any other type."""
    return st.fixed_dictionaries({}, optional={name: form | JSON for name, form in fields.items()})


RUNTIMECLASSES = some_fields(
    metadata=some_fields(
        name=st.text(),
        generation=st.integers(),
        labels=st.dictionaries(st.text(), st.text()),
        annotations=st.dictionaries(st.text(), st.text()),
        finalizers=st.lists(st.text()),
        creationTimestamp=st.datetimes().map(lambda moment: f"{moment.isoformat()}Z"),
        ownerReferences=st.lists(some_fields(apiVersion=st.text(), controller=st.booleans())),
        managedFields=st.lists(some_fields(manager=st.text())),
    ),
    handler=st.text(),
    overhead=some_fields(podFixed=st.dictionaries(st.text() | st.just("cpu"), QUANTITIES)),
    scheduling=some_fields(
        nodeSelector=st.dictionaries(st.text(), st.text()),
        tolerations=st.lists(
            some_fields(key=st.text(), operator=st.text(), tolerationSeconds=st.integers())
        ),
    ),
)


@settings(max_examples=300, deadline=None)
@given(obj=RUNTIMECLASSES | JSON)
@example(obj={"metadata": {"creationTimestamp": "0001-01-01T00:00:00+23:59"}})
@example(obj={"overhead": {"podFixed": {"cpu": 10**5000}}})
def test_any_json_is_answered(obj: Any) -> None:
    """Law: whatever the JSON, validation raises nothing; each error begins with its field."""
    assert all(error.text.startswith(error.field) for error in validate_runtimeclass(obj))


@settings(max_examples=200, deadline=None)
@given(obj=RUNTIMECLASSES)
def test_an_object_that_does_not_decode_has_one_error(obj: dict[str, object]) -> None:
    """Law: FieldValueTypeInvalid comes alone."""
    kinds = [error.type for error in validate_runtimeclass(obj)]
    assert "FieldValueTypeInvalid" not in kinds or len(kinds) == 1
