"""Who gets a page: browsers, at the addresses where others get JSON or text; and the index at /."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from flask import Flask, Response, request

from extender import __version__
from extender.http.debug_routes import DebugRoutes
from extender.http.overview_page import OverviewPage
from extender.http.pages import Pages
from extender.http.service import Service
from extender.printable import printable
from extender.reasons import shown
from extender.wire.bodies import BadRequestError

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


def wants_page() -> bool:
    """Whether the client is a browser that does not ask for JSON or text."""
    if "output" in request.args:
        return False
    kinds = ["application/json", "text/html"]
    return request.accept_mimetypes.best_match(kinds) == "text/html"


def _index(of_ops: bool, metrics: bool, pages: bool) -> str:
    return (
        f"RuntimeClass extender {__version__}{'; a browser gets a page here' if pages else ''}.\n\n"
        f"{'' if of_ops else _VERBS}{_DEBUG}{_METRICS if metrics else ''}"
        f"{'' if of_ops else _VERSION}"
        "\nAdd ?output=text to read an answer in a terminal.\n"
    )


def install_index(app: Flask, service: Service, *, of_ops: bool) -> None:
    """GET / answers all but browsers with the endpoints of this listener."""
    text = _index(of_ops, of_ops or service.serve_metrics, service.pages)

    def index() -> Response:
        return Response(text, mimetype="text/plain")

    app.add_url_rule("/", "overview", index, methods=["GET"])


def install_pages(app: Flask, service: Service, routes: DebugRoutes) -> None:
    """Answer browsers with pages, where others get JSON or text."""
    overview = OverviewPage(service, routes)
    pages = Pages(service, routes, overview)
    app.jinja_env.filters["printable"] = lambda text: printable(str(text))
    app.jinja_env.filters["default_name"] = lambda name: name or "(default)"
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.static_folder = "static"
    app.add_url_rule("/static/<path:filename>", "static", app.send_static_file, methods=["GET"])
    made: dict[str, tuple[Callable[..., Response], Sequence[str]]] = {
        "overview": (overview.answer, ("q", "pool", "page")),
        "runtimeclasses": (overview.answer, ("q", "pool", "page")),
        "runtimeclass": (pages.runtime_class, ("pool",)),
        "class_nodes": (pages.runtime_class, ("pool",)),
        "nodes": (pages.nodes, ("q", "page")),
        "node": (pages.node, ()),
        "explain": (pages.explain, ("pod",)),
    }
    for endpoint, (page, known) in made.items():
        app.view_functions[endpoint] = _either(pages, page, known, app.view_functions[endpoint])

    @app.after_request
    def allow_nothing_else(response: Response) -> Response:
        response.headers["X-Content-Type-Options"] = "nosniff"
        # So a cache on the way serves no page to a program, and no JSON to a browser.
        response.vary.add("Accept")
        if response.mimetype == "text/html":
            response.headers["Content-Security-Policy"] = _POLICY
            response.headers["Referrer-Policy"] = "no-referrer"
            response.headers["Cache-Control"] = "no-cache"
        return response


def _either(
    pages: Pages, page: Callable[..., Response], known: Sequence[str], other: Callable[..., Any]
) -> Callable[..., Any]:
    """The page for browsers, and for others the answer of the debug endpoint.

    known are the parameters of the page.
    """

    def view(**parts: str) -> Any:
        if not wants_page():
            return other(**parts)
        try:
            _check_parameters(known)
            return page(**parts)
        except Exception as error:
            return pages.error(error)

    return view


def _check_parameters(known: Sequence[str]) -> None:
    """Raises BadRequestError for one that this page does not have."""
    for name in request.args:
        if name not in known:
            there_are = ", ".join([*known, "output=json or output=text for what programs get"])
            raise BadRequestError(f"unknown parameter {shown(name)!r}; there are: {there_are}")
