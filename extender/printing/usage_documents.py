"""The JSON shapes of what uses the RuntimeClasses: pods, classes, can-delete, rollout."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from extender.admission.default_class import is_default
from extender.checks.finding import Finding
from extender.names import text_of
from extender.objects import RuntimeClass
from extender.printing.debug_documents import NAMED_NODES, Document
from extender.printing.finding_texts import finding_document
from extender.verbs.class_usage import NodeCounts, PodUse, Usage, overhead_texts
from extender.verbs.class_users import User
from extender.verbs.placement import State
from extender.verbs.pools import Pools
from extender.verbs.rollout import PoolProgress, Rollout


class PodRow(NamedTuple):
    """A pod that is listed; a large cluster has 100,000, so most of these strings are shared."""

    namespace: str
    name: str
    runtime_class: str
    handler: str
    node: str
    state: State
    reason: str


def pods_document(rows: Collection[PodRow]) -> Document:
    return {
        "items": [
            {
                "namespace": each.namespace,
                "name": each.name,
                "class": each.runtime_class,
                "handler": each.handler,
                "node": each.node,
                "state": each.state.value,
                "reason": each.reason,
            }
            for each in rows
        ]
    }


@dataclass(frozen=True, slots=True)
class ClassUse:
    """The use of the classes; nodes as by nodes_of_each, pools only with --by-pool."""

    classes: Sequence[RuntimeClass]
    nodes: Mapping[str, tuple[NodeCounts, Sequence[NodeCounts]]]
    usage: Usage
    findings: Sequence[Finding]
    pools: Pools | None = None


def usage_document(used: ClassUse) -> Document:
    """Every class by name; running counts the stranded and drifted pods too."""
    return {"items": [_class_use(each, used) for each in used.classes]}


def _class_use(runtime_class: RuntimeClass, used: ClassUse) -> Document:
    name = runtime_class.name
    nodes, by_pool = used.nodes[name]
    document: Document = {
        "name": name,
        "handler": runtime_class.handler,
        "isolation": runtime_class.isolation,
        "default": is_default(runtime_class),
        **_counts(nodes, used.usage.by_class.get(name, PodUse())),
        "findings": [
            finding_document(each) for each in used.findings if name in each.runtime_classes
        ],
    }
    if used.pools is not None:
        document["pools"] = [
            {
                "pool": pool.name,
                **_counts(by_pool[number], used.usage.by_pool.get((name, number), PodUse())),
            }
            for number, pool in enumerate(used.pools.pools)
        ]
    return document


def _counts(nodes: NodeCounts, pods: PodUse) -> Document:
    return {
        "nodes": {"matching": nodes.matching, "ready": nodes.ready, "total": nodes.total},
        "pods": {
            "running": pods.running,
            "pending": pods.pending,
            "stranded": pods.states[State.STRANDED],
            "drifted": pods.states[State.DRIFTED],
        },
        "overhead": dict(overhead_texts(pods.overhead)),
    }


def can_delete_document(name: str, users: Sequence[User]) -> Document:
    return {"class": name, "canDelete": not users, "uses": _users(users)}


def _users(users: Sequence[User]) -> list[Document]:
    return [{"kind": each.kind, "namespace": each.namespace, "name": each.name} for each in users]


def rollout_document(old: str, new: str, rollout: Rollout) -> Document:
    """drain has the node to drain next of each pool; pods counts those of the old class."""
    return {
        "old": old,
        "new": new,
        "done": rollout.is_done,
        "pools": [_pool_progress(each) for each in rollout.pools],
        "workloads": _users(rollout.workloads),
        "defaults": _users(rollout.defaults),
        "pods": {"running": rollout.old_pods, "pending": rollout.pending},
    }


def _pool_progress(progress: PoolProgress) -> Document:
    return {
        "pool": progress.pool.name,
        "ready": progress.ready,
        "total": len(progress.pool.nodes),
        "notReady": [
            {
                "reason": reason,
                "count": len(names),
                "nodes": [text_of(name) for name in names[:NAMED_NODES]],
            }
            for reason, names in progress.not_ready
        ],
        "pods": progress.old_pods,
        "drain": text_of(progress.drain),
    }
