"""The files that -f names: a file, a folder, or - for standard input."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from extender.admission.defaults import EXEMPT_NAMESPACES, subject_of
from extender.admission.review import RulesOfNamespaces
from extender.cli.cluster_state import ClusterState, has_cluster, if_allowed, load_cluster, state_of
from extender.cli.flags import PLUGIN, Flags, argument, boolean, flag
from extender.cli.streams import warn
from extender.cluster import input_files
from extender.cluster.file_objects import FileObject, GivenFile, read_objects
from extender.cluster.manifest_objects import Manifests, take_document
from extender.kubernetes.decoder import NULL, DecodeError, decode, in_a_file
from extender.kubernetes.namespaces import NamespaceRules, rules_of
from extender.kubernetes.workloads import KINDS, TEMPLATE_PATHS, RawWorkload, Template, template_of
from extender.model.errors import UsageError
from extender.model.objects import Namespace


def file_flags(help: str) -> list[click.Parameter]:
    """-f, -R, and an argument for the further files into which a shell expands `-f *.yaml`."""
    return [
        flag(
            "-f, --filename FILE", f"{help}; - is stdin; takes several, repeatable", multiple=True
        ),
        argument("more", "[FILE]...", "further files of -f", nargs=-1),
        boolean("-R, --recursive", "read the subfolders of -f FOLDER too"),
    ]


def read_given(names: Sequence[str], *, recursive: bool) -> list[GivenFile]:
    """The objects of the named files. Raises UsageError, also if no file has an object."""
    if names.count(input_files.STDIN) > 1:
        raise UsageError("-f -: standard input can be read once only")
    found = (file for name in names for file in _files(name, recursive))
    files = [read_objects(file, _text(file)) for file in found]
    if not any(file.objects for file in files):
        raise UsageError(f"-f {names[0]}: holds no object: there is nothing to do")
    return files


def _text(file: str) -> bytes:
    if file == input_files.STDIN:
        return input_files.read_stdin()
    try:
        return input_files.read_file(file, pipes=True)
    except input_files.FileError as error:
        raise UsageError(f"-f {file}: {error}") from None


def _files(name: str, recursive: bool) -> list[str]:
    if name == input_files.STDIN:
        return [name]
    if not name:
        raise UsageError("-f: the path is empty")
    try:
        if not recursive or not Path(name).is_dir():
            return [str(each) for each in input_files.manifest_files([name])]
        found: list[str] = []
        for folder, folders, _ in os.walk(name):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            found += [str(each) for each in input_files.manifest_files([folder])]
    except input_files.ManifestError as error:
        raise UsageError(f"-f {str(error).removeprefix('--manifests: ')}") from None
    return found


#: The kinds of objects in a file by which its workloads are judged, with their API groups.
SURROUNDINGS: Final = {"RuntimeClass": "node.k8s.io", "Node": "", "Namespace": ""}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The cluster, and the namespace of objects that name none.

    rules: of each namespace; empty if they are not asked for, or if listing them is forbidden.
    """

    state: ClusterState
    namespace: str
    rules: RulesOfNamespaces


def brought_by(files: Iterable[GivenFile]) -> Manifests:
    """The classes, nodes and namespaces in the files. Raises UsageError."""
    brought = Manifests()
    for file in files:
        try:
            for each in file.objects:
                if SURROUNDINGS.get(each.kind) == each.group:
                    take_document(each.raw, brought)
        except (input_files.ManifestError, DecodeError) as error:
            raise UsageError(f"{file.name}: {error}") from None
    return brought


def surroundings_of(
    program: str,
    flags: Flags,
    files: Iterable[GivenFile],
    *,
    nodes: bool = True,
    rules: bool = True,
) -> Surroundings:
    """The cluster with the files' objects, or these alone without a cluster. Raises UsageError."""
    brought = brought_by(files)
    if (brought.runtime_classes or brought.nodes) and not has_cluster(flags):
        state = state_of(brought)
        for warning in brought.warnings:
            warn(program, warning)
    else:
        state = load_cluster(program, flags, nodes=nodes, brought=brought)
    of_nobody = state.namespace if program.startswith(PLUGIN) else "default"
    found: Mapping[str, Namespace] = {}
    if rules:
        there = if_allowed(program, "what namespaces allow", state.inventory.namespaces)
        found = {} if there is None else {**there, **brought.namespaces}

    def rules_of_namespace(name: str) -> NamespaceRules:
        return rules_of(name, found[name].annotations if name in found else {})

    return Surroundings(state, flags.namespace or of_nobody, rules_of_namespace)


def template_in(each: FileObject, namespace: str) -> Template | None:
    """The pod of an object, if any. namespace: if it names none itself. Raises DecodeError."""
    kind = KINDS.get(each.kind)
    if kind is None or each.group != kind.group:
        return None
    path = TEMPLATE_PATHS[each.kind]
    raw, place = template_of(each.raw, each.kind), ".".join(path)
    if raw == NULL:
        raise DecodeError(f"{place}: missing")
    pod = decode(raw, dict, place)
    plain: dict[str, Any] = decode(each.raw, dict)
    metadata = plain.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    own = str(metadata.get("namespace") or namespace)
    if path:
        decode(each.raw, RawWorkload)  # raises DecodeError for the object's own metadata
    exempt = subject_of(each.raw, each.kind) is None or own in EXEMPT_NAMESPACES
    return Template(each.kind, own, name, path, pod, exempt)


def unreadable(file: GivenFile, each: FileObject, error: DecodeError) -> UsageError:
    """The error for an object that can't be read, with its file and line."""
    line = file.lines([(each, ())])[each.document, each.place]
    return UsageError(f"{file.name}:{line}: {each.kind}: {in_a_file(error).lstrip('.')}")
