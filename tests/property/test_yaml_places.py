"""Lines of findings: the line of a value is right, however the text is written."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from extender.cluster.file_objects import FileObject, GivenFile, read_objects
from extender.cluster.manifest_objects import FieldPath
from tests.cases_file import cases

KEYS = st.sampled_from(["a", "b", "spec", "x.example/y", "é😀", "1", "true", "- odd: #"])


TREES: st.SearchStrategy[Any] = st.recursive(
    st.none(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(KEYS, inside, max_size=3),
    max_leaves=10,
)
documents = st.dictionaries(KEYS, TREES, min_size=1, max_size=4)


def numbered(value: Any, prefix: str) -> Any:
    """The tree with a different word in each leaf."""
    count = 0

    def fill(each: Any) -> Any:
        nonlocal count
        if isinstance(each, dict):
            return {key: fill(inside) for key, inside in each.items()}
        if isinstance(each, list):
            return [fill(inside) for inside in each]
        count += 1
        return f"{prefix}-{count}-leaf"

    return fill(value)


def line_of(text: bytes, number: int, path: FieldPath) -> int:
    """The line of a value in a document of a file."""
    each = FileObject(number, (), "", "", Raw(b"{}"))
    return GivenFile("x", text, [each]).lines([(each, path)])[number, path]


def leaves(value: Any, path: FieldPath = ()) -> dict[str, FieldPath]:
    if isinstance(value, str):
        return {value: path}
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    return {
        leaf: where
        for step, inside in steps
        for leaf, where in leaves(inside, (*path, step)).items()
    }


@given(
    st.lists(st.tuples(documents, st.booleans(), st.integers(0, 4)), min_size=1, max_size=3),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_a_leaf_is_in_the_line_where_its_word_stands(
    written: list[tuple[Any, bool, int]], end: str, encoding: str
) -> None:
    """In block and flow style, with comments before documents, all line ends and encodings."""
    texts, trees = [], []
    for number, (document, flow, comments) in enumerate(written):
        tree = numbered(document, f"d{number}")
        trees.append(tree)
        text = yaml.safe_dump(tree, default_flow_style=flow, allow_unicode=True, width=40)
        texts.append("# a comment: [\n" * comments + text)
    whole = "---\n".join(texts).replace("\n", end)
    lines = whole.split(end)
    for number, tree in enumerate(trees):
        for word, path in leaves(tree).items():
            assert word in lines[line_of(whole.encode(encoding), number, path) - 1]


@given(documents)
def test_what_is_not_there_is_where_it_would_stand(document: Any) -> None:
    tree = numbered(document, "d")
    text = yaml.safe_dump(tree).encode()
    for path in leaves(tree).values():
        assert line_of(text, 0, (*path, "more", 3)) == line_of(text, 0, path)


ANCHORS = """\
# one
defaults: &defaults          # 2
  runtimeClassName: gvisor   # 3
  nodeSelector: {zone: a}    # 4
kind: Pod
spec:                        # 6
  <<: *defaults
  hostUsers: false           # 8
  nodeSelector:              # 9
    zone: b                  # 10
---
kind: Pod
spec: &spec                  # 13
  runtimeClassName: &class kata
copy: *spec                  # 15
containers:
- name: *class               # 17
- {
    "name": "x"              # 19
  }
---
a: &a {x: 1}                 # 22
b: &b {x: 2,
       y: 2}                 # 24
c:
  x: 3
  <<: [*a, *b]
  y: 4                       # 28
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@cases
def test_a_value_of_an_alias_or_a_merge_is_where_these_stand(
    document: int, path: FieldPath, line: int, end: str
) -> None:
    text = ANCHORS.replace("\n", end).encode()
    assert line_of(text, document, tuple(path)) == line


@given(st.integers(0, 5), st.integers(1, 6), st.booleans())
def test_an_element_of_a_list_has_its_own_line(wanted: int, count: int, as_json: bool) -> None:
    items = [
        {"kind": "Pod", "metadata": {"name": f"p{index}"}, "spec": {"runtimeClassName": "kata"}}
        for index in range(count)
    ]
    whole = {"apiVersion": "v1", "kind": "List", "items": items}
    text = json.dumps(whole, indent=1) if as_json else yaml.safe_dump(whole)
    file = read_objects("x", text.encode())
    assert [each.place for each in file.objects] == [("items", index) for index in range(count)]
    asked: list[FileObject] = file.objects[wanted : wanted + 1]
    lines = file.lines((each, ("metadata", "name")) for each in asked)
    for (_, path), line in lines.items():
        assert f"p{path[1]}" in text.splitlines()[line - 1]
