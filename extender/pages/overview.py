"""The page at /: the status, pods that wait, problems, and RuntimeClasses by node pool."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from weakref import ReferenceType, ref

from flask import Response, request

from extender.explain.endpoint import synced
from extender.lint.registry import check_classes, check_pods
from extender.model.finding import Finding, Severity, worst_first
from extender.model.names import ShapeId
from extender.model.reasons import number_of
from extender.model.using_objects import WaitingPod, WaitingPods
from extender.pages.templating import ago, asked_text, page, page_of
from extender.rules.class_nodes import verdicts_of_class
from extender.rules.node_shape import Shape
from extender.rules.pools import Pool, pools_of
from extender.rules.snapshot import NodeTable, Snapshot
from extender.rules.verdicts import Verdicts
from extender.verbs.outcomes import RefusedPod
from extender.verbs.service import Service

#: Rows and columns of the page: a table that a person can read, of less than 200 KB.
CLASSES_A_PAGE: Final = 50
MAX_POOLS: Final = 12
MAX_REFUSED: Final = 20
MAX_ALIKE: Final = 5

#: The number of waiting pods that are seen at once; the others unfold.
PODS_OPEN: Final = 8


class Cell(NamedTuple):
    """Nodes that match a RuntimeClass; pool is "" for all, why what most of the others lack.

    cordoned: the number of matching ones that take no new pods.
    """

    pool: str
    matching: int
    total: int
    cordoned: int = 0
    why: str = ""


class PoolCounts:
    """The nodes of a snapshot counted by pool and shape; pools are in the order of their names."""

    def __init__(self, snapshot: Snapshot, pool_labels: Sequence[str]) -> None:
        ids = snapshot.nodes
        self.pools: Sequence[Pool] = pools_of(snapshot, pool_labels).pools
        self.all = Pool("", "", list(ids))
        self._all = Counter(ids.values())
        self._counts = [Counter(ids[name] for name in pool.nodes) for pool in self.pools]

    def row(
        self, verdicts: Verdicts, shapes: Sequence[Shape], columns: Sequence[int]
    ) -> Sequence[Cell]:
        """How many nodes match a class with these verdicts, of all nodes and of some pools."""
        of_pools = [(self.pools[column], self._counts[column]) for column in columns]
        return [
            _cell(pool, counts, verdicts, shapes)
            for pool, counts in [(self.all, self._all), *of_pools]
        ]


def _cell(
    pool: Pool, counts: Mapping[ShapeId, int], verdicts: Verdicts, shapes: Sequence[Shape]
) -> Cell:
    by_code, cordoned = Counter[int](), 0
    for shape_id, count in counts.items():
        code = verdicts.codes[shape_id]
        by_code[code] += count
        cordoned += count if not code and shapes[shape_id - 1].unschedulable else 0
    matching, why = by_code.pop(0, 0), ""
    if by_code:
        reason = verdicts.reasons[min(by_code, key=lambda code: (-by_code[code], code))]
        why = reason.detail if reason else ""
    return Cell(pool.name, matching, len(pool.nodes), cordoned, why)


class Problem(NamedTuple):
    """Findings of one check: the first of them, and the number of all; why, if all have one."""

    severity: Severity
    why: str
    findings: Sequence[Finding]
    total: int


def problems_of(findings: Sequence[Finding]) -> Sequence[Problem]:
    """In the order of the first finding of each."""
    alike: dict[tuple[Severity, str], list[Finding]] = {}
    for each in findings:
        alike.setdefault((each.severity, each.check), []).append(each)
    return [
        Problem(
            severity,
            same[0].why if len({each.why for each in same}) == 1 else "",
            same[:MAX_ALIKE],
            len(same),
        )
        for (severity, _), same in alike.items()
    ]


class Wait(NamedTuple):
    """A pod that waits for a node, by NAMESPACE/NAME: when kube-scheduler asked about it, and why.

    is_wrong: no node can take it as the cluster is.
    """

    name: str
    runtime_class: str
    asked: str
    why: str
    is_wrong: bool


class OverviewPage:
    def __init__(self, service: Service) -> None:
        self._service = service
        # Not the table itself: the store reuses its dictionaries once nothing refers to it.
        self._counted: tuple[ReferenceType[NodeTable], PoolCounts] | None = None

    def answer(self) -> Response:
        service, snapshot = self._service, synced(self._service)
        followed = service.waiting_pods()
        asked = {_name(each): each for each in service.refused.pods()}
        waiting = followed or WaitingPods()
        others = [each for each in waiting.first if _name(each) not in asked]
        named = [WaitingPod(e.namespace, e.name, e.runtime_class) for e in asked.values()]
        findings = [
            *check_classes(snapshot, service.support, service.policy),
            *check_pods([*named, *others], snapshot.runtime_classes),
        ]
        response = page(
            "overview.html",
            origin=service.origin,
            age=ago(service.age()),
            classes_total=len(snapshot.runtime_classes),
            severities=Counter(each.severity for each in worst_first(findings)).items(),
            problems=problems_of(worst_first(findings)),
            followed=followed is not None,
            pods=self._waits(snapshot, asked, others),
            pods_open=PODS_OPEN,
            pods_total=len(asked) + len(others) + waiting.total - len(waiting.first),
            **self._grid(snapshot),
        )
        # A page that is refreshed every few seconds is sent again only when it has changed.
        response.add_etag()
        response.make_conditional(request)
        return response

    def _grid(self, snapshot: Snapshot) -> Mapping[str, Any]:
        text, pool_text = asked_text("q"), asked_text("pool")
        counted, shapes = self.counted(snapshot), snapshot.shapes.shapes
        chosen = [
            number
            for number, each in enumerate(counted.pools)
            if pool_text.casefold() in each.name.casefold()
        ]
        by_size = sorted(chosen, key=lambda number: -len(counted.pools[number].nodes))
        columns = sorted(by_size[:MAX_POOLS])
        classes = [e for e in snapshot.classes_by_name if text.casefold() in e.name.casefold()]
        number, page_count, listed = page_of(classes, CLASSES_A_PAGE)
        rows = []
        for each in listed:
            verdicts = verdicts_of_class(each, shapes, self._service.policy)
            rows.append({"name": each.name, "cells": counted.row(verdicts, shapes, columns)})
        return {
            "text": text,
            "pool_text": pool_text,
            "parameters": {"q": text, "pool": pool_text},
            "page": number,
            "page_count": page_count,
            "nodes_total": len(counted.all.nodes),
            "pools_total": len(counted.pools),
            "pools": [counted.pools[column] for column in columns],
            "pools_left_out": len(chosen) - len(columns),
            "rows": rows,
        }

    def counted(self, snapshot: Snapshot) -> PoolCounts:
        """The nodes by pool: 0.2 s for 65,000, so once for each state of the nodes."""
        counted = self._counted
        if counted is None or counted[0]() is not snapshot.table:
            counts = PoolCounts(snapshot, self._service.pool_labels)
            counted = self._counted = (ref(snapshot.table), counts)
        return counted[1]

    def _waits(
        self, snapshot: Snapshot, asked: Mapping[str, RefusedPod], others: Sequence[WaitingPod]
    ) -> Sequence[Wait]:
        """Pods without a node: the last one asked about first; then others, wrong ones first."""
        newest = [*asked.items()][: -MAX_REFUSED - 1 : -1]
        matching = self._service.support.counts(snapshot).nodes
        pods = [self._refused(name, pod) for name, pod in newest]
        unasked = (_unasked(each, matching) for each in others)
        return [*pods, *sorted(unasked, key=lambda each: not each.is_wrong)]

    def _refused(self, name: str, pod: RefusedPod) -> Wait:
        reasons = self._service.refused.reasons(pod.key)
        why = ", ".join(f"{count} {text}" for count, text in reasons)
        asked = ago(self._service.refused.now() - pod.at)
        return Wait(name, pod.runtime_class, asked, why or "no node passed", True)


def _name(pod: RefusedPod | WaitingPod) -> str:
    return f"{pod.namespace or 'default'}/{pod.name}"


def _unasked(pod: WaitingPod, matching: Mapping[str, int]) -> Wait:
    nodes = matching.get(pod.runtime_class_name)
    why = number_of(nodes or 0, "node matches", "nodes match") + " its RuntimeClass: see the pod"
    if not nodes:
        why = "no such RuntimeClass" if nodes is None else "no node matches its RuntimeClass"
    return Wait(_name(pod), pod.runtime_class_name, "not in 10 min", why, not nodes)
