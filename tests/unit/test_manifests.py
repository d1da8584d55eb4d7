"""Manifests: files and folders, YAML and JSON, and what is wrong with them in one line."""

import json
from pathlib import Path

import pytest

from extender.cluster.manifests import ManifestError, load_manifests, manifest_files

NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {pool: %s}}\n"
CLASS = "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: kata}\nhandler: kata\n"


def test_documents_and_lists_are_read_from_yaml_and_json(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NODE % ("one", "a") + "---\n" + CLASS + "---\n")
    items = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "two"}}]
    (tmp_path / "b.json").write_text(json.dumps({"kind": "List", "items": items}))
    bare = [{"metadata": {"name": "three"}}]
    (tmp_path / "c.yml").write_text(json.dumps({"kind": "NodeList", "items": bare}))
    (tmp_path / "notes.txt").write_text("not a manifest: [")
    loaded = load_manifests([str(tmp_path)])
    assert list(loaded.nodes) == ["one", "two", "three"]
    assert loaded.nodes["one"].labels == {"pool": "a"}
    assert list(loaded.runtime_classes) == ["kata"]
    assert loaded.warnings == []


def test_a_mounted_config_map_is_read_once_through_its_links(tmp_path: Path) -> None:
    version = tmp_path / "..2026_11_20"
    version.mkdir()
    (version / "nodes.yaml").write_text(NODE % ("one", "a"))
    (tmp_path / "..data").symlink_to(version.name)
    (tmp_path / "nodes.yaml").symlink_to("..data/nodes.yaml")
    assert manifest_files([str(tmp_path)]) == [tmp_path / "nodes.yaml"]
    loaded = load_manifests([str(tmp_path)])
    assert list(loaded.nodes) == ["one"]
    assert loaded.warnings == []


def test_of_two_objects_with_one_name_the_last_counts_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NODE % ("one", "a"))
    (tmp_path / "b.yaml").write_text(NODE % ("one", "b"))
    loaded = load_manifests([str(tmp_path)])
    assert loaded.nodes["one"].labels == {"pool": "b"}
    (warning,) = loaded.warnings
    assert 'Node "one"' in warning


def test_other_kinds_and_other_groups_are_ignored(tmp_path: Path) -> None:
    other = "apiVersion: management.example.com/v3\nkind: Node\nmetadata: {name: x}\n"
    (tmp_path / "a.yaml").write_text("kind: ConfigMap\napiVersion: v1\n---\n" + other)
    loaded = load_manifests([str(tmp_path)])
    assert not loaded.nodes


def test_a_time_in_yaml_stays_the_string_it_is(tmp_path: Path) -> None:
    text = CLASS.replace("kata}", "kata, creationTimestamp: 2026-11-20T07:36:45Z}")
    (tmp_path / "a.yaml").write_text(text)
    loaded = load_manifests([str(tmp_path)])
    assert loaded.runtime_classes["kata"].creation_timestamp == "2026-11-20T07:36:45Z"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("- a\n- b\n", "expected an object, got list", id="a list of words"),
        pytest.param("kind: [", "line 2, column 1: invalid YAML", id="unfinished"),
        pytest.param("a: \x00", "invalid YAML", id="control character"),
        pytest.param("kind: 5\n", "kind: expected a string", id="kind of a wrong type"),
        pytest.param(
            "kind: List\nitems: [5]\n", "items[0]: expected an object", id="item of a wrong type"
        ),
        pytest.param(NODE % ("Under_score", "a"), 'Node "Under_score": ', id="name of a node"),
        pytest.param(NODE % ("a", "true"), 'Node "a": metadata.labels', id="boolean label"),
        pytest.param(
            CLASS.replace("handler: kata", "handler: Kata"),
            'RuntimeClass "kata": handler: Invalid value: "Kata"',
            id="handler of a class",
        ),
        pytest.param('{"kind": "Node", "metadata": {"name": 5}}', "metadata.name", id="JSON name"),
        pytest.param("{" * 5000, "invalid YAML", id="nested deeply"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(ManifestError) as caught:
        load_manifests([str(file)])
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    assert said in message
    assert "\n" not in message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"none\.yaml: No such file or directory"):
        load_manifests([str(tmp_path / "none.yaml")])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 25_000 + "]" * 25_000, id="YAML in brackets"),
        pytest.param("- " * 30_000 + "a", id="YAML in dashes"),
        pytest.param('{"kind": "Node", "x": ' + "[" * 50_000 + "]" * 50_000 + "}", id="JSON"),
    ],
)
def test_what_is_nested_deeply_is_refused_and_ends_no_process(tmp_path: Path, text: str) -> None:
    """libyaml's composer would use up the stack."""
    file = tmp_path / "deep.yaml"
    file.write_text(text)
    with pytest.raises(ManifestError, match="nested"):
        load_manifests([str(file)])


def test_an_empty_path_is_not_the_current_folder() -> None:
    with pytest.raises(ManifestError, match="the path is empty"):
        load_manifests([""])


def test_that_nothing_was_found_is_a_warning(tmp_path: Path) -> None:
    (warning,) = load_manifests([str(tmp_path)]).warnings
    assert str(tmp_path) in warning
