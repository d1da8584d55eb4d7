"""What manifests hold: takes Nodes, RuntimeClasses, Pods, Namespaces and workloads, one by one."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from msgspec import Raw, Struct

from extender.admission.policy_subjects import Subject, pod_subject, template_subject
from extender.cluster.manifest_files import ManifestError
from extender.cluster.misspelt import Misspelt
from extender.cluster.yaml_places import Path
from extender.decoding.class_using_objects import (
    RawNodeState,
    RawPlacedPod,
    RawUse,
    is_ready,
    placed_pod_of,
    workload_of,
)
from extender.decoding.decoder import DecodeError, convert, decode
from extender.decoding.explained_pods import explained_pod
from extender.decoding.nodes import RawNode, node_of
from extender.decoding.resource_amounts import allocatable_of
from extender.decoding.runtime_classes import (
    RawNamespace,
    RawRuntimeClass,
    namespace_of,
    runtime_class_of,
)
from extender.decoding.workloads import WORKLOAD_GROUPS, RawWorkload, template_pod_of
from extender.objects import Namespace, Node, Pod, RuntimeClass
from extender.using_objects import PlacedPod, Workload
from extender.validation.name_rules import validate_node_name
from extender.validation.overhead import unreadable_amount
from extender.validation.runtimeclass_rules import validate_runtimeclass

K = TypeVar("K")
T = TypeVar("T")

#: The depth of Lists within Lists; kubectl prints one level, and each further level is read again.
MAX_LISTS: Final = 8

#: The kinds that are read, by the group of their apiVersion.
_GROUPS: Final = {"Namespace": "", "Node": "", "Pod": "", "RuntimeClass": "node.k8s.io"}


@dataclass(slots=True)
class Uses:
    """The users of RuntimeClasses in the files: pods by NAMESPACE/NAME, and workloads.

    not_ready: nodes whose condition Ready is not True.
    """

    pods: dict[str, PlacedPod] = field(default_factory=dict)
    workloads: dict[tuple[str, str], Workload] = field(default_factory=dict)
    not_ready: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Manifests:
    """What the files hold, by name; pods by NAMESPACE/NAME. Warnings are for a person to read.

    Of Namespaces only the annotations and labels about RuntimeClasses are kept. templates: the pods
    that workloads make, by kind and the workload's NAMESPACE/NAME; where it is None, workloads are
    ignored as other kinds are. uses: likewise where it is None. subjects: the objects that policies
    of namespaces judge, by kind and NAMESPACE/NAME; None where they are not wanted.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    runtime_classes: dict[str, RuntimeClass] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    templates: dict[tuple[str, str], Pod] | None = None
    misspelt: Misspelt = field(default_factory=Misspelt)
    uses: Uses | None = None
    subjects: dict[tuple[str, str], Subject] | None = None
    _twice: set[str] = field(default_factory=set)
    _amounts: set[bytes] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        found = (
            self.nodes,
            self.runtime_classes,
            self.pods,
            self.namespaces,
            self.templates,
            self.subjects,
        )
        return not any(found) and not (self.uses and self.uses.workloads)

    def put(self, into: dict[K, T], key: K, value: T, named: str) -> None:
        """Keep an object; warn of several with one name, once a name, however many there are."""
        if key in into and named not in self._twice:
            self._twice.add(named)
            self.warnings.append(f"{named} is there more than once; the last one counts")
        into[key] = value

    def check_amounts(self, allocatable: bytes) -> None:
        """Raises DecodeError where a node's status.allocatable can't be read."""
        if allocatable and allocatable not in self._amounts:
            allocatable_of(allocatable)
            self._amounts.add(allocatable)


class _Metadata(Struct):
    name: str | None = None


class _Named(Struct):
    metadata: _Metadata | None = None


class ObjectKind(Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None

    @property
    def group(self) -> str:
        return (self.api_version or "").rpartition("/")[0]


class Header(ObjectKind, rename="camel"):
    """An object, and its items if it is a List."""

    items: list[Raw] | None = None


def take_document(document: Raw, loaded: Manifests) -> None:
    """Read one object or List into `loaded`. Raises ManifestError and DecodeError."""
    for _, header, each in objects_in(document):
        _take(each, header, header.kind or "", loaded)


def objects_in(
    document: Raw, default_kind: str = "", place: Path = ()
) -> Iterator[tuple[Path, ObjectKind, Raw]]:
    """The object that a document is, or those of a List, each with its place in the document.

    Raises ManifestError and DecodeError.
    """
    header, items = _head_of(document)
    header.kind = kind = header.kind or default_kind
    if not (kind.endswith("List") and items is not None):
        yield place, header, document
        return
    if len(place) >= 2 * MAX_LISTS:
        raise ManifestError(f"more than {MAX_LISTS} Lists within each other")
    for index, element in enumerate(items):
        try:
            yield from objects_in(element, kind.removesuffix("List"), (*place, "items", index))
        except DecodeError as error:
            raise ManifestError(f"items[{index}]: {str(error).removeprefix('body: ')}") from None


def _take(document: Raw, header: ObjectKind, kind: str, loaded: Manifests) -> None:
    if loaded.misspelt.take_turn():
        loaded.warnings += _misspelt(document, header, kind, loaded)
    try:
        if kind in _GROUPS and (header.api_version is None or header.group == _GROUPS[kind]):
            _TAKERS[kind](document, loaded)
        elif WORKLOAD_GROUPS.get(kind) == header.group:
            _take_workload(document, kind, loaded)
    except DecodeError as error:
        raise ManifestError(f"{_named(kind, _name_of(document))}: {error}") from None


def _misspelt(document: Raw, header: ObjectKind, kind: str, loaded: Manifests) -> Iterator[str]:
    """The misspelt fields of a document; they are reported before it is read or left out."""
    groups = _GROUPS if loaded.templates is None else {**_GROUPS, **WORKLOAD_GROUPS}
    if kind not in groups:
        yield from loaded.misspelt.kind(kind, [*groups])
        return
    named = _named(kind, _name_of(document))
    if header.api_version is not None and header.group != groups[kind]:
        version = f"{groups[kind]}/v1".removeprefix("/")
        yield from loaded.misspelt.group(named, header.group, version)
        return
    with contextlib.suppress(DecodeError):  # reported by the code that reads the document
        yield from loaded.misspelt.fields_of(decode(document, dict), kind, named)


def _head_of(document: Raw) -> tuple[ObjectKind, list[Raw] | None]:
    """What an object is, and its items if it has any. Raises DecodeError."""
    try:
        header = decode(document, Header)
    except DecodeError:
        # In an object that is no List, items may be anything.
        kind = decode(document, ObjectKind)
        if not kind.kind or kind.kind.endswith("List"):
            raise
        return kind, None
    return header, header.items


def _name_of(document: Raw) -> str:
    """The object's name for an error message, as far as it can be read."""
    try:
        metadata = decode(document, _Named).metadata
    except DecodeError:
        return ""
    return metadata.name or "" if metadata is not None else ""


def _named(kind: str, name: str) -> str:
    return f'{kind} "{name}"'


def _take_node(document: Raw, loaded: Manifests) -> None:
    node = node_of(decode(document, RawNode))
    loaded.check_amounts(node.allocatable)
    errors = validate_node_name(node.name)
    if errors:
        raise ManifestError(f"{_named('Node', node.name)}: {errors[0].text}")
    loaded.put(loaded.nodes, node.name, node, _named("Node", node.name))
    if loaded.uses is not None:
        if is_ready(decode(document, RawNodeState)):
            loaded.uses.not_ready.discard(node.name)
        else:
            loaded.uses.not_ready.add(node.name)


def _take_runtime_class(document: Raw, loaded: Manifests) -> None:
    plain = decode(document, dict)
    errors = validate_runtimeclass(plain)
    if errors:
        text = unreadable_amount(errors[0], plain) or errors[0].text
        raise ManifestError(f"{_named('RuntimeClass', _name_of(document))}: {text}")
    runtime_class = runtime_class_of(convert(plain, RawRuntimeClass))
    name = runtime_class.name
    loaded.put(loaded.runtime_classes, name, runtime_class, _named("RuntimeClass", name))


def _take_pod(document: Raw, loaded: Manifests) -> None:
    pod = explained_pod(document)
    key = f"{pod.namespace or 'default'}/{pod.name}"
    loaded.put(loaded.pods, key, pod, _named("Pod", key))
    if loaded.uses is not None:
        loaded.uses.pods[key] = placed_pod_of(decode(document, RawPlacedPod, "Pod"))
    if loaded.subjects is not None:
        _keep_last(loaded.subjects, ("Pod", key), pod_subject(document))


def _take_workload(document: Raw, kind: str, loaded: Manifests) -> None:
    """Read a workload, as far as templates or uses are wanted."""
    if loaded.templates is not None:
        _take_template(document, kind, loaded, loaded.templates)
    # A PodTemplate makes no pods by itself.
    if loaded.uses is not None and kind != "PodTemplate":
        workload = workload_of(decode(document, RawUse), kind)
        loaded.uses.workloads[kind, f"{workload.namespace}/{workload.name}"] = workload
    if loaded.subjects is not None:
        subject = template_subject(document, kind)
        if subject is not None:
            loaded.subjects[subject.key] = subject


def _keep_last(
    subjects: dict[tuple[str, str], Subject], key: tuple[str, str], subject: Subject | None
) -> None:
    """Of two objects with one name the last one counts, also where no policy looks at it."""
    subjects.pop(key, None)
    if subject is not None:
        subjects[key] = subject


def _take_template(
    document: Raw, kind: str, loaded: Manifests, templates: dict[tuple[str, str], Pod]
) -> None:
    pod = template_pod_of(decode(document, RawWorkload), kind)
    key = f"{pod.namespace or 'default'}/{pod.name}"
    loaded.put(templates, (kind, key), pod, _named(kind, key))


def _take_namespace(document: Raw, loaded: Manifests) -> None:
    """Read a Namespace; one that can't be read is left out, since few commands look at any."""
    try:
        name, namespace = namespace_of(decode(document, RawNamespace))
    except DecodeError as error:
        loaded.warnings.append(f"Namespace ignored: {error}")
        return
    if name:
        loaded.namespaces[name] = namespace


_TAKERS: Final = {
    "Namespace": _take_namespace,
    "Node": _take_node,
    "Pod": _take_pod,
    "RuntimeClass": _take_runtime_class,
}
