"""The pages for browsers: what the debug endpoints answer, as HTML, and the overview at /.

Everything that stands in a page is escaped: names, labels and texts are written by pod authors and
nodes. No page needs another host, nor a script for more than its refreshing.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, Final
from weakref import ReferenceType, ref

import orjson
from flask import Flask, Response, render_template, request

from extender import __version__
from extender.checks.finding import worst_first
from extender.checks.runtimeclasses import check_classes
from extender.http.debug_routes import DebugRoutes, Query, class_of, node_of
from extender.http.errors import answer_of
from extender.http.exchange import Refusal
from extender.http.forms import form_text
from extender.http.service import Service
from extender.printable import printable
from extender.printing.documents import (
    class_document,
    class_nodes_document,
    node_document,
    nodes_list_document,
    states_of,
)
from extender.refused import RefusedPod
from extender.snapshot import NodeTable, Snapshot
from extender.verbs.nodes import ClassNodes, classes_of_node, nodes_of_class
from extender.verbs.overview import Cell, Overview
from extender.verbs.pools import Pool
from extender.wire.bodies import BadRequestError
from extender.wire.explain import ExplainArgs

#: How often a page asks for itself again.
REFRESH_SECONDS: Final = 5

#: How long a page that was made may be given to others who ask for the same; and how long where
#: nothing has changed that it shows but the minutes since a pod was refused.
KEEP_SECONDS: Final = 2.0
KEEP_UNCHANGED_SECONDS: Final = 30.0
_KEPT: Final = 16

#: Rows and columns of a page: a table that a person can read, of less than 200 KB.
CLASSES_A_PAGE: Final = 50
MAX_POOLS: Final = 12
NODES_A_PAGE: Final = 100
NODES_A_REASON: Final = 100
MAX_REFUSED: Final = 20
MAX_FINDINGS: Final = 50

#: Of what a pod requires, and of what there is to warn about; its author decides how much that is.
MAX_EXPLAINED: Final = 200

#: The most that is read of a search text: no name is longer.
_MAX_TEXT: Final = 253
_MAX_PAGE_DIGITS: Final = 6

_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:;"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

_VERBS: Final = """\
POST /filter                     ExtenderArgs -> ExtenderFilterResult
POST /prioritize                 ExtenderArgs -> HostPriorityList
POST /preempt                    ExtenderPreemptionArgs -> ExtenderPreemptionResult
"""
_DEBUG: Final = """\
POST /explain                    a Pod, or ExtenderArgs: why it fits or does not
GET  /explain?pod=NAMESPACE/NAME the same for a pod that is there
GET  /runtimeclasses             every RuntimeClass
GET  /runtimeclasses/NAME        one of them
GET  /runtimeclasses/NAME/nodes  the nodes that match it, and why the others don't
GET  /nodes                      the nodes, and the RuntimeClasses they support
GET  /nodes/NAME                 one of them, and why it does not support the others
GET  /readyz?verbose             the state of the caches; /livez, /healthz
"""
_METRICS: Final = "GET  /metrics                    for Prometheus\n"
_VERSION: Final = "GET  /version\n"


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


class Pages:
    """HTML made from the newest snapshot; what can't be answered is a page too."""

    def __init__(
        self, service: Service, routes: DebugRoutes, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._service = service
        self._routes = routes
        self._clock = clock
        self._made: OrderedDict[str, _Made] = OrderedDict()
        # Not the table itself: the store uses its dictionaries again once nobody has it.
        self._counted: tuple[ReferenceType[NodeTable], Overview] | None = None

    def overview(self) -> Response:
        key, now = request.query_string.decode("latin-1"), self._clock()
        made, snapshot = self._made.get(key), self._service.source.snapshot
        state = (self._service.refused.changes, *map(str, self._service.health.ready()))
        if made is None or not made.is_good(now, snapshot, state):
            body = self._overview()
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

    def _overview(self) -> str:
        service, snapshot = self._service, self._routes.synced()
        text, pool_text = _asked_text("q"), _asked_text("pool")
        overview = self._overview_of(snapshot)
        findings = worst_first(check_classes(snapshot, service.support, service.policy))
        warnings: dict[str, list[str]] = {}
        for finding in findings:
            for name in finding.runtime_classes:
                warnings.setdefault(name, []).append(finding.what)
        chosen = [number for number, each in enumerate(overview.pools) if _has(each, pool_text)]
        by_size = sorted(chosen, key=lambda number: -len(overview.pools[number].nodes))
        columns = sorted(by_size[:MAX_POOLS])
        classes = [
            each
            for name, each in sorted(snapshot.runtime_classes.items())
            if text.casefold() in name.casefold()
        ]
        page, page_count, listed = _page_of(classes, CLASSES_A_PAGE)
        refused, shapes = service.refused.pods(), snapshot.shapes.shapes
        return self.render(
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

    def _overview_of(self, snapshot: Snapshot) -> Overview:
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

    def runtime_class(self, name: str) -> Response:
        service, snapshot = self._service, self._routes.synced()
        runtime_class, pool = class_of(snapshot, name), _asked_text("pool")
        nodes = nodes_of_class(runtime_class, snapshot, service.policy)
        if pool:
            nodes = _of_pool(nodes, self._overview_of(snapshot).pools, pool)
        shown = nodes.matching[:NODES_A_REASON]
        findings = check_classes(snapshot, service.support, service.policy)
        counts = service.support.counts(snapshot).nodes
        return self.answer(
            "class.html",
            item=class_document(runtime_class, snapshot, counts, findings),
            nodes=class_nodes_document(name, nodes, states_of(shown, snapshot), NODES_A_REASON),
            matching_count=len(nodes.matching),
            pool=pool,
        )

    def nodes(self) -> Response:
        snapshot, text = self._routes.synced(), _asked_text("q")
        wanted = text.encode("utf-8", "replace")
        names = sorted(name for name in snapshot.nodes if wanted in name)
        page, page_count, listed = _page_of(names, NODES_A_PAGE)
        support = self._service.support
        rows = []
        for name in listed:
            shape_id = snapshot.nodes[name]
            shape = snapshot.shapes.shapes[shape_id - 1]
            rows.append((name, shape, support.classes(snapshot, shape_id)))
        return self.answer(
            "nodes.html",
            text=text,
            found=len(names),
            nodes_total=len(snapshot.nodes),
            parameters={"q": text},
            page=page,
            page_count=page_count,
            **nodes_list_document(rows, 0),
        )

    def node(self, name: str) -> Response:
        snapshot = self._routes.synced()
        shape = node_of(snapshot, name)
        by_name = sorted(snapshot.runtime_classes.values(), key=lambda each: each.name)
        classes = classes_of_node(shape, by_name, self._service.policy)
        return self.answer("node.html", **node_document(name, shape, classes))

    def explain(self) -> Response:
        rules = None
        if request.method == "POST":
            pasted = form_text(request, "pod")
            pod = self._service.read_pod(pasted.encode("utf-8", "replace"))
        elif "pod" in request.args:
            pasted = ""
            pod, rules = self._routes.pod_named(request.args["pod"])
        else:
            return self.answer("explain.html")
        document = self._routes.explanation(
            ExplainArgs(pod, None), Query(False, False, None), rules
        )
        asked = "" if pasted else request.args.get("pod", "")
        return self.answer(
            "explain.html", pasted=pasted, asked=asked, most=MAX_EXPLAINED, **document
        )

    def render(self, template: str, **values: Any) -> str:
        return render_template(
            template, version=__version__, refresh_seconds=REFRESH_SECONDS, **values
        )

    def answer(self, template: str, **values: Any) -> Response:
        return Response(self.render(template, **values), mimetype="text/html")

    def error(self, error: Exception) -> Response:
        """The same error as elsewhere, for a person."""
        answer = answer_of(error)
        try:
            pasted = form_text(request, "pod") if request.method == "POST" else ""
        except Refusal:
            pasted = ""
        message = orjson.loads(b"".join(answer.chunks))["error"]
        response = self.answer(
            "error.html",
            status=answer.status,
            phrase=HTTPStatus(answer.status).phrase,
            message=message,
            pasted=pasted,
        )
        response.status_code = answer.status
        return response


def _cells(
    overview: Overview, cells: Sequence[Cell], columns: Sequence[int]
) -> Sequence[Mapping[str, object]]:
    of_all = Cell(sum(each.matching for each in cells), overview.total)
    listed = [("", of_all), *((overview.pools[number].name, cells[number]) for number in columns)]
    return [
        {"pool": pool, "matching": cell.matching, "total": cell.total, "why": cell.why}
        for pool, cell in listed
    ]


def _has(pool: Pool, text: str) -> bool:
    return text.casefold() in pool.name.casefold()


def _of_pool(nodes: ClassNodes, pools: Sequence[Pool], pool: str) -> ClassNodes:
    members = {name for each in pools if each.name == pool for name in each.nodes}
    return ClassNodes(
        [name for name in nodes.matching if name in members],
        [
            (reason, found)
            for reason, names in nodes.not_matching
            if (found := [name for name in names if name in members])
        ],
    )


def _asked_text(name: str) -> str:
    return request.args.get(name, "")[:_MAX_TEXT]


def _page_of(items: Sequence[Any], size: int) -> tuple[int, int, Sequence[Any]]:
    """(number of the page that is asked for, number of pages, what is on it)."""
    asked = request.args.get("page", "1")
    if not (asked.isascii() and asked.isdigit() and len(asked) <= _MAX_PAGE_DIGITS):
        raise BadRequestError("page: expected a whole number")
    count = max(1, math.ceil(len(items) / size))
    page = min(max(1, int(asked)), count)
    return page, count, items[(page - 1) * size : page * size]


def wants_page() -> bool:
    """Whether it is a browser that asks, and not for JSON or text."""
    if "output" in request.args:
        return False
    kinds = ["application/json", "text/html"]
    return request.accept_mimetypes.best_match(kinds) == "text/html"


def _index(of_ops: bool, metrics: bool) -> str:
    """What GET / tells who is no browser: the endpoints of this listener."""
    return (
        f"RuntimeClass extender {__version__}; a browser gets a page here.\n\n"
        f"{'' if of_ops else _VERBS}{_DEBUG}{_METRICS if metrics else ''}"
        f"{'' if of_ops else _VERSION}"
        "\nAdd ?output=text to read an answer in a terminal.\n"
    )


def install_pages(
    app: Flask, service: Service, routes: DebugRoutes, *, of_ops: bool = False
) -> None:
    """Answer browsers with pages, and GET / to others with an index of the listener."""
    told = _index(of_ops, metrics=of_ops or service.serve_metrics)
    pages = Pages(service, routes)
    app.jinja_env.filters["printable"] = lambda text: printable(str(text))
    app.jinja_env.filters["default_name"] = lambda name: name or "(default)"
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.static_folder = "static"

    def index() -> Response:
        return pages.overview() if wants_page() else Response(told, mimetype="text/plain")

    app.add_url_rule("/", "overview", index, methods=["GET"])
    app.add_url_rule("/static/<path:filename>", "static", app.send_static_file, methods=["GET"])
    made: dict[str, Callable[..., Response]] = {
        "overview": pages.overview,
        "runtimeclasses": pages.overview,
        "runtimeclass": pages.runtime_class,
        "class_nodes": pages.runtime_class,
        "nodes": pages.nodes,
        "node": pages.node,
        "explain": pages.explain,
    }
    for endpoint, page in made.items():
        app.view_functions[endpoint] = _either(pages, page, app.view_functions[endpoint])

    @app.after_request
    def allow_nothing_else(response: Response) -> Response:
        response.headers["X-Content-Type-Options"] = "nosniff"
        # A cache on the way gives a page to no program, nor JSON to a browser.
        response.vary.add("Accept")
        if response.mimetype == "text/html":
            response.headers["Content-Security-Policy"] = _POLICY
            response.headers["Referrer-Policy"] = "no-referrer"
            response.headers["Cache-Control"] = "no-cache"
        return response


def _either(
    pages: Pages, page: Callable[..., Response], other: Callable[..., Any]
) -> Callable[..., Any]:
    """The page for browsers, and for others what stands there without pages."""

    def view(**parts: str) -> Any:
        if not wants_page():
            return other(**parts)
        try:
            return page(**parts)
        except Exception as error:
            return pages.error(error)

    return view
