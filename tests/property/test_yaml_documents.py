"""YAML in one bounded pass: the same values as a loader that composes all of it."""

import math
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from extender.yaml_documents import (
    MAX_DEPTH,
    YamlError,
    yaml_documents,
)

NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12) | st.sampled_from(
    [
        "",
        "null",
        "~",
        "yes",
        "off",
        "1",
        "1e3",
        "0x1f",
        "0b11",
        "1_000",
        ".5",
        "=",
        "<",
        "-",
        "a: b",
    ]
)
WORDS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(
    WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def one(text: str) -> Any:
    (document,) = yaml_documents(text.encode())
    return document


@given(st.lists(VALUES, min_size=1, max_size=3), st.booleans())
def test_what_was_written_is_read(values: list[Any], flow: bool) -> None:
    text = yaml.safe_dump_all(values, default_flow_style=flow, allow_unicode=True)
    assert list(yaml_documents(text.encode())) == values


@given(VALUES, st.integers(1, 5))
def test_an_alias_stands_for_the_whole_of_what_it_names(value: Any, times: int) -> None:
    text = yaml.safe_dump({"first": value, "again": [value] * times})
    assert one(text) == {"first": value, "again": [value] * times}


@given(
    st.dictionaries(TEXTS, st.integers(0, 9), max_size=3),
    st.dictionaries(TEXTS, st.integers(0, 9), max_size=3),
    st.dictionaries(TEXTS, st.integers(0, 9), max_size=3),
)
def test_merged_keys_give_way_to_own_ones_and_to_those_merged_before(
    own: dict[str, int], first: dict[str, int], second: dict[str, int]
) -> None:
    def flow(value: object) -> str:
        return yaml.safe_dump(value, default_flow_style=True, width=math.inf).strip()

    entries = "".join(f"  {flow(key).removesuffix('...').strip()}: {n}\n" for key, n in own.items())
    text = f"a: &a {flow(first)}\nb: &b {flow(second)}\nc:\n  <<: [*a, *b]\n{entries}"
    assert one(text)["c"] == {**second, **first, **own}


@given(st.lists(st.dictionaries(TEXTS, VALUES, max_size=3), max_size=4), st.booleans())
def test_the_items_of_a_list_are_handed_out_as_json(items: list[Any], kind_first: bool) -> None:
    fields = {"kind": "List", "items": items} if kind_first else {"items": items, "kind": "List"}
    text = yaml.safe_dump(fields, sort_keys=False).encode()
    (document,) = yaml_documents(text, pack_items=True)
    assert isinstance(document, dict)
    assert all(type(each) is Raw for each in document["items"])
    assert [msgspec.json.decode(each) for each in document["items"]] == items


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("2026-11-20T07:36:45Z", "2026-11-20T07:36:45Z", id="a time"),
        pytest.param("1:30", "1:30", id="no number to the base of 60"),
        pytest.param("=", "=", id="an equals sign"),
        pytest.param("{1: a, true: b, 1.5: c}", {"1": "a", "true": "b", "1.5": "c"}, id="keys"),
        pytest.param("!!str 5", "5", id="a number that is text"),
        pytest.param("{a: 1, a: 2}", {"a": 2}, id="a key twice"),
        pytest.param(f"{2**70}", float(2**70), id="more than 64 bits"),
        pytest.param("[&a x, *a, &a y, *a]", ["x", "x", "y", "y"], id="an anchor twice"),
        pytest.param("9" * 5000, "9" * 5000, id="a number nobody can read"),
    ],
)
def test_words_are_read_as_kubernetes_reads_them(text: str, value: object) -> None:
    assert one(text) == value


def bomb(levels: int, leaf: str = "[x, x, x, x, x, x, x, x, x]") -> str:
    """Each level holds the one before nine times."""
    lines = [f"a0: &a0 {leaf}"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels + 1)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(bomb(30), "one object comes to more than", id="aliases of aliases"),
        pytest.param(
            f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 100)}]",
            "comes to more",
            id="long text",
        ),
        pytest.param("&a [*a]", "line 1, column 5: *a stands within &a", id="itself"),
        pytest.param("a: &a {b: [*a]}", "*a stands within &a itself", id="within itself"),
        pytest.param("[*none]", "there is no &none before *none", id="nothing"),
        pytest.param(
            "a0: &a0 [x]\n" + "\n".join(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 300)),
            f"more than {MAX_DEPTH} levels deep by aliases",
            id="depth by aliases",
        ),
        pytest.param("[" * 25_000, "nested more than", id="depth"),
        pytest.param("- " * 30_000 + "a", "nested more than", id="depth in dashes"),
        pytest.param("[" + "," * 1000, "invalid YAML", id="nothing but commas"),
        pytest.param("{[a]: b}", "a key is neither text", id="a list as a key"),
        pytest.param("{~: b}", "a key is neither text", id="null as a key"),
        pytest.param("<<: 5", "<< takes an object", id="a number is merged"),
        pytest.param("!!int x", "can't be read as int", id="no number"),
        pytest.param("!!bool x", "can't be read as bool", id="no boolean"),
        pytest.param("!!int ''", "can't be read as int", id="an empty number"),
        pytest.param("!!set {a}", "JSON has nothing like", id="a set"),
        pytest.param("!!python/object:os.system x", "JSON has nothing like", id="an object"),
        pytest.param("a: [", "line 2, column 1: invalid YAML", id="unfinished"),
        pytest.param("\x00", "invalid YAML: control characters", id="control character"),
    ],
)
def test_what_is_too_much_or_wrong_ends_in_one_line(text: str, said: str) -> None:
    with pytest.raises(YamlError) as caught:
        list(yaml_documents(text.encode(), pack_items=True))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "byte string" not in str(caught.value)


def test_bytes_that_are_no_text_are_told_by_their_place() -> None:
    with pytest.raises(YamlError, match=r"invalid YAML: .*at byte 6"):
        list(yaml_documents(b"kind: \xff"))


def test_aliases_of_a_whole_text_are_bounded_too() -> None:
    """Each item is on its own, and small; there are too many of them."""
    item = f"a: &a {{kind: Pod, spec: {'x' * 1_000_000}}}\n"
    text = item + "items: [" + ", ".join(["*a"] * 1000) + "]\nkind: List\n"
    with pytest.raises(YamlError, match="aliases stand for more than"):
        list(yaml_documents(text.encode(), pack_items=True))


def test_a_list_may_be_larger_than_any_object_in_it() -> None:
    """`kubectl get nodes -o yaml` prints kind behind items."""
    item = f"- kind: Node\n  text: {'x' * 100_000}\n"
    (document,) = yaml_documents(f"items:\n{item * 100}kind: List\n".encode(), pack_items=True)
    assert isinstance(document, dict)
    assert len(document["items"]) == 100
