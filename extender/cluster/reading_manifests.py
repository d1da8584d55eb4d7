"""Reads Nodes, RuntimeClasses, Pods and Namespaces from files and folders of YAML or JSON."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Raw

from extender.cluster.manifest_files import ManifestError, manifest_files
from extender.cluster.manifest_objects import Header, Manifests, take_document
from extender.decoding.decoder import DecodeError
from extender.input_files import FileError, read_file
from extender.yaml_documents import YamlError, yaml_documents


def load_manifests(
    paths: Sequence[str], loaded: Manifests | None = None, *, pipes: bool = False
) -> Manifests:
    """Read all files, into `loaded` if given, which another thread may then look at meanwhile.

    With pipes, a path may be a pipe, such as a shell's <(…). Raises ManifestError for the first
    thing that is wrong.
    """
    loaded = Manifests() if loaded is None else loaded
    named = {Path(path) for path in paths}
    for file in manifest_files(paths):
        try:
            text = read_file(file, pipes=pipes and file in named)
        except FileError as error:
            raise ManifestError(f"{file}: {error}") from None
        read_manifest(text, str(file), loaded)
    if loaded.is_empty:
        why = f": {loaded.misspelt.first}" if loaded.misspelt.first else ""
        loaded.warnings.append(f"no Node, RuntimeClass or Pod in {', '.join(paths)}{why}")
    return loaded


def read_manifest(text: bytes, name: str, loaded: Manifests) -> None:
    """Read one file's text; name is the file's in errors. Raises ManifestError."""
    try:
        for _, document in documents_of(text):
            take_document(document, loaded)
    except (ManifestError, DecodeError, YamlError) as error:
        raise ManifestError(f"{name}: {error}") from None
    except RecursionError:
        raise ManifestError(f"{name}: nested too deeply") from None


def documents_of(text: bytes, *, skip_others: bool = False) -> Iterator[tuple[int, Raw]]:
    """The documents of a text that are objects, by their numbers from 0.

    What is none is an error, or with skip_others left out. Raises ManifestError and YamlError.
    """
    if text.lstrip()[:1] == b"{":
        # Nothing but JSON begins like this (YAML's flow style excepted), and a cluster of 65,000
        # nodes in JSON is read a hundred times faster than as YAML.
        try:
            msgspec.json.decode(text, type=Header)
        except msgspec.ValidationError:
            pass
        except RecursionError:
            raise ManifestError("nested too deeply") from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            yield from _yaml_documents(text, skip_others)
            return
        yield 0, Raw(text)
        return
    yield from _yaml_documents(text, skip_others)


def _yaml_documents(text: bytes, skip_others: bool) -> Iterator[tuple[int, Raw]]:
    for number, document in enumerate(yaml_documents(text, pack_items=True)):
        if document is None:
            continue
        if isinstance(document, dict):
            yield number, Raw(msgspec.json.encode(document))
        elif not skip_others:
            kind = type(document).__name__
            raise ManifestError(f"document {number + 1}: expected an object, got {kind}")
