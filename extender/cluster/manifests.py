"""Reads Nodes, RuntimeClasses, Pods and Namespaces from files and folders of YAML or JSON."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import yaml
from msgspec import Raw, Struct

from extender.decoding import (
    WORKLOAD_GROUPS,
    DecodeError,
    RawDaemonSet,
    RawNamespace,
    RawNode,
    RawPod,
    RawRuntimeClass,
    RawWorkload,
    convert,
    decode,
    explained_pod_of,
    node_of,
    runtime_class_of,
    strings,
    template_pod_of,
    with_daemon_tolerations,
)
from extender.objects import Node, Pod, RuntimeClass
from extender.validation import validate_node_name, validate_runtimeclass

_SUFFIXES: Final = (".yaml", ".yml", ".json")

#: Levels of lists and objects within each other; those of Kubernetes have 20 or so.
MAX_DEPTH: Final = 200

#: The kinds that are read, by the group of their apiVersion.
_GROUPS: Final = {"Namespace": "", "Node": "", "Pod": "", "RuntimeClass": "node.k8s.io"}


class ManifestError(ValueError):
    """A manifest can't be used; one line that names the file, the object and the cause."""


@dataclass(slots=True)
class Manifests:
    """What the files hold, by name; pods by NAMESPACE/NAME. Warnings are for a person to read.

    Of Namespaces only the annotations are kept: the webhook's default classes stand in them.
    templates: the pods that workloads make, by kind and the workload's NAMESPACE/NAME; where it is
    None, workloads are ignored as other kinds are.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    runtime_classes: dict[str, RuntimeClass] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    templates: dict[tuple[str, str], Pod] | None = None


class _Header(Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    items: list[Raw] | None = None


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """YAML as Kubernetes reads it: a time stays the string it is."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def manifest_files(paths: Iterable[str]) -> list[Path]:
    """The files meant by --manifests: a file itself, of a folder those that end like manifests.

    A mounted ConfigMap is a folder of links into ..data; names that begin with a dot are skipped.
    Raises ManifestError.
    """
    files: list[Path] = []
    for name in paths:
        if not name:
            raise ManifestError("--manifests: the path is empty")
        path = Path(name)
        try:
            if stat.S_ISDIR(path.stat().st_mode):
                names = sorted(os.listdir(path))
                files += [
                    path / name
                    for name in names
                    if not name.startswith(".") and name.endswith(_SUFFIXES)
                ]
            else:
                files.append(path)
        except OSError as error:
            raise ManifestError(f"{path}: {error.strerror}") from None
    return [file for file in files if not file.is_dir()]


Signature = tuple[tuple[str, int, int, int], ...]


def signature(paths: Iterable[str]) -> Signature:
    """What tells whether any of the files has changed. Raises ManifestError."""
    found = []
    for file in manifest_files(paths):
        try:
            status = file.stat()
        except OSError as error:
            raise ManifestError(f"{file}: {error.strerror}") from None
        found.append((str(file), status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)


def load_manifests(paths: Sequence[str], loaded: Manifests | None = None) -> Manifests:
    """Read all files, into `loaded` if given, which another thread may then look at meanwhile.

    Raises ManifestError for the first thing that is wrong.
    """
    loaded = Manifests() if loaded is None else loaded
    for file in manifest_files(paths):
        try:
            text = file.read_bytes()
        except OSError as error:
            raise ManifestError(f"{file}: {error.strerror}") from None
        read_manifest(text, str(file), loaded)
    found = (loaded.nodes, loaded.runtime_classes, loaded.pods, loaded.namespaces, loaded.templates)
    if not any(found):
        loaded.warnings.append(f"no Node, RuntimeClass or Pod in {', '.join(paths)}")
    return loaded


def read_manifest(text: bytes, name: str, loaded: Manifests) -> None:
    """Read one file's text; name is told in errors. Raises ManifestError."""
    try:
        for document in _documents(text):
            _take(document, "", loaded)
    except (ManifestError, DecodeError) as error:
        raise ManifestError(f"{name}: {error}") from None
    except RecursionError:
        raise ManifestError(f"{name}: nested too deeply") from None


Document = Raw | dict[str, object]


def _documents(text: bytes) -> Iterator[Document]:
    if text.lstrip()[:1] == b"{":
        # Nothing but JSON begins like this (YAML's flow style excepted), and a cluster of 65,000
        # nodes in JSON is read a hundred times faster than as YAML.
        try:
            msgspec.json.decode(text, type=_Header)
        except msgspec.ValidationError:
            pass
        except RecursionError:
            raise ManifestError("nested too deeply") from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            yield from _yaml_documents(text)
            return
        yield Raw(text)
        return
    yield from _yaml_documents(text)


def _check_depth(text: bytes) -> None:
    """libyaml's composer calls itself for each level: 25,000 of them end the process."""
    depth = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                mark = event.start_mark
                place = f"line {mark.line + 1}: " if mark else ""
                raise ManifestError(f"{place}nested more than {MAX_DEPTH} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _yaml_documents(text: bytes) -> Iterator[Document]:
    try:
        _check_depth(text)
        for number, document in enumerate(yaml.load_all(text, _Loader), 1):
            if document is None:
                continue
            if not isinstance(document, dict):
                kind = type(document).__name__
                raise ManifestError(f"document {number}: expected an object, got {kind}")
            yield document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ManifestError(f"{place}invalid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ManifestError(f"invalid YAML: {_one_line(error)}") from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _take(document: Document, default_kind: str, loaded: Manifests) -> None:
    """Read one document, or the items of a List."""
    if isinstance(document, Raw):
        header = decode(document, _Header)
        kind, version, items = header.kind, header.api_version, header.items
        elements: Iterable[Document] = items or ()
    else:
        kind, version = _text(document, "kind"), _text(document, "apiVersion")
        found = document.get("items")
        if kind and kind.endswith("List") and found is not None and not isinstance(found, list):
            raise ManifestError(f"items: expected a list, got {type(found).__name__}")
        items = found if isinstance(found, list) else None
        elements = [_element(each, index) for index, each in enumerate(items or ())]
    kind = kind or default_kind
    if kind.endswith("List") and items is not None:
        for element in elements:
            _take(element, kind.removesuffix("List"), loaded)
        return
    group, _, _ = (version or "").rpartition("/")
    if kind in _GROUPS and (version is None or group == _GROUPS[kind]):
        try:
            _TAKERS[kind](document, loaded)
        except DecodeError as error:
            raise ManifestError(f"{_named(kind, _name_of(document))}: {error}") from None
    elif loaded.templates is not None and WORKLOAD_GROUPS.get(kind) == group:
        try:
            _take_workload(document, kind, loaded, loaded.templates)
        except DecodeError as error:
            raise ManifestError(f"{_named(kind, _name_of(document))}: {error}") from None


def _name_of(document: Document) -> str:
    """The object's name for an error message, as far as it can be read."""
    plain = msgspec.json.decode(document) if isinstance(document, Raw) else document
    metadata = plain.get("metadata") if isinstance(plain, dict) else None
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _element(element: object, index: int) -> dict[str, object]:
    if not isinstance(element, dict):
        raise ManifestError(f"items[{index}]: expected an object, got {type(element).__name__}")
    return element


def _text(document: Mapping[str, object], key: str) -> str | None:
    value = document.get(key)
    if value is not None and not isinstance(value, str):
        raise ManifestError(f"{key}: expected a string, got {type(value).__name__}")
    return value


def _named(kind: str, name: str) -> str:
    return f'{kind} "{name}"'


def _take_node(document: Document, loaded: Manifests) -> None:
    raw = decode(document, RawNode) if isinstance(document, Raw) else convert(document, RawNode)
    node = node_of(raw)
    errors = validate_node_name(node.name)
    if errors:
        raise ManifestError(f"{_named('Node', node.name)}: {errors[0].text}")
    if node.name in loaded.nodes:
        loaded.warnings.append(_twice("Node", node.name))
    loaded.nodes[node.name] = node


def _twice(kind: str, name: str) -> str:
    return f"{_named(kind, name)} is there more than once; the last one counts"


def _take_runtime_class(document: Document, loaded: Manifests) -> None:
    plain = msgspec.json.decode(document) if isinstance(document, Raw) else document
    errors = validate_runtimeclass(plain)
    if errors:
        raise ManifestError(f"{_named('RuntimeClass', _name_of(document))}: {errors[0].text}")
    runtime_class = runtime_class_of(convert(plain, RawRuntimeClass))
    if runtime_class.name in loaded.runtime_classes:
        loaded.warnings.append(_twice("RuntimeClass", runtime_class.name))
    loaded.runtime_classes[runtime_class.name] = runtime_class


def _take_pod(document: Document, loaded: Manifests) -> None:
    raw = document if isinstance(document, Raw) else Raw(msgspec.json.encode(document))
    pod = explained_pod_of(decode(raw, RawPod, "Pod"), "Pod")
    key = f"{pod.namespace or 'default'}/{pod.name}"
    if key in loaded.pods:
        loaded.warnings.append(_twice("Pod", key))
    loaded.pods[key] = pod


def _take_workload(
    document: Document, kind: str, loaded: Manifests, templates: dict[tuple[str, str], Pod]
) -> None:
    raw = document if isinstance(document, Raw) else Raw(msgspec.json.encode(document))
    pod = template_pod_of(decode(raw, RawWorkload), kind)
    if kind == "DaemonSet":
        pod = with_daemon_tolerations(pod, decode(raw, RawDaemonSet))
    key = f"{pod.namespace or 'default'}/{pod.name}"
    if (kind, key) in templates:
        loaded.warnings.append(_twice(kind, key))
    templates[kind, key] = pod


def _take_namespace(document: Document, loaded: Manifests) -> None:
    """Read a Namespace; one that can't be read is left out, since few commands look at any."""
    try:
        raw = (
            decode(document, RawNamespace)
            if isinstance(document, Raw)
            else convert(document, RawNamespace)
        )
    except DecodeError as error:
        loaded.warnings.append(f"Namespace ignored: {error}")
        return
    if raw.metadata is not None:
        loaded.namespaces[raw.metadata.name or ""] = strings(raw.metadata.annotations)


_TAKERS: Final = {
    "Namespace": _take_namespace,
    "Node": _take_node,
    "Pod": _take_pod,
    "RuntimeClass": _take_runtime_class,
}
