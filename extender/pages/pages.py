"""The HTML pages: browsers see the documents that other clients get as JSON. The index at /.

All values in a page are escaped: pod authors and nodes choose names, labels and texts.
"""

import re
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final

import orjson
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from extender import __version__
from extender.explain.endpoint import ExplainArgs, ExplainEndpoint, check_parameters, synced
from extender.explain.text import NOT_JUDGED
from extender.http.answers import Refusal, answer_of
from extender.inventory.endpoint import InventoryEndpoint, class_named
from extender.inventory.matching import class_nodes_document
from extender.model.reasons import printable
from extender.pages.overview import Counted, OverviewPage
from extender.pages.templating import asked_text, form_fields, page, page_of
from extender.rules.class_nodes import ClassNodes, nodes_of_class
from extender.rules.node_shape import Shape
from extender.verbs.service import Service

#: The number of nodes on the page of nodes, and for each reason on the page of a class.
NODES_A_PAGE: Final = 100
NODES_A_REASON: Final = 100

#: The number of objects of a pasted text that the form lets people choose from.
MAX_CHOICES: Final = 20

#: The number of a pod's requirements and warnings on a page; its author may write thousands.
MAX_EXPLAINED: Final = 200

#: The pieces of a sentence that a reader copies: commands, and parts of manifests.
_COPIED: Final = re.compile(
    r"(?:^|(?<=: ))(kubectl [^;]+|serve --[^;]+|nodeSelector: [^;]+|\{.+\})"
)

_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:;"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

_VERBS: Final = """\
POST /filter                     ExtenderArgs -> ExtenderFilterResult
POST /prioritize                 ExtenderArgs -> HostPriorityList; ?output=text: every score
POST /preempt                    ExtenderPreemptionArgs -> ExtenderPreemptionResult
"""
_DEBUG: Final = """\
POST /explain                    a Pod or ExtenderArgs in JSON, a Pod or workload in YAML: why it
                                 fits or does not; ?nodes=all: on each node
GET  /explain?pod=NAMESPACE/NAME the same for a pod that is there
GET  /runtimeclasses             every RuntimeClass; ?q=PART of its name
GET  /runtimeclasses/NAME        one of them
GET  /runtimeclasses/NAME/nodes  the nodes that match it, and why the others don't;
                                 ?limit=N names in each list
GET  /nodes                      the nodes, and the RuntimeClasses they support; ?q=, ?limit=
GET  /nodes/NAME                 one of them, and why it does not support the others
GET  /readyz?verbose             the state of the caches; /livez, /healthz
"""


def install_index(app: Flask, service: Service, *, of_ops: bool) -> None:
    """GET / lists the endpoints of this listener. For browsers a page replaces the list."""
    text = f"RuntimeClass extender {__version__}"
    text += "; a browser gets a page here.\n\n" if service.pages else ".\n\n"
    text += _DEBUG if of_ops else _VERBS + _DEBUG
    if of_ops or service.serve_metrics:
        text += "GET  /metrics                    for Prometheus\n"
    if not of_ops:
        text += "GET  /version\n"
    text += "\nAdd ?output=text to read an answer in a terminal.\n"

    def index() -> Response:
        check_parameters()
        return Response(text, mimetype="text/plain")

    app.add_url_rule("/", "overview", index, methods=["GET"])


class Pages:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._explain = ExplainEndpoint(service)
        self._inventory = InventoryEndpoint(service)
        self._overview = OverviewPage(service)

    def install(self, app: Flask) -> None:
        app.jinja_env.filters["printable"] = lambda text: printable(str(text))
        app.jinja_env.filters["pieces"] = lambda text: _COPIED.split(printable(text))
        app.jinja_env.filters["default_name"] = lambda name: name or "(default)"
        app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
        app.context_processor(lambda: {"stale": self._stale()})
        app.static_folder = "static"
        app.add_url_rule("/static/<path:filename>", "static", app.send_static_file, methods=["GET"])
        pages: dict[str, tuple[Callable[..., Response], *tuple[str, ...]]] = {
            "overview": (self._overview.answer, "q", "pool", "page"),
            "runtimeclasses": (self._overview.answer, "q", "pool", "page"),
            "runtimeclass": (self._class, "pool"),
            "class_nodes": (self._class, "pool"),
            "nodes": (self._nodes, "q", "page"),
            "node": (self._node,),
            "explain": (self._explanation, "pod"),
        }
        for endpoint, (view, *known) in pages.items():
            app.view_functions[endpoint] = _either(view, known, app.view_functions[endpoint])
        as_json = app.error_handler_spec[None][None][HTTPException]

        def http_error(error: HTTPException) -> Response:
            answer: Response = app.ensure_sync(as_json)(error)
            return _error_page(answer) if _is_browser() else answer

        app.register_error_handler(HTTPException, http_error)
        app.after_request(_allow_nothing_else)

    def _stale(self) -> Sequence[str]:
        """The sources that are out of date, and since when; empty before the first sync."""
        checks = self._service.health.ready()
        return [f"{each.name}: {each.detail}" for each in checks if each.passed and each.detail]

    def _class(self, name: str) -> Response:
        snapshot, pool = synced(self._service), asked_text("pool")
        nodes = nodes_of_class(class_named(snapshot, name), snapshot, self._service.policy)
        if pool:
            nodes = _of_pool(nodes, self._overview.counted(snapshot), pool)
        return page(
            "class.html",
            item=self._inventory.class_document(name),
            nodes=class_nodes_document(name, nodes, snapshot, NODES_A_REASON),
            matching_count=len(nodes.matching),
            pool=pool,
        )

    def _nodes(self) -> Response:
        snapshot, text = synced(self._service), asked_text("q")
        wanted = text.lower().encode("utf-8", "replace")
        names = sorted(name for name in snapshot.nodes if wanted in name.lower())
        number, page_count, listed = page_of(names, NODES_A_PAGE)
        return page(
            "nodes.html",
            text=text,
            found=len(names),
            nodes_total=len(snapshot.nodes),
            parameters={"q": text},
            page=number,
            page_count=page_count,
            **self._inventory.node_list(listed, snapshot),
        )

    def _node(self, name: str) -> Response:
        document, snapshot = self._inventory.node_document(name), synced(self._service)
        asked = name.encode("utf-8", "replace")
        with self._service.turn.released():
            found = self._service.find_node(name)
        # Shape and labels are empty for a node that has just been deleted.
        shape, labels = snapshot.shape(asked) or Shape(), snapshot.table.labels.get(asked, b"{}")
        versions = found.versions if found else ("", "")
        facts = ("Kubelet", versions[0]), ("Container runtime", versions[1])
        return page(
            "node.html",
            facts=(*facts, ("Operating system", shape.kubelet.system)),
            reported=sorted(shape.handlers, key=lambda each: each.name),
            taints=list(map(str, found.taints if found else shape.taints)),
            labels=sorted(orjson.loads(labels).items()),
            **document,
        )

    def _explanation(self) -> Response:
        asked, rules = request.args.get("pod"), None
        told: Sequence[str] = ()
        of_form: dict[str, Any] = {}
        if request.method == "POST":
            fields = form_fields()
            pasted, which = fields.get("pod", ""), fields.get("which", "")
            pods, told = self._service.read_pods(pasted.encode("utf-8", "replace"))
            which = which if which in pods else next(iter(pods))
            pod, choices = pods[which], list(pods) if len(pods) > 1 else []
            of_form = {"pasted": pasted, "which": which, "choices": choices[:MAX_CHOICES]}
            of_form["choices_total"] = len(choices)
        elif asked is not None:
            pod, rules = self._explain.pod_named(asked)
        else:
            return page("explain.html")
        document = self._explain.document(ExplainArgs(pod), rules)
        return page(
            "explain.html",
            title=of_form.get("which") or f"Pod {document['pod']}",
            told=[*told, *document["warnings"]],
            not_judged=NOT_JUDGED,
            asked="" if of_form else asked,
            most=MAX_EXPLAINED,
            **of_form,
            **document,
        )


def _is_browser() -> bool:
    best = request.accept_mimetypes.best_match(["application/json", "text/html"])
    return best == "text/html" and "output" not in request.args


def _either(
    view: Callable[..., Response], known: Sequence[str], other: Callable[..., Any]
) -> Callable[..., Any]:
    """The page for browsers, the endpoint for others. known: the page's query parameters."""

    def answer(**parts: str) -> Any:
        if not _is_browser():
            return other(**parts)
        try:
            check_parameters(*known)
            return view(**parts)
        except Exception as error:
            found = answer_of(error)
            similar = getattr(error, "similar", ())
            return _error_page(Response(b"".join(found.chunks), found.status), similar)

    return answer


def _error_page(answer: Response, similar: Sequence[str] = ()) -> Response:
    """The page for an error, from its JSON answer."""
    try:
        pasted = form_fields().get("pod", "") if request.method == "POST" else ""
    except Refusal:
        pasted = ""
    response = page(
        "error.html",
        status=answer.status_code,
        phrase=HTTPStatus(answer.status_code).phrase,
        message=orjson.loads(answer.data)["error"],
        about=request.endpoint,
        similar=similar,
        asked=request.args.get("pod"),
        pasted=pasted,
    )
    response.status_code = answer.status_code
    if "Allow" in answer.headers:
        response.headers["Allow"] = answer.headers["Allow"]
    return response


def _allow_nothing_else(response: Response) -> Response:
    response.headers["X-Content-Type-Options"] = "nosniff"
    # So that a cache serves no page to a program, and no JSON to a browser.
    response.vary.add("Accept")
    if response.mimetype == "text/html":
        response.headers["Content-Security-Policy"] = _POLICY
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cache-Control"] = "no-cache"
    return response


def _of_pool(nodes: ClassNodes, pools: Sequence[Counted], pool: str) -> ClassNodes:
    members = {name for each, _ in pools if each.name == pool for name in each.nodes}
    of_reasons = [
        (reason, [name for name in names if name in members])
        for reason, names in nodes.not_matching
    ]
    return ClassNodes(
        [name for name in nodes.matching if name in members],
        [(reason, names) for reason, names in of_reasons if names],
    )
