"""Fields of a YAML text are changed in place: it says what it should, and else stays as it was."""

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.cluster.reading_manifests import documents_of
from extender.cluster.yaml_editing import Edit, dumped, edited, flow
from extender.cluster.yaml_places import Path
from extender.decoding.decoder import decode
from extender.yaml_documents import yaml_documents

#: Words that some reader of YAML takes for something else than text.
WORDS = st.one_of(
    st.sampled_from(
        [
            *("true", "y", "No", "~", "", "=", "<<", ".5", "1e3", "0x1f", "0o7", "1_0", "1:30"),
            *(" a", "a: b", "#x", "-", "*a", "&a", "!x", "é", "2001-01-01"),
            *("kata", "x.example/y", "250m", "160Mi"),
        ]
    ),
    st.text(max_size=5).filter(lambda text: text.isprintable()),
)
#: As large as the API has them: a larger number is a float to every reader of JSON in Go.
SECONDS = st.integers(-(2**63), 2**63 - 1)
selectors = st.dictionaries(WORDS, WORDS, max_size=3)
toleration_lists = st.lists(
    st.fixed_dictionaries(
        {"key": WORDS, "operator": st.just("Exists")}, optional={"tolerationSeconds": SECONDS}
    ),
    max_size=3,
)
specs = st.fixed_dictionaries(
    {"containers": st.just([{"name": "c", "args": ["--x", "1"]}])},
    optional={
        "runtimeClassName": st.just("kata"),
        "nodeSelector": st.one_of(st.none(), selectors),
        "tolerations": st.one_of(st.none(), toleration_lists),
        "overhead": st.sampled_from([None, {}]),
    },
)


def documents_in(text: str) -> dict[int, Any]:
    found = documents_of(text.encode(), skip_others=True)
    return {number: decode(raw, dict) for number, raw in found}


def changed(text: str, changes: dict[int, dict[str, Any]], path: Path = ("spec",)) -> Any:
    """(the new text, documents written anew, what it should say)"""
    expected = documents_in(text)
    edits = []
    for number, fields in changes.items():
        parent = expected[number]
        for step in path[:-1]:
            parent = parent[step]
        before = parent[path[-1]]
        parent[path[-1]] = {**before, **fields}
        edits.append(Edit(number, path, before, parent[path[-1]]))
    new, anew = edited(text, edits, expected)
    return new, anew, expected


@settings(deadline=None)
@given(
    st.lists(st.tuples(specs, selectors, toleration_lists, st.booleans()), min_size=1, max_size=3),
    st.sampled_from([None, False, True]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_the_text_says_what_it_should_and_keeps_its_comments(
    written: list[tuple[Any, Any, Any, bool]], style: bool | None, end: str
) -> None:
    """In block and flow style, indented or not, with either end of lines."""
    texts, changes = [], {}
    for number, (spec, selector, tolerations, appended) in enumerate(written):
        text = yaml.safe_dump({"kind": "Pod", "spec": spec}, default_flow_style=style, width=10**6)
        texts.append(f"# comment {number}\n{text}")
        own = (spec.get("tolerations") or []) if appended or not tolerations else []
        changes[number] = {
            "overhead": {"cpu": "250m"},
            "nodeSelector": {**(spec.get("nodeSelector") or {}), **selector},
            "tolerations": [*own, *tolerations],
        }
    text = "---\n".join(texts).replace("\n", end)
    new, anew, expected = changed(text, changes)
    assert documents_in(new) == expected
    assert not anew
    for number in range(len(written)):
        assert f"# comment {number}{end}" in new
    assert new.count("\r\n") == (new.count("\n") if end == "\r\n" else 0)


@settings(deadline=None)
@given(
    st.recursive(
        WORDS,
        lambda inside: st.lists(inside, max_size=3) | st.dictionaries(WORDS, inside, max_size=3),
    )
)
def test_what_is_written_is_read_again(value: Any) -> None:
    for text in (dumped({"a": value}), dumped({"a": value}, indented=True), flow({"a": value})):
        assert list(yaml_documents(text.encode())) == [{"a": value}]


BEFORE = """\
# Deployed by hand.   ü
kind: Deployment   # a workload
spec:
  template:
    spec:
      # The class.
      runtimeClassName: kata   # Kata
      tolerations:   # own
        - key: x     # one
          operator: Exists

        # after it
      containers: [{name: c}]   # flow

---
# the next
kind: Service
"""
AFTER = """\
# Deployed by hand.   ü
kind: Deployment   # a workload
spec:
  template:
    spec:
      # The class.
      runtimeClassName: kata   # Kata
      overhead:
        cpu: 250m
      nodeSelector:
        a: "true"
      tolerations:   # own
        - key: x     # one
          operator: Exists
        - key: dedicated
          operator: Exists

        # after it
      containers: [{name: c}]   # flow

---
# the next
kind: Service
"""


def test_lines_are_added_where_a_person_would() -> None:
    fields = {
        "overhead": {"cpu": "250m"},
        "nodeSelector": {"a": "true"},
        "tolerations": [
            {"key": "x", "operator": "Exists"},
            {"key": "dedicated", "operator": "Exists"},
        ],
    }
    new, anew, _ = changed(BEFORE, {0: fields}, ("spec", "template", "spec"))
    assert (new, anew) == (AFTER, [])


def test_what_is_changed_within_is_written_anew_and_no_more() -> None:
    text = """\
spec:   # the pod's
  affinity:
    nodeAffinity:   # lost
      preferred: [1]
  tolerations: # kept
  - key: x   # lost, for one is dropped
  - key: y
  containers: []   # kept
"""
    fields = {"affinity": {"nodeAffinity": {"required": {"a": "1"}}}, "tolerations": [{"key": "y"}]}
    new, anew, expected = changed(text, {0: fields})
    assert documents_in(new) == expected
    assert not anew
    assert [line for line in new.splitlines() if "#" in line] == [
        "spec:   # the pod's",
        "  tolerations: # kept",
        "  containers: []   # kept",
    ]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x: &a {b: c}\nspec: *a\n", id="an alias"),
        pytest.param("x: *a\nspec: {}\n".replace("*a", "&a 1"), id="an anchor elsewhere"),
        pytest.param("d: &d {b: c}\nspec:\n  <<: *d\n  e: f\n", id="a merge"),
        pytest.param("spec: &s\n  b: c\ncopy: *s\n", id="an anchor that is used"),
        pytest.param("? spec\n: b: c\n", id="a key with a question mark"),
        pytest.param("spec: !!map\n  b: c\n", id="a tag"),
        pytest.param("spec:\n  b: c\nspec:\n  d: e\n", id="a key that stands twice"),
        pytest.param('{"spec":\n\t{"b": "c"}}\n', id="JSON with tabs"),
        pytest.param("spec:\n  runtimeClassName: |\n    kata\n  b: c\n", id="a block of text"),
        pytest.param("spec:\n  runtimeClassName: >-\n    kata\n\n\n# end\n", id="a folded text"),
        pytest.param("spec:\n  runtimeClassName:\n    kata\n", id="a word in its own line"),
        pytest.param("\ufeffspec: {b: c}", id="a byte order mark"),
        pytest.param("%YAML 1.1\n---\nspec: {b: c}\n...\n", id="a directive"),
        pytest.param("spec:\n  nodeSelector: &n\n    a: b\n  other: *n\n", id="a shared field"),
    ],
)
def test_odd_texts_say_what_they_should_too(text: str) -> None:
    fields = {"nodeSelector": {"a": "b", "c": "true"}, "overhead": {"cpu": "1"}}
    new, _, expected = changed(text, {0: fields})
    assert documents_in(new) == expected
