"""Manifests: files and folders, YAML and JSON, and what is wrong with them in one line."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.cluster.manifest_files import MAX_FILES, ManifestError, manifest_files
from extender.cluster.reading_manifests import load_manifests
from extender.input_files import MAX_FILE_BYTES

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
        pytest.param(
            "kind: Pod\nmetadata: {name: {{ .Release.Name }}}\n",
            "a template must be rendered first (helm template)",
            id="a template's value",
        ),
        pytest.param(
            "kind: Pod\n{{- if .Values.on }}\nspec: {}\n{{- end }}\n",
            "a template must be rendered first (helm template)",
            id="a template's block",
        ),
        pytest.param("kind: [", "line 2, column 1: invalid YAML", id="unfinished"),
        pytest.param("a: \x00", "invalid YAML", id="control character"),
        pytest.param("kind: 5\n", "kind: expected `str`", id="kind of a wrong type"),
        pytest.param(
            "kind: List\nitems: [5]\n", "items[0]: expected `object`", id="item of a wrong type"
        ),
        pytest.param(NODE % ("Under_score", "a"), 'Node "Under_score": ', id="name of a node"),
        pytest.param(NODE % ("a", "true"), 'Node "a": metadata.labels', id="boolean label"),
        pytest.param(
            CLASS.replace("handler: kata", "handler: Kata"),
            'RuntimeClass "kata": handler: Invalid value: "Kata"',
            id="handler of a class",
        ),
        pytest.param(
            f"{CLASS}overhead: {{podFixed: {{memory: 128 MB}}}}\n",
            'RuntimeClass "kata": overhead.podFixed[memory]: "128 MB" is no quantity, such as',
            id="amount of an overhead",
        ),
        pytest.param(
            f"{CLASS}overhead: {{podFixed: {{cpu: true}}}}\n",
            "overhead.podFixed[cpu]: true is no quantity, such as",
            id="boolean amount",
        ),
        pytest.param(
            f"{CLASS}overhead: {{podFixed: 5}}\n", "overhead.podFixed: Invalid type", id="amounts"
        ),
        pytest.param('{"kind": "Node", "metadata": {"name": 5}}', "metadata.name", id="JSON name"),
        pytest.param("{" * 5000, "nested more than 200 levels", id="nested deeply"),
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


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b'{"kind": "Node", "metadata": {"name": "a\xff"}}', id="a name"),
        pytest.param(b'{"kind": "RuntimeClass", "handler": "\xff"}', id="a handler"),
        pytest.param(b'{"kind": "\xff"}', id="a kind"),
        pytest.param(b'{"kind": "List", "items": [{"kind": "\xff"}]}', id="an item's kind"),
        pytest.param(b"kind: \xff", id="in YAML"),
    ],
)
def test_bytes_that_are_no_text_are_told_in_one_line(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(text)
    with pytest.raises(ManifestError) as caught:
        load_manifests([str(file)])
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", [json.dumps, yaml.safe_dump], ids=["JSON", "YAML"])
def test_lists_within_lists_come_to_an_end(tmp_path: Path, form: Callable[[Any], str]) -> None:
    document: dict[str, Any] = {"kind": "Node", "metadata": {"name": "a"}}
    file = tmp_path / "lists.yaml"
    for _ in range(8):
        document = {"kind": "List", "items": [document]}
    file.write_text(form(document))
    assert list(load_manifests([str(file)]).nodes) == ["a"]
    file.write_text(form({"kind": "List", "items": [document]}))
    with pytest.raises(ManifestError, match="more than 8 Lists within each other"):
        load_manifests([str(file)])


def test_lists_that_alias_lists_end_in_one_line(tmp_path: Path) -> None:
    lines = ["l0: &l0 {kind: List, items: []}"]
    lines += [
        f"l{n}: &l{n} {{kind: List, items: [{', '.join([f'*l{n - 1}'] * 9)}]}}"
        for n in range(1, 12)
    ]
    file = tmp_path / "lists.yaml"
    file.write_text("\n".join([*lines, "kind: List", "items: [*l11]", ""]))
    with pytest.raises(ManifestError, match="one object comes to more than"):
        load_manifests([str(file)])


def test_what_only_a_list_has_to_have_may_be_anything_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Menu\nitems: {soup: 1}\n---\n" + CLASS)
    (tmp_path / "b.json").write_text('{"kind": "Menu", "items": 5}')
    assert list(load_manifests([str(tmp_path)]).runtime_classes) == ["kata"]
    (tmp_path / "c.yaml").write_text("kind: MenuList\nitems: {soup: 1}\n")
    with pytest.raises(ManifestError, match="items: expected `array`"):
        load_manifests([str(tmp_path)])


def test_many_objects_with_one_name_are_one_warning(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("---\n".join([NODE % ("one", "a")] * 50))
    assert len(load_manifests([str(tmp_path)]).warnings) == 1


@pytest.mark.parametrize(
    ("path", "said"),
    [
        pytest.param("/dev/zero", "is a device", id="an endless device"),
        pytest.param("fifo.yaml", "is a pipe", id="a pipe that nobody writes"),
        pytest.param("link.yaml", "is a pipe", id="a link to one"),
        pytest.param("socket.yaml", "is a socket", id="a socket"),
        pytest.param("large.yaml", f"has more than {MAX_FILE_BYTES} bytes", id="a large file"),
        pytest.param("folder", "is a pipe", id="a pipe in a folder"),
        pytest.param("\0", "null", id="no path at all"),
    ],
)
def test_what_is_no_file_of_bounded_size_is_refused_at_once(
    tmp_path: Path, path: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo.yaml")
    os.symlink("fifo.yaml", "link.yaml")
    os.mkdir("folder")
    os.mkfifo("folder/fifo.yaml")
    with open("large.yaml", "wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.yaml")
        with pytest.raises(ManifestError, match=said):
            load_manifests([path])


def test_an_empty_path_is_not_the_current_folder() -> None:
    with pytest.raises(ManifestError, match="the path is empty"):
        load_manifests([""])


def test_that_nothing_was_found_is_a_warning(tmp_path: Path) -> None:
    (warning,) = load_manifests([str(tmp_path)]).warnings
    assert str(tmp_path) in warning


def test_more_files_than_objects_in_a_cluster_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CLASS)
    with pytest.raises(ManifestError, match=f"more than {MAX_FILES} files"):
        load_manifests([str(tmp_path / "a.yaml")] * (MAX_FILES + 1))
