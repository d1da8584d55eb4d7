"""YAML in one bounded pass: the same values as a loader that composes all of it."""

from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from extender.kubernetes.yaml_documents import YamlDumper, YamlError, yaml_documents, yaml_text
from tests.cases_file import rows

NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12) | st.sampled_from(
    [*("", "null", "~", "yes", "off", "1", "1e3", "0x1f", "0b11", "1_000", ".5", "=", "<"), "a: b"]
)
WORDS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(
    WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def flow(value: object) -> str:
    """A value in YAML's flow style, on one line."""
    text: str = yaml.dump(
        value, Dumper=YamlDumper, default_flow_style=True, sort_keys=False, width=2**31 - 1
    )
    return text.strip()


def one(text: str) -> Any:
    (document,) = yaml_documents(text.encode())
    return document


@given(st.lists(VALUES, min_size=1, max_size=3), st.booleans())
def test_what_was_written_is_read(values: list[Any], in_brackets: bool) -> None:
    text = "---\n".join(f"{flow(each) if in_brackets else yaml_text(each)}\n" for each in values)
    assert list(yaml_documents(text.encode())) == values


@given(VALUES, st.integers(1, 5))
def test_an_alias_stands_for_the_whole_of_what_it_names(value: Any, times: int) -> None:
    text = f"first: &a {flow([value])[1:-1]}\nagain: [{', '.join(['*a'] * times)}]\n"
    assert one(text) == {"first": value, "again": [value] * times}


@given(*[st.dictionaries(TEXTS, st.integers(0, 9), max_size=3)] * 4)
def test_a_merge_counts_where_it_stands_and_earlier_objects_of_its_list_over_later_ones(
    above: dict[str, int], first: dict[str, int], second: dict[str, int], below: dict[str, int]
) -> None:
    def entries(fields: dict[str, int]) -> str:
        return "".join(f", {flow({key: value})[1:-1]}" for key, value in fields.items())

    merge = f"x{entries(above)}, <<: [*a, *b]{entries(below)}"
    text = f"a: &a {flow(first)}\nb: &b {flow(second)}\nc: {{{merge}}}"
    assert one(text)["c"] == {"x": None, **above, **second, **first, **below}


@given(st.lists(st.dictionaries(TEXTS, VALUES, max_size=3), max_size=4), st.booleans())
def test_the_items_of_a_list_are_handed_out_as_json(items: list[Any], kind_first: bool) -> None:
    fields = {"kind": "List", "items": items} if kind_first else {"items": items, "kind": "List"}
    text = yaml_text(fields).encode()
    (document,) = yaml_documents(text, pack_items=True)
    assert isinstance(document, dict)
    assert all(type(each) is Raw for each in document["items"])
    assert [msgspec.json.decode(each) for each in document["items"]] == items


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("9" * 5000, "9" * 5000, id="digits"),
        pytest.param(f"0x{'f' * 5000}", f"0x{'f' * 5000}", id="hexadecimal digits"),
        pytest.param(f"{'0' * 5000}17", 15, id="zeros before an octal number"),
        pytest.param(f"1.{'0' * 5000}e1", 10, id="a long fraction"),
    ],
)
def test_a_long_number_is_read_as_any_other(text: str, value: object) -> None:
    assert one(text) == value


@given(st.integers(-999, 999), st.integers(0, 12))
def test_a_whole_number_is_an_integer_however_it_is_written(digits: int, exponent: int) -> None:
    """As Go writes it: `terminationGracePeriodSeconds: 3e1` is accepted."""
    value = one(f"{digits}.0e{exponent}")
    assert (type(value), value) == (int, digits * 10**exponent)


def bomb(levels: int, leaf: str = "[x, x, x, x, x, x, x, x, x]") -> str:
    """Each level holds the one before nine times."""
    lines = [f"a0: &a0 {leaf}"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels + 1)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *rows("yaml_documents", "what_is_too_much_or_wrong_ends_in_one_line"),
        pytest.param(bomb(30), "aliases stand for more than", id="aliases of aliases"),
        pytest.param(
            f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 100)}]",
            "aliases stand for more than",
            id="long text",
        ),
        pytest.param(
            "a0: &a0 [x]\n" + "\n".join(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 50_000)),
            "",
            id="depth by aliases",
        ),
        pytest.param("[" * 25_000, "nested too deeply", id="depth"),
        pytest.param("- " * 30_000 + "a", "nested too deeply", id="depth in dashes"),
        pytest.param("[" + "," * 1000, "invalid YAML", id="nothing but commas"),
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
    """Each item alone is small, but there are too many of them."""
    item = f"a: &a {{kind: Pod, spec: {'x' * 100_000}}}\n"
    text = item + "items: [" + ", ".join(["*a"] * 1000) + "]\nkind: List\n"
    with pytest.raises(YamlError, match="aliases stand for more than"):
        list(yaml_documents(text.encode(), pack_items=True))


def test_a_list_may_be_larger_than_any_object_in_it() -> None:
    """`kubectl get nodes -o yaml` prints kind behind items."""
    item = f"- kind: Node\n  text: {'x' * 100_000}\n"
    (document,) = yaml_documents(f"items:\n{item * 100}kind: List\n".encode(), pack_items=True)
    assert isinstance(document, dict)
    assert len(document["items"]) == 100
