"""The page at /: the status, waiting pods, problems, and RuntimeClasses by node pool."""

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
from extender.rules.pools import Pool, pools_of
from extender.rules.snapshot import NodeTable, Snapshot
from extender.rules.verdicts import Shapes, Verdicts
from extender.verbs.outcomes import RefusedPod, key_of
from extender.verbs.service import Service

#: The most rows and columns of the page: a table that people can read, of less than 200 KB.
CLASSES_A_PAGE: Final = 50
MAX_POOLS: Final = 12
MAX_REFUSED: Final = 20
MAX_ALIKE: Final = 5

#: The number of waiting pods that are shown at first; the others are folded.
PODS_OPEN: Final = 8


class Cell(NamedTuple):
    """Counts of a pool's nodes for a class. pool: "" for all nodes. cordoned: part of matching."""

    pool: str
    matching: int
    total: int
    cordoned: int = 0


#: A pool, and the number of its nodes of each shape.
Counted = tuple[Pool, Mapping[ShapeId, int]]


def _cell(pool: Pool, counts: Mapping[ShapeId, int], verdicts: Verdicts, shapes: Shapes) -> Cell:
    passing = {each: count for each, count in counts.items() if not verdicts.codes[each]}
    cordoned = sum(passing[each] for each in passing if shapes[each].unschedulable)
    return Cell(pool.name, sum(passing.values()), len(pool.nodes), cordoned)


class Problem(NamedTuple):
    """The first findings of one check, and the number of all. why: "" if the findings differ."""

    severity: Severity
    why: str
    findings: Sequence[Finding]
    total: int


def problems_of(findings: Sequence[Finding]) -> Sequence[Problem]:
    """The problems by severity and check, in the order of their first findings."""
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
    """A waiting pod, NAMESPACE/NAME: when kube-scheduler asked about it, and why it waits.

    is_wrong: no node can take the pod as the cluster is now.
    """

    name: str
    runtime_class: str
    asked: str
    why: str
    is_wrong: bool


class OverviewPage:
    def __init__(self, service: Service) -> None:
        self._service = service
        # A weak reference: the store reuses a table's dictionaries once nothing refers to it.
        self._counted: tuple[ReferenceType[NodeTable], Sequence[Counted]] | None = None

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
        # The page refreshes every few seconds: with an ETag it is sent only when it has changed.
        response.add_etag()
        response.make_conditional(request)
        return response

    def _grid(self, snapshot: Snapshot) -> Mapping[str, Any]:
        text, pool_text = asked_text("q"), asked_text("pool")
        all_nodes, *pools = self.counted(snapshot)
        chosen = [each for each in pools if pool_text.casefold() in each[0].name.casefold()]
        largest = sorted(chosen, key=lambda each: -len(each[0].nodes))[:MAX_POOLS]
        columns = sorted(largest, key=lambda each: each[0].name)
        classes = [e for e in snapshot.classes_by_name if text.casefold() in e.name.casefold()]
        number, page_count, listed = page_of(classes, CLASSES_A_PAGE)
        rows = []
        for each in listed:
            verdicts = verdicts_of_class(each, snapshot.shapes.shapes, self._service.policy)
            cells = [_cell(*one, verdicts, snapshot.shapes) for one in (all_nodes, *columns)]
            rows.append({"name": each.name, "cells": cells})
        return {
            "text": text,
            "pool_text": pool_text,
            "parameters": {"q": text, "pool": pool_text},
            "page": number,
            "page_count": page_count,
            "nodes_total": len(snapshot.nodes),
            "pools_total": len(pools),
            "pools": [pool for pool, _ in columns],
            "pools_left_out": len(chosen) - len(columns),
            "rows": rows,
        }

    def counted(self, snapshot: Snapshot) -> Sequence[Counted]:
        """All nodes, then the pools by name. Cached by table: it takes 0.2 s for 65,000 nodes."""
        counted = self._counted
        if counted is None or counted[0]() is not snapshot.table:
            ids = snapshot.nodes
            pools = pools_of(snapshot, self._service.pool_labels).pools
            found = [
                (pool, Counter(ids[name] for name in pool.nodes))
                for pool in (Pool("", "", list(ids)), *pools)
            ]
            counted = self._counted = (ref(snapshot.table), found)
        return counted[1]

    def _waits(
        self, snapshot: Snapshot, asked: Mapping[str, RefusedPod], others: Sequence[WaitingPod]
    ) -> Sequence[Wait]:
        """Pods that kube-scheduler asked about, the latest first; others, is_wrong ones first."""
        newest = [*asked.items()][: -MAX_REFUSED - 1 : -1]
        matching = self._service.support.counts(snapshot).nodes
        pods = [self._refused(name, pod) for name, pod in newest]
        unasked = (_unasked(each, matching) for each in others)
        return [*pods, *sorted(unasked, key=lambda each: not each.is_wrong)]

    def _refused(self, name: str, pod: RefusedPod) -> Wait:
        reasons = self._service.refused.reasons(key_of(pod))
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
