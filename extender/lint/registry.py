"""All lints, by their subject.

A new lint is a function in the file of its subject, and an entry in one of these tuples.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeVarTuple

from extender.explain.document import Document
from extender.lint.facts import Circumstances, Facts, NamespaceFacts
from extender.lint.lints import classes, namespaces, nodes, scheduler_config
from extender.lint.lints import marked_pods as marks
from extender.model.finding import Finding
from extender.model.objects import Namespace, Node, Pod
from extender.model.using_objects import WaitingPod
from extender.rules.class_nodes import Support
from extender.rules.node_checks import Policy
from extender.rules.snapshot import Snapshot

Seen = TypeVarTuple("Seen")

#: Lints of RuntimeClasses and nodes: for check, the pages and `classes`.
CLUSTER_LINTS: Final = (
    classes.unreadable_annotations,
    classes.unreadable_terms,
    classes.self_set_labels,
)

#: Lints of RuntimeClasses and nodes that are skipped if no node is known.
NODE_LINTS: Final = (
    classes.missing_conditions,
    classes.terms_without_node,
    classes.without_node,
    classes.unused_tolerations,
    nodes.unreported_handlers,
    nodes.broken_promises,
    nodes.suspect_handlers,
    nodes.featureless_handlers,
    nodes.doubtful_user_namespaces,
)

NAMESPACE_LINTS: Final = (
    namespaces.missing_defaults,
    namespaces.defaults_not_allowed,
    namespaces.missing_allowed,
    namespaces.none_allowed,
    namespaces.unreadable,
    namespaces.not_opted_in,
)

#: Lints of an extender in a KubeSchedulerConfiguration. Their first argument is its place there.
EXTENDER_LINTS: Final = (
    scheduler_config.url,
    scheduler_config.verbs,
    scheduler_config.node_cache,
    scheduler_config.managed_resources,
    scheduler_config.ignorable,
    scheduler_config.timeout,
    scheduler_config.tls,
)

CONFIGURATION_LINTS: Final = (
    scheduler_config.no_extender,
    scheduler_config.sampling,
    scheduler_config.client_connection,
)

#: Lints of a KubeSchedulerConfiguration together with the nodes and the pending pods.
MARK_LINTS: Final = (marks.autoscalers, marks.unmarked)


def _run(lints: Iterable[Callable[[*Seen], Iterable[Finding]]], *seen: *Seen) -> list[Finding]:
    return [finding for lint in lints for finding in lint(*seen)]


def check_classes(
    snapshot: Snapshot, support: Support, policy: Policy, nodes: Collection[Node] | None = None
) -> list[Finding]:
    """The findings about RuntimeClasses and nodes. nodes: None if only the snapshot is known."""
    lints = (*CLUSTER_LINTS, *(NODE_LINTS if snapshot.nodes else ()))
    return _run(lints, Facts(snapshot, support, policy, nodes))


def check_pods(pods: Iterable[Pod | WaitingPod], runtime_classes: Collection[str]) -> list[Finding]:
    return list(classes.missing_classes(pods, runtime_classes))


def check_namespaces(
    by_name: Mapping[str, Namespace], runtime_classes: Collection[str]
) -> list[Finding]:
    return _run(NAMESPACE_LINTS, NamespaceFacts.of(by_name, runtime_classes))


def check_scheduler_config(document: Document, circumstances: Circumstances) -> list[Finding]:
    findings = []
    for place, extender in scheduler_config.our_extenders(document):
        findings += _run(EXTENDER_LINTS, place, extender, circumstances)
    return findings + _run(CONFIGURATION_LINTS, document, circumstances)


def check_marks(config: Document, known: Collection[Node], pods: Collection[Pod]) -> list[Finding]:
    return _run(MARK_LINTS, config, known, pods)
