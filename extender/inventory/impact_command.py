"""impact: what a change of RuntimeClasses, Nodes or Namespaces would break, before it is made."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

import click

from extender.admission.given_files import brought_by, read_given
from extender.cli.cluster_state import ClusterState, load_cluster, state_of
from extender.cli.commands import policy_of, reading_flags
from extender.cli.flags import Command, Flags, flag
from extender.cli.output import Cell, Colour, Screen, paragraph, print_answer, table
from extender.cli.streams import warn
from extender.cluster.manifest_objects import Manifests
from extender.explain.document import NAMED_NODES, Document
from extender.explain.text import heading, names_text
from extender.inventory.impact import Comparison, View, impact_document
from extender.model.errors import UsageError
from extender.model.objects import Node
from extender.model.reasons import number_of, printable, shown
from extender.rules.node_checks import Policy
from extender.rules.node_selector import label_selector


def _selector(text: str) -> Callable[[Mapping[str, str]], bool]:
    try:
        return label_selector(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _impact(program: str, flags: Flags) -> int:
    """Exit code 0 when nothing breaks, 1 when something does. Raises UsageError."""
    command = f"{program} impact"
    of_nodes = bool(flags.without_node_label or flags.without_handler)
    if not (flags.filename or of_nodes or flags.cordon):
        raise UsageError(
            "no change is given: -f FILE, --without-node-label, --without-handler or --cordon"
        )
    if flags.on and not of_nodes:
        raise UsageError("--on goes with --without-node-label and --without-handler")
    brought = _brought(command, flags.filename)
    state = load_cluster(command, flags, uses=True)
    for warning in _warnings(flags, state, brought):
        warn(command, warning)
    comparison = compared(state, changed(state, brought, flags), policy_of(flags))
    pods = (pod for pod, *_ in state.inventory.pods())
    document = impact_document(comparison, pods, state.inventory.workloads())
    names = [
        f"{each.get('kind', kind).lower()}/{each['name']}"
        for kind, key in (("pod", "pods"), ("", "workloads"), ("namespace", "namespaces"))
        for each in document[key]
    ]
    return print_answer(flags, document, _text, names, yes=not document["breaks"])


def changed(state: ClusterState, brought: Manifests, flags: Flags) -> Manifests:
    """All classes and nodes after the change, and the Namespaces that change."""
    return Manifests(
        nodes={name: _changed(each, flags) for name, each in _nodes(state, brought).items()},
        runtime_classes={**state.snapshot.runtime_classes, **brought.runtime_classes},
        namespaces=brought.namespaces,
    )


def _nodes(state: ClusterState, brought: Manifests) -> Mapping[str, Node]:
    """All nodes, with the brought ones applied: a node without a status keeps the one it has."""
    nodes = {each.name: each for each in state.nodes}
    for name, new in brought.nodes.items():
        has_status = any((new.handlers, new.allocatable, new.conditions, *new.versions))
        node, spec = new if has_status else nodes.get(name, new), (new.taints, new.unschedulable)
        nodes[name] = replace(node, labels=new.labels, taints=spec[0], unschedulable=spec[1])
    return nodes


def compared(state: ClusterState, after: Manifests, policy: Policy) -> Comparison:
    """The comparison of the state with `after`, which `changed` returns."""
    namespaces, version = state.inventory.namespaces(), state.inventory.kubernetes_version
    return Comparison(
        View(state.snapshot, namespaces, policy, version),
        View(state_of(after).snapshot, {**namespaces, **after.namespaces}, policy, version),
    )


def _brought(command: str, filenames: Sequence[str]) -> Manifests:
    """The classes, nodes and namespaces of -f. Raises UsageError, also if the files have none."""
    brought = brought_by(read_given(filenames, recursive=False)) if filenames else Manifests()
    if filenames and not (brought.runtime_classes or brought.nodes or brought.namespaces):
        raise UsageError(f"-f {', '.join(filenames)}: holds no RuntimeClass, Node or Namespace")
    for warning in brought.warnings:
        warn(command, warning)
    return brought


def _changed(node: Node, flags: Flags) -> Node:
    labels, handlers = node.labels, node.handlers
    if flags.on is None or flags.on(labels):
        for text in flags.without_node_label:
            labels = _without(labels, text)
        handlers = frozenset(each for each in handlers if each.name not in flags.without_handler)
    cordoned = node.unschedulable or any(each(node.labels) for each in flags.cordon)
    return replace(node, labels=labels, handlers=handlers, unschedulable=cordoned)


def _warnings(flags: Flags, state: ClusterState, brought: Manifests) -> Iterator[str]:
    """The warnings about flags without effect, and about facts that are unknown."""
    inventory = state.inventory
    if flags.manifests and not any(chain(inventory.pods(), inventory.workloads())):
        yield "the manifests hold no Pod and no workload: what uses the nodes is unknown"
    nodes = _nodes(state, brought).values()
    meant = [each for each in nodes if flags.on is None or flags.on(each.labels)]
    if not all(any(selects(each.labels) for each in nodes) for selects in flags.cordon):
        yield "--cordon selects no node"
    for text in flags.without_node_label:
        if all(_without(each.labels, text) == each.labels for each in meant):
            yield f"--without-node-label {shown(text)}: no such node has it"
    for handler in flags.without_handler:
        reported = [{each.name for each in node.handlers} for node in meant]
        if not any(handler in names for names in reported):
            yield f"--without-handler {shown(handler)}: no such node reports it"
        if silent := sum(set() < names <= {*flags.without_handler} for names in reported):
            yield (
                f"--without-handler {shown(handler)}: {number_of(silent, 'node')} would report no"
                " handler at all, which is taken for unknown (--handler-check=strict: for none)"
            )


def _without(labels: Mapping[str, str], text: str) -> Mapping[str, str]:
    """The labels without the entry that text names: KEY or KEY=VALUE."""
    key, equals, value = text.partition("=")
    gone = key in labels and (not equals or labels[key] == value)
    return {name: each for name, each in labels.items() if name != key} if gone else labels


#: The tables of the text, by key of the document: the title, and the keys of the columns.
_TABLES: Final = {
    "pods": (
        "Pods that could not start again on their node:",
        ("namespace", "name", "class", "node", "reason"),
    ),
    "workloads": (
        "Workloads that keep fewer nodes, or none:",
        ("kind", "namespace", "name", "nodes", "reason"),
    ),
    "namespaces": ("Namespaces whose rules break:", ("name", "reason")),
    "classes": ("Nodes that take pods of a class:", ("name", "nodes")),
}


def _text(document: Document, screen: Screen) -> str:
    parts = [] if document["breaks"] else ["Nothing would break.\n"]
    for key, (title, columns) in _TABLES.items():
        found = sorted(document[key], key=lambda each: bool(each.get("nodesAfter")))
        rows = [[_cell(each, column) for column in columns] for each in found]
        if rows:
            text = table(screen, [each.upper() for each in columns], rows)
            parts.append(heading(screen, title) + text)
    for told, names in document["nodes"].items():
        if names:
            text = f"{told.capitalize()} by a class: {names_text(names[:NAMED_NODES], len(names))}"
            parts.append(paragraph(screen, text))
    return "\n".join(parts)


def _cell(each: Document, column: str) -> str | Cell:
    if column == "nodes":
        colour = Colour.DOUBTFUL if each["nodesAfter"] else Colour.BAD
        return Cell(f"{each['nodesBefore']} → {each['nodesAfter']}", colour)
    return printable(each[column]) if column == "reason" else shown(each[column])


IMPACT: Final = Command(
    "impact",
    "What a change would break, before it is made: pods that could not start again on their node,"
    " workloads that keep no node, namespaces whose rules can't be kept; exit code 0 when nothing"
    " breaks, 1 when something does.",
    _impact,
    [
        flag(
            "-f, --filename FILE",
            "RuntimeClasses, Nodes and Namespaces as they would be, YAML or JSON; - is stdin;"
            " repeatable",
            multiple=True,
        ),
        flag(
            "--without-node-label KEY[=VALUE]",
            "take the label off all nodes, or off those of --on; repeatable",
            multiple=True,
        ),
        flag(
            "--without-handler HANDLER",
            "take the runtime handler off all nodes, or off those of --on; repeatable",
            multiple=True,
        ),
        flag("--on SELECTOR", "labels of the nodes that are meant, as pool=old", type=_selector),
        flag(
            "--cordon SELECTOR",
            "let the nodes with these labels take no new pods; repeatable",
            type=_selector,
            multiple=True,
        ),
    ],
    reading_flags("name"),
    examples=[
        "-f kata.yaml",
        "--without-handler kata-qemu --on pool=old",
        "--without-node-label sandbox=kata --cordon zone=a",
    ],
)
