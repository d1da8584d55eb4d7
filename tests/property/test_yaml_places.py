"""Lines of findings: a value's line is where it is written, however the text is written."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from extender.cluster.file_objects import FileObject, read_objects
from extender.cluster.yaml_places import Lines, Path, decoded, placed_documents

KEYS = st.sampled_from(["a", "b", "spec", "x.example/y", "é😀", "1", "true", "- odd: #"])


def trees(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaf,
        lambda inside: st.one_of(
            st.lists(inside, max_size=3), st.dictionaries(KEYS, inside, max_size=3)
        ),
        max_leaves=10,
    )


documents = st.dictionaries(KEYS, trees(st.none()), min_size=1, max_size=4)


def numbered(value: Any, prefix: str) -> Any:
    """The tree with a word of its own in each leaf."""
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


def leaves(value: Any, path: Path = ()) -> dict[str, Path]:
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
    """Block or flow style, comments of any number between documents, line ends and encodings."""
    texts, trees_ = [], []
    for number, (document, flow, comments) in enumerate(written):
        tree = numbered(document, f"d{number}")
        trees_.append(tree)
        text = yaml.safe_dump(tree, default_flow_style=flow, allow_unicode=True, width=40)
        texts.append("# a comment: [\n" * comments + text)
    whole = "---\n".join(texts).replace("\n", end)
    text = decoded(whole.encode(encoding))
    line_of = Lines(text)
    placed = dict(placed_documents(text, dict.fromkeys(range(len(trees_)))))
    assert placed.keys() == set(range(len(trees_)))
    lines = whole.split(end)
    for number, tree in enumerate(trees_):
        for word, path in leaves(tree).items():
            found = placed[number].at(path)
            assert found is not None
            assert word in lines[line_of(found.start) - 1]
            assert word in text[found.start : found.end]


@given(documents)
def test_what_is_not_there_is_where_it_would_stand(document: Any) -> None:
    tree = numbered(document, "d")
    text = yaml.safe_dump(tree)
    (_, root), *_ = placed_documents(text, {0: None})
    for path in leaves(tree).values():
        assert root.nearest((*path, "more", 3)) is root.at(path)
        assert root.at((*path, "more")) is None


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
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize(
    ("document", "path", "line"),
    [
        pytest.param(0, (), 2, id="a document begins with its first key"),
        pytest.param(0, ("spec",), 6, id="a key"),
        pytest.param(0, ("spec", "runtimeClassName"), 3, id="what is merged stands where it is"),
        pytest.param(0, ("spec", "hostUsers"), 8, id="beside what is merged"),
        pytest.param(0, ("spec", "nodeSelector", "zone"), 10, id="own before merged"),
        pytest.param(1, ("spec",), 13, id="with an anchor"),
        pytest.param(1, ("copy",), 15, id="an alias itself"),
        pytest.param(1, ("copy", "runtimeClassName"), 14, id="within an alias"),
        pytest.param(1, ("containers", 0, "name"), 17, id="a word by an alias"),
        pytest.param(1, ("containers", 1, "name"), 19, id="in brackets over lines"),
    ],
)
def test_anchors_and_merges_lead_to_the_text(
    document: int, path: Path, line: int, end: str
) -> None:
    text = ANCHORS.replace("\n", end)
    placed = dict(placed_documents(text, {0: None, 1: None}))
    assert Lines(text)(placed[document].nearest(path).begin) == line


def test_json_with_escapes_that_yaml_lacks_has_lines_too() -> None:
    text = '{\n "emoji": "\\ud83d\\ude00 \\/",\n\t"kind": "Pod"\n}'
    file = read_objects("x", text.encode())
    (each,) = file.objects
    assert file.lines([(each, ("kind",))]) == {(0, ("kind",)): 3}


@given(st.integers(0, 5), st.integers(1, 6), st.booleans())
def test_of_a_list_only_the_elements_asked_for_are_kept(
    wanted: int, count: int, as_json: bool
) -> None:
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
    (_, root), *_ = placed_documents(text, {0: {wanted}})
    for index in range(count):
        kept = root.at(("items", index, "kind"))
        assert (kept is not None) is (index == wanted)


def test_an_alias_bomb_is_refused_before_its_places_are_looked_for() -> None:
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    text = f"a0: &a0 [x, x]\n{levels}"
    (_, root), *_ = placed_documents(text, {0: None})
    assert root.at(("a11", 8, 8)) is not None
