"""Who gets a page: browsers, at the addresses where others get JSON or text; and the index at /."""

from collections.abc import Callable
from typing import Any, Final

from flask import Flask, Response, request

from extender import __version__
from extender.http.debug_routes import DebugRoutes
from extender.http.overview_page import OverviewPage
from extender.http.pages import Pages
from extender.http.service import Service
from extender.printable import printable

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
    overview = OverviewPage(service, routes)
    pages = Pages(service, routes, overview)
    app.jinja_env.filters["printable"] = lambda text: printable(str(text))
    app.jinja_env.filters["default_name"] = lambda name: name or "(default)"
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.static_folder = "static"

    def index() -> Response:
        return overview.answer() if wants_page() else Response(told, mimetype="text/plain")

    app.add_url_rule("/", "overview", index, methods=["GET"])
    app.add_url_rule("/static/<path:filename>", "static", app.send_static_file, methods=["GET"])
    made: dict[str, Callable[..., Response]] = {
        "overview": overview.answer,
        "runtimeclasses": overview.answer,
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
