"""How far the replacement of one RuntimeClass by another has come, pool by pool (KEP-585).

sandboxed → sandboxed-v2: nodes get the new runtime one after the other, workloads change the class
that they name, and in the end the old class is deleted.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from extender.objects import Namespace, RuntimeClass
from extender.predicates.node_checks import Policy
from extender.snapshot import Snapshot
from extender.using_objects import PlacedPod, Workload
from extender.verbs.class_nodes import verdicts_of_class
from extender.verbs.class_users import User, defaults_naming, workloads_naming
from extender.verbs.pools import Pool, Pools

#: The reason for a matching node that runs no pods at the moment.
NOT_READY = "node is not ready"


@dataclass(frozen=True, slots=True)
class PoolProgress:
    """One pool: nodes that run the new class, and the others by reason.

    drain: the node to drain next, empty where there is none; old_pods: of the old class.
    is_partial: some nodes run the new class, and others run the old one only.
    """

    pool: Pool
    ready: int
    not_ready: Sequence[tuple[str, Sequence[bytes]]]
    old_pods: int
    drain: bytes
    is_partial: bool


@dataclass(frozen=True, slots=True)
class Rollout:
    """pending: pods of the old class without a node. defaults: what gives the old class to pods."""

    pools: Sequence[PoolProgress]
    workloads: Sequence[User]
    defaults: Sequence[User]
    old_pods: int
    pending: int

    @property
    def is_used(self) -> bool:
        """Whether anything still names the old class."""
        return bool(self.workloads or self.defaults or self.old_pods or self.pending)

    @property
    def is_done(self) -> bool:
        """Nothing names the old class, some node runs the new one, and no pool is halfway."""
        return (
            not self.is_used
            and any(each.ready for each in self.pools)
            and not any(each.is_partial for each in self.pools)
        )


@dataclass(frozen=True, slots=True)
class Objects:
    """What the cluster has; not_ready are names of nodes, namespaces those there are, by name."""

    pods: Iterable[PlacedPod]
    workloads: Iterable[Workload]
    namespaces: Mapping[str, Namespace]
    not_ready: Collection[bytes]


def rollout_of(
    old: str,
    new: RuntimeClass,
    snapshot: Snapshot,
    pools: Pools,
    objects: Objects,
    policy: Policy,
) -> Rollout:
    """Pools that concern neither class are left out, unless all are."""
    old_class = snapshot.runtime_classes.get(old)
    pods_on, pending = Counter[bytes](), 0
    for pod in objects.pods:
        if pod.runtime_class_name != old or pod.finished:
            continue
        if pod.node:
            pods_on[pod.node.encode("utf-8", "replace")] += 1
        else:
            pending += 1
    reasons = _reasons(new, snapshot, objects.not_ready, policy)
    matches_old = _reasons(old_class, snapshot, (), policy) if old_class else {}
    found = [
        _progress(
            each,
            reasons,
            # Once the old class is deleted, only its pods show which nodes ran it.
            {n for n in each.nodes if (pods_on[n] if old_class is None else not matches_old[n])},
            pods_on,
        )
        for each in pools.pools
    ]
    concerned = [
        each
        for each in found
        if each.ready or each.old_pods or any(not matches_old.get(n, "-") for n in each.pool.nodes)
    ]
    return Rollout(
        concerned or found,
        list(workloads_naming(old, objects.workloads)),
        list(defaults_naming(old, old_class, objects.namespaces)),
        pods_on.total(),
        pending,
    )


def _reasons(
    runtime_class: RuntimeClass, snapshot: Snapshot, not_ready: Collection[bytes], policy: Policy
) -> Mapping[bytes, str]:
    """By node why it does not run the class; empty where it does."""
    table = verdicts_of_class(runtime_class, snapshot.shapes.shapes, policy)
    texts = [reason.text if reason else "" for reason in table.reasons]
    return {
        name: texts[table.codes[shape_id]] or (NOT_READY if name in not_ready else "")
        for name, shape_id in snapshot.nodes.items()
    }


def _progress(
    pool: Pool, reasons: Mapping[bytes, str], of_old: Collection[bytes], pods_on: Counter[bytes]
) -> PoolProgress:
    by_reason: dict[str, list[bytes]] = {}
    for name in pool.nodes:
        if reasons[name]:
            by_reason.setdefault(reasons[name], []).append(name)
    ordered = sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))
    left = sum(len(names) for names in by_reason.values())
    # The nodes that still need the new runtime; the one with fewest pods of the old class first.
    behind = [name for name in of_old if reasons[name] not in ("", NOT_READY)]
    ready = len(pool.nodes) - left
    return PoolProgress(
        pool,
        ready,
        ordered,
        sum(pods_on[name] for name in pool.nodes),
        min(behind, key=lambda name: (pods_on[name], name), default=b""),
        bool(ready and behind),
    )
