"""The page at /: RuntimeClasses by node pool, refused pods, caches, findings; made when needed."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final
from weakref import ReferenceType, ref

from flask import Response, request

from extender.checks.classes_and_nodes import check_classes
from extender.checks.finding import worst_first
from extender.http.debug_routes import DebugRoutes
from extender.http.service import Service
from extender.http.templating import asked_text, page_of, render
from extender.refused_pods import RefusedPod
from extender.snapshot import NodeTable, Snapshot
from extender.verbs.overview import Cell, Overview

#: How long a page may be served from the cache; the second limit applies where nothing that it
#: shows has changed except the minutes since a pod was refused.
KEEP_SECONDS: Final = 2.0
KEEP_UNCHANGED_SECONDS: Final = 30.0
_KEPT: Final = 16

#: Rows and columns of the page: a table that a person can read, of less than 200 KB.
CLASSES_A_PAGE: Final = 50
MAX_POOLS: Final = 12
MAX_REFUSED: Final = 20
MAX_FINDINGS: Final = 50


@dataclass(frozen=True, slots=True)
class _Row:
    """A RuntimeClass and its cells, each with its pool's name; "" for all nodes."""

    name: str
    warnings: Sequence[str]
    cells: Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class _Made:
    """A page that was made a moment ago."""

    at: float
    snapshot: ReferenceType[Snapshot]
    state: tuple[object, ...]
    tag: str
    body: str

    def is_good(self, now: float, snapshot: Snapshot, state: tuple[object, ...]) -> bool:
        if now - self.at <= KEEP_SECONDS:
            return True
        is_unchanged = self.snapshot() is snapshot and self.state == state
        return is_unchanged and now - self.at <= KEEP_UNCHANGED_SECONDS


class OverviewPage:
    """Made from the newest snapshot, and cached for equal requests."""

    def __init__(
        self, service: Service, routes: DebugRoutes, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._service = service
        self._routes = routes
        self._clock = clock
        self._made: OrderedDict[str, _Made] = OrderedDict()
        # Not the table itself: the store reuses its dictionaries once nothing refers to it.
        self._counted: tuple[ReferenceType[NodeTable], Overview] | None = None

    def answer(self) -> Response:
        key, now = request.query_string.decode("latin-1"), self._clock()
        made, snapshot = self._made.get(key), self._service.source.snapshot
        state = (self._service.refused.changes, *map(str, self._service.health.ready()))
        if made is None or not made.is_good(now, snapshot, state):
            body = self._made_anew()
            tag = blake2b(body.encode("utf-8", "replace")).hexdigest()[:32]
            made = _Made(now, ref(snapshot), state, tag, body)
            self._made[key] = made
            self._made.move_to_end(key)
            if len(self._made) > _KEPT:
                self._made.popitem(last=False)
        response = Response(made.body, mimetype="text/html")
        response.set_etag(made.tag)
        response.make_conditional(request)
        return response

    def _made_anew(self) -> str:
        service, snapshot = self._service, self._routes.synced()
        text, pool_text = asked_text("q"), asked_text("pool")
        overview = self.counted(snapshot)
        findings = worst_first(check_classes(snapshot, service.support, service.policy))
        warnings: dict[str, list[str]] = {}
        for finding in findings:
            for name in finding.runtime_classes:
                warnings.setdefault(name, []).append(finding.what)
        chosen = [
            number
            for number, each in enumerate(overview.pools)
            if pool_text.casefold() in each.name.casefold()
        ]
        by_size = sorted(chosen, key=lambda number: -len(overview.pools[number].nodes))
        columns = sorted(by_size[:MAX_POOLS])
        classes = [
            each
            for name, each in sorted(snapshot.runtime_classes.items())
            if text.casefold() in name.casefold()
        ]
        page, page_count, listed = page_of(classes, CLASSES_A_PAGE)
        refused, shapes = service.refused.pods(), snapshot.shapes.shapes
        return render(
            "overview.html",
            text=text,
            pool_text=pool_text,
            parameters={"q": text, "pool": pool_text},
            page=page,
            page_count=page_count,
            classes_total=len(snapshot.runtime_classes),
            nodes_total=overview.total,
            pools_total=len(overview.pools),
            pools=[overview.pools[number] for number in columns],
            pools_left_out=len(chosen) - len(columns),
            rows=[
                _Row(
                    each.name,
                    warnings.get(each.name, ()),
                    _cells(overview, overview.row(each, shapes, service.policy), columns),
                )
                for each in listed
            ],
            refused=[self._refused(each) for each in refused[: -MAX_REFUSED - 1 : -1]],
            refused_left_out=max(0, len(refused) - MAX_REFUSED),
            health=service.health.ready(),
            findings=findings[:MAX_FINDINGS],
            findings_left_out=max(0, len(findings) - MAX_FINDINGS),
        )

    def counted(self, snapshot: Snapshot) -> Overview:
        """The nodes by pool: 0.2 s for 65,000, so once for each state of the nodes."""
        counted = self._counted
        if counted is None or counted[0]() is not snapshot.table:
            overview = Overview(snapshot, self._service.pool_labels)
            counted = self._counted = (ref(snapshot.table), overview)
        return counted[1]

    def _refused(self, pod: RefusedPod) -> Mapping[str, str]:
        reasons = self._service.refused.reasons(pod.key)
        minutes = int((self._service.refused.now() - pod.at) // 60)
        return {
            "namespace": pod.namespace or "default",
            "name": pod.name,
            "runtime_class": pod.runtime_class,
            "ago": f"{minutes} min ago" if minutes else "just now",
            "why": ", ".join(f"{count} {text}" for count, text in reasons),
        }


def _cells(
    overview: Overview, cells: Sequence[Cell], columns: Sequence[int]
) -> Sequence[Mapping[str, object]]:
    of_all = Cell(sum(each.matching for each in cells), overview.total)
    listed = [("", of_all), *((overview.pools[number].name, cells[number]) for number in columns)]
    return [
        {"pool": pool, "matching": cell.matching, "total": cell.total, "why": cell.why}
        for pool, cell in listed
    ]
