"""Manifests: files and folders, YAML and JSON, and what is wrong with them in one line."""

import json
import os
import socket
import threading
from pathlib import Path

import pytest
import yaml

from extender.cluster.input_files import (
    MAX_FILE_BYTES,
    FileError,
    ManifestError,
    manifest_files,
    read_file,
)
from extender.cluster.manifest_objects import Manifests, Uses, load_manifests
from extender.cluster.reading_once import ManifestReader
from extender.model.objects import Pod, PodState
from tests.cases_file import cases, rows

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


def test_a_finished_pod_waits_for_nothing_but_can_be_found() -> None:
    done = Pod("ns", "p", state=PodState(is_finished=True))
    inventory = ManifestReader(Manifests(pods={"ns/p": done}))
    assert inventory.pending_pods() == {}
    assert inventory.find_pod("ns", "p") is done


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
    (tmp_path / "b.yaml").write_text("---\n".join([NODE % ("one", "b")] * 50))
    loaded = load_manifests([str(tmp_path)])
    assert loaded.nodes["one"].labels == {"pool": "b"}
    (warning,) = loaded.warnings
    assert 'Node "one"' in warning


def test_a_repeated_workload_or_namespace_is_told_of_once(tmp_path: Path) -> None:
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}}
    workload["spec"] = {"template": {"spec": {}}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    for name in ("a.yaml", "b.yaml", "c.yaml"):
        (tmp_path / name).write_text(yaml.safe_dump_all([workload, namespace]))
    wanted = Manifests(templates={}, uses=Uses(), subjects={})
    more = "is there more than once; the last one counts"
    told = [f'Deployment "default/w" {more}', f'Namespace "shop" {more}']
    assert load_manifests([str(tmp_path)], wanted).warnings == told


def test_other_kinds_and_other_groups_are_ignored(tmp_path: Path) -> None:
    other = "apiVersion: management.example.com/v3\nkind: Node\nmetadata: {name: x}\n"
    (tmp_path / "a.yaml").write_text("kind: ConfigMap\napiVersion: v1\n---\n" + other)
    loaded = load_manifests([str(tmp_path)])
    assert not loaded.nodes


def test_a_list_is_what_has_the_kind_and_the_items_of_one(tmp_path: Path) -> None:
    node = yaml.safe_load(NODE % ("one", "a"))
    objects = [
        {"kind": "AllowList", "apiVersion": "example.com/v1", "spec": {}},
        {"kind": "Order", "apiVersion": "example.com/v1", "items": [node]},
        {"kind": "List", "apiVersion": "v1", "items": [yaml.safe_load(NODE % ("two", "a"))]},
    ]
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all(objects))
    assert list(load_manifests([str(tmp_path)]).nodes) == ["two"]


def test_a_time_in_yaml_stays_the_string_it_is(tmp_path: Path) -> None:
    text = CLASS.replace("kata}", "kata, creationTimestamp: 2026-11-20T07:36:45Z}")
    (tmp_path / "a.yaml").write_text(text)
    loaded = load_manifests([str(tmp_path)])
    assert loaded.runtime_classes["kata"].creation_timestamp == "2026-11-20T07:36:45Z"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *rows("reading_manifests", "what_is_wrong_is_told_in_one_line"),
        # libyaml's composer would overflow the stack.
        *(
            pytest.param(each, "nested", id=f"nested as {each[:12]}")
            for each in ("{" * 5000, '{"x": ' + "[" * 50_000 + "]" * 50_000 + "}", "- " * 30_000)
        ),
        *(
            pytest.param(each, "", id=f"no text: {each!r}")
            for each in (
                b'{"kind": "Node", "metadata": {"name": "a\xff"}}',
                b'{"kind": "RuntimeClass", "handler": "\xff"}',
                b'{"kind": "\xff"}',
                b'{"kind": "List", "items": [{"kind": "\xff"}]}',
                b"kind: \xff",
            )
        ),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path: Path, text: str | bytes, said: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ManifestError) as caught:
        load_manifests([str(file)])
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    assert said in message
    assert "\n" not in message


def test_what_only_a_list_has_to_have_may_be_anything_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Menu\nitems: {soup: 1}\n---\n" + CLASS)
    (tmp_path / "b.json").write_text('{"kind": "Menu", "items": 5}')
    assert list(load_manifests([str(tmp_path)]).runtime_classes) == ["kata"]
    (tmp_path / "c.yaml").write_text("kind: MenuList\nitems: {soup: 1}\n")
    with pytest.raises(ManifestError, match="items: expected `array`"):
        load_manifests([str(tmp_path)])


@cases
def test_what_is_no_file_of_bounded_size_is_refused_at_once(
    path: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


# Files that a person named, and pipes


def test_a_pipe_is_read_to_its_end_where_one_may_stand(tmp_path: Path) -> None:
    """A shell's <(...) is a pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = b"x" * 300_000
    writer = threading.Thread(target=pipe.write_bytes, args=(text,))
    writer.start()
    assert read_file(pipe, pipes=True) == text
    writer.join()
    with pytest.raises(FileError, match="is a pipe, expected a file"):
        read_file(pipe)


def test_an_endless_pipe_is_read_up_to_its_limit() -> None:
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "wb") as writing:
        writing.write(b"x" * 1000)
        writing.flush()
        with pytest.raises(FileError, match="has more than 999 bytes"):
            read_file(f"/dev/fd/{ours}", 999, pipes=True)


def test_a_pipe_that_has_ended_without_a_byte_is_empty() -> None:
    ours, theirs = os.pipe()
    os.close(theirs)
    with os.fdopen(ours, "rb"):
        assert read_file(f"/dev/fd/{ours}", pipes=True) == b""
