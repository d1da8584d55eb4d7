"""Reads the objects of manifests: Nodes, RuntimeClasses, Pods, Namespaces and workloads."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from extender.cluster.input_files import FileError, ManifestError, manifest_files, read_file
from extender.kubernetes.decoder import NULL, DecodeError, decode, in_a_file, nullable
from extender.kubernetes.explained_pods import explained_pod
from extender.kubernetes.kinds import NAMESPACES, NODE_TEMPLATES, NODES, PODS, RUNTIME_CLASSES
from extender.kubernetes.name_rules import node_name_fault
from extender.kubernetes.nodes import NodeReader, is_ready
from extender.kubernetes.pods import RawPod, placed_pod_of
from extender.kubernetes.resources import allocatable_of
from extender.kubernetes.runtime_classes import (
    RawNamespace,
    RawRuntimeClass,
    namespace_of,
    runtime_class_of,
    runtimeclass_fault,
)
from extender.kubernetes.workloads import (
    POD_TEMPLATE,
    has_template,
    ignored_class,
    template_pod_of,
    workload_of,
)
from extender.kubernetes.yaml_documents import YamlError, yaml_documents
from extender.model.errors import BadRequestError
from extender.model.objects import Namespace, Node, Pod, RuntimeClass
from extender.model.using_objects import PlacedPod, Workload

K = TypeVar("K")
T = TypeVar("T")

#: Keys of objects and indices of lists, from the document down.
FieldPath = tuple[str | int, ...]

#: The kinds that are read, each with the group of its apiVersion.
_NODE_TEMPLATES: Final = frozenset((each.name, each.group) for each in NODE_TEMPLATES)
_GROUPS: Final = {each.name: each.group for each in (NAMESPACES, NODES, PODS, RUNTIME_CLASSES)}


@dataclass(slots=True)
class Uses:
    """The users of RuntimeClasses in the files: pods by NAMESPACE/NAME, and workloads.

    not_ready: nodes that are not Ready. node_templates: objects of NODE_TEMPLATES, with their kind.
    """

    pods: dict[str, PlacedPod] = field(default_factory=dict)
    workloads: dict[tuple[str, str], Workload] = field(default_factory=dict)
    not_ready: set[str] = field(default_factory=set)
    node_templates: list[tuple[str, Raw]] = field(default_factory=list)


@dataclass(slots=True)
class Manifests:
    """The objects of the files by name, pods by NAMESPACE/NAME, and warnings for the user.

    templates: the pods that workloads make. subjects: pods and workloads as JSON. Both are by kind
    and NAMESPACE/NAME. templates, subjects and uses are None if they are not wanted. generated: how
    many objects of a kind have only this generateName.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    runtime_classes: dict[str, RuntimeClass] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    templates: dict[tuple[str, str], Pod] | None = None
    uses: Uses | None = None
    subjects: dict[tuple[str, str], Raw] | None = None
    generated: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def is_empty(self) -> bool:
        found = self.nodes, self.runtime_classes, self.pods, self.namespaces
        others = self.templates, self.subjects, self.uses and self.uses.workloads
        return not any((*found, *others))

    def put(self, into: dict[K, T], key: K, value: T, named: str) -> None:
        """Add an object, and warn if its name is there already."""
        if key in into:
            self.warnings.append(f"{named} is there more than once; the last one counts")
        into[key] = value


class _Metadata(Struct, rename="camel"):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None


class _Named(Struct):
    metadata: _Metadata | None = None


class Header(Struct, rename="camel"):
    """The kind of an object, and its items, which may be anything unless it is a List."""

    api_version: str | None = None
    kind: str | None = None
    items: Raw = NULL

    @property
    def group(self) -> str:
        return (self.api_version or "").rpartition("/")[0]


def take_document(document: Raw, loaded: Manifests) -> None:
    """Read one object or List into `loaded`. Raises ManifestError and DecodeError."""
    for _, header, each in objects_in(document):
        kind = header.kind or ""
        try:
            if kind in _GROUPS and (header.api_version is None or header.group == _GROUPS[kind]):
                _TAKERS[kind](each, loaded=loaded)
            elif loaded.uses and (kind, header.group) in _NODE_TEMPLATES:
                loaded.uses.node_templates.append((kind, each))
            elif has_template(kind, header.group):
                _take_subject(each, kind, loaded)
        except DecodeError as error:
            raise ManifestError(f"{_named(kind, _name_of(each))}: {in_a_file(error)}") from None


def objects_in(
    document: Raw, default_kind: str = "", place: FieldPath = ()
) -> Iterator[tuple[FieldPath, Header, Raw]]:
    """The objects of a document or List, with places. Raises ManifestError and DecodeError."""
    header = decode(document, Header)
    header.kind = kind = header.kind or default_kind
    items = nullable(header.items, list[Raw], "items") if kind.endswith("List") else None
    if items is None:
        yield place, header, document
        return
    for index, element in enumerate(items):
        try:
            yield from objects_in(element, kind.removesuffix("List"), (*place, "items", index))
        except DecodeError as error:
            raise ManifestError(f"items[{index}]: {str(error).removeprefix('body: ')}") from None


def _name_of(document: Raw) -> str:
    """The object's name for an error message; "" if it can't be read."""
    try:
        metadata = decode(document, _Named).metadata
    except DecodeError:
        return ""
    return metadata.name or "" if metadata is not None else ""


def _named(kind: str, name: str) -> str:
    return f'{kind} "{name}"'


def _take_node(document: Raw, loaded: Manifests) -> None:
    node = NodeReader().read(document)
    if node.allocatable:
        allocatable_of(node.allocatable)  # raises DecodeError if it is malformed
    fault = node_name_fault(node.name)
    if fault:
        raise ManifestError(f"{_named('Node', node.name)}: {fault}")
    loaded.put(loaded.nodes, node.name, node, _named("Node", node.name))
    if loaded.uses is not None:
        loaded.uses.not_ready.discard(node.name)
        if not is_ready(node):
            loaded.uses.not_ready.add(node.name)


def _take_runtime_class(document: Raw, loaded: Manifests) -> None:
    raw = decode(document, RawRuntimeClass)
    fault = runtimeclass_fault(raw)
    if fault:
        raise ManifestError(f"{_named('RuntimeClass', _name_of(document))}: {fault}")
    runtime_class = runtime_class_of(raw)
    name = runtime_class.name
    loaded.put(loaded.runtime_classes, name, runtime_class, _named("RuntimeClass", name))


def _keyed(document: Raw, kind: str, loaded: Manifests) -> tuple[str, Raw]:
    """The key of a pod or workload, and the object, named by its generateName if it has no name.

    Each object without a name has a key of its own: kubectl create makes them all.
    """
    found = decode(document, _Named).metadata or _Metadata()
    key = f"{found.namespace or 'default'}/{found.name or found.generate_name or ''}"
    if found.name:
        return key, document
    loaded.generated[kind, key] += 1
    number = loaded.generated[kind, key]
    fields = decode(document, dict[str, Raw])
    metadata = nullable(fields.get("metadata", NULL), dict[str, Raw]) or {}
    named = {**metadata, "name": found.generate_name}
    fields["metadata"] = Raw(msgspec.json.encode(named))
    return f"{key}#{number}" if number > 1 else key, Raw(msgspec.json.encode(fields))


def _take_subject(document: Raw, kind: str, loaded: Manifests) -> None:
    """Read a pod, or a workload into templates, uses and subjects, if they are wanted."""
    if kind != PODS.name and (loaded.templates, loaded.uses, loaded.subjects) == (None,) * 3:
        return
    name, document = _keyed(document, kind, loaded)
    key, uses, named = (kind, name), loaded.uses, _named(kind, name)
    if kind == PODS.name:
        loaded.put(loaded.pods, name, explained_pod(document), named)
    elif loaded.templates is not None:
        loaded.put(loaded.templates, key, template_pod_of(document, kind), named)
    if loaded.templates is not None:
        for finding, _ in ignored_class(decode(document, dict), kind):
            loaded.warnings.append(f"{named}: {finding.what}")
    if uses is not None and kind == PODS.name:
        uses.pods[name] = placed_pod_of(decode(document, RawPod, "Pod"))
    elif uses is not None and kind != POD_TEMPLATE.name:
        loaded.put(uses.workloads, key, workload_of(document, kind), named)
    if loaded.subjects is not None:
        loaded.put(loaded.subjects, key, document, named)


def _take_namespace(document: Raw, loaded: Manifests) -> None:
    """Read a Namespace. A malformed one is left out with a warning: few commands need any."""
    try:
        name, namespace = namespace_of(decode(document, RawNamespace))
    except DecodeError as error:
        loaded.warnings.append(f"Namespace ignored: {error}")
        return
    if name:
        loaded.put(loaded.namespaces, name, namespace, _named("Namespace", name))


_TAKERS: Final[Mapping[str, Callable[..., None]]] = {
    "Namespace": _take_namespace,
    "Node": _take_node,
    "Pod": partial(_take_subject, kind=PODS.name),
    "RuntimeClass": _take_runtime_class,
}


def load_manifests(
    paths: Sequence[str],
    loaded: Manifests | None = None,
    *,
    pipes: bool = False,
    counted: Callable[[Iterable[Path], str], Iterable[Path]] = lambda found, _: found,
) -> Manifests:
    """Read all files, into `loaded` if it is given. Raises ManifestError.

    pipes: a path may be a pipe, such as a shell's <(…). counted: passes files on, to show progress.
    """
    loaded = Manifests() if loaded is None else loaded
    named = {Path(path) for path in paths}
    for file in counted(manifest_files(paths), "reading files"):
        try:
            text = read_file(file, pipes=pipes and file in named)
        except FileError as error:
            raise ManifestError(f"{file}: {error}") from None
        read_manifest(text, str(file), loaded)
    if loaded.is_empty:
        loaded.warnings.append(f"no Node, RuntimeClass or Pod in {', '.join(paths)}")
    loaded.warnings[:] = dict.fromkeys(loaded.warnings)
    return loaded


def read_manifest(text: bytes, name: str, loaded: Manifests) -> None:
    """Read the text of one file into `loaded`. name: for errors. Raises ManifestError."""
    try:
        for _, document in documents_of(text):
            take_document(document, loaded)
    except (ManifestError, DecodeError, YamlError) as error:
        raise ManifestError(f"{name}: {error}") from None
    except RecursionError:
        raise ManifestError(f"{name}: nested too deeply") from None


def is_json(text: bytes) -> bool:
    """Whether a text is one object in JSON, without comments. Raises ManifestError."""
    # Only JSON and YAML's flow style begin with a brace.
    if text.lstrip()[:1] != b"{":
        return False
    try:
        msgspec.json.decode(text, type=Header)
    except msgspec.ValidationError:
        return True
    except RecursionError:
        raise ManifestError("nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def documents_of(text: bytes, *, skip_others: bool = False) -> Iterator[tuple[int, Raw]]:
    """The documents of a text that are objects, each with its number, from 0.

    Other documents are errors, or skipped with skip_others. Raises ManifestError and YamlError.
    """
    if is_json(text):
        # For 65,000 nodes in JSON, this is a hundred times faster than reading them as YAML.
        yield 0, Raw(text)
        return
    for number, document in enumerate(yaml_documents(text, pack_items=True)):
        if document is None:
            continue
        if isinstance(document, dict):
            yield number, Raw(msgspec.json.encode(document))
        elif not skip_others:
            kind = type(document).__name__
            raise ManifestError(f"document {number + 1}: expected an object, got {kind}")


#: The longest pasted text that is read: etcd stores objects of at most 1.5 MB.
MAX_PASTED: Final = 1_500_000


def pasted_pods(text: bytes) -> tuple[Mapping[str, Pod], Sequence[str]]:
    """The Pods of a text and of its workloads, by KIND NAMESPACE/NAME, and warnings.

    Raises BadRequestError, also if there is no pod.
    """
    if len(text) > MAX_PASTED:
        raise BadRequestError(f"the text is over the limit of {MAX_PASTED:,} bytes")
    loaded = Manifests(templates={})
    try:
        read_manifest(text, "the text", loaded)
    except ManifestError as error:
        raise BadRequestError(str(error)) from None
    found = {(PODS.name, key): pod for key, pod in loaded.pods.items()} | (loaded.templates or {})
    if not found:
        raise BadRequestError("the text holds no Pod or workload")
    return {f"{kind} {key}": pod for (kind, key), pod in found.items()}, loaded.warnings
