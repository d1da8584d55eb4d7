"""The cluster that -f's objects are judged in: the live one with what the files bring along."""

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from extender.admission.namespace_rules import NamespaceRules, rules_of
from extender.admission.policy_subjects import (
    EXEMPT_NAMESPACES,
    pod_subject,
    template_subject,
)
from extender.checks.template_fields import Template
from extender.cluster.file_objects import FileObject, GivenFile
from extender.cluster.manifest_files import ManifestError
from extender.cluster.manifest_objects import Manifests, take_document
from extender.cluster.reading_once import ForbiddenError
from extender.commands.arguments import PLUGIN, source_of
from extender.commands.cluster_state import ClusterState, has_cluster, load_cluster, state_of
from extender.commands.output import warn
from extender.decoding.decoder import DecodeError, decode
from extender.decoding.workloads import TEMPLATE_PATHS, WORKLOAD_GROUPS
from extender.flags import UsageError
from extender.reasons import shown
from extender.verbs.review import RulesOfNamespaces

#: The kinds in a file that its own workloads are judged by.
SURROUNDINGS: Final = {"RuntimeClass": "node.k8s.io", "Node": "", "Namespace": ""}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The cluster, and the namespace of objects that name none.

    rules: of the namespaces, None where they are not asked for or may not be listed.
    """

    state: ClusterState
    namespace: str
    rules: RulesOfNamespaces | None


def surroundings_of(
    program: str,
    flags: argparse.Namespace,
    files: Iterable[GivenFile],
    *,
    nodes: bool = True,
    rules: bool = True,
) -> Surroundings:
    """The cluster with what comes with the workloads, or that alone without a cluster.

    nodes and rules: whether these are needed. Raises UsageError.
    """
    brought = Manifests()
    for file in files:
        _take_surroundings(file, brought)
    source = source_of(flags)
    if (brought.runtime_classes or brought.nodes) and not source.is_given and not has_cluster():
        state = state_of(brought)
        for warning in brought.warnings:
            warn(program, warning)
    else:
        state = load_cluster(program, source, nodes=nodes, brought=brought)
    of_nobody = state.namespace if program.startswith(PLUGIN) else "default"
    found = _rules(program, state, brought) if rules else None
    return Surroundings(state, flags.namespace or of_nobody, found)


def _take_surroundings(file: GivenFile, brought: Manifests) -> None:
    """RuntimeClasses, Nodes and Namespaces that come with the workloads. Raises UsageError."""
    for each in file.objects:
        if SURROUNDINGS.get(each.kind) == each.group:
            try:
                take_document(each.raw, brought)
            except (ManifestError, DecodeError) as error:
                raise UsageError(f"{file.name}: {error}") from None


def _rules(program: str, state: ClusterState, brought: Manifests) -> RulesOfNamespaces | None:
    """None, with a warning, where namespaces may not be listed."""
    try:
        namespaces = {**state.inventory.namespaces(), **brought.namespaces}
    except ForbiddenError as error:
        warn(program, f"left out what namespaces allow: {error}")
        return None

    def rules(namespace: str) -> NamespaceRules:
        found = namespaces.get(namespace)
        return rules_of(namespace, found.annotations if found else {})

    return rules


def template_in(each: FileObject, namespace: str) -> Template | None:
    """The pod that an object makes, None for one that makes none; namespace is of nameless ones.

    Raises DecodeError.
    """
    path = TEMPLATE_PATHS.get(each.kind)
    if path is None or each.group != WORKLOAD_GROUPS.get(each.kind, ""):
        return None
    plain: dict[str, Any] = decode(each.raw, dict)
    metadata = plain.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    own = str(metadata.get("namespace") or namespace)
    pod = _pod(plain, path)
    judged = template_subject(each.raw, each.kind) if path else pod_subject(each.raw)
    exempt = judged is None or own in EXEMPT_NAMESPACES
    return Template(each.kind, own, name, path, pod, exempt)


def unreadable(file: GivenFile, each: FileObject, error: DecodeError) -> UsageError:
    """What is wrong with an object, after its line in the file."""
    line = file.lines([(each, ())])[each.document, each.place]
    return UsageError(f"{file.name}:{line}: {each.kind}: {str(error).lstrip('.')}")


def subject_of(template: Template) -> str:
    """An object's kind, namespace and name as text."""
    return f"{template.kind} {shown(template.namespace)}/{shown(template.name)}"


def _pod(plain: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The template. Raises DecodeError where there is none."""
    found: Any = plain
    for depth, step in enumerate(path, 1):
        found = found.get(step)
        if not isinstance(found, dict):
            kind = "missing" if found is None else f"expected `object`, got {type(found).__name__}"
            raise DecodeError(f"{'.'.join(path[:depth])}: {kind}")
    assert isinstance(found, dict)
    return found
