"""The applications of the three listeners: serve's, webhook's, and --ops-bind's."""

import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from a2wsgi import WSGIMiddleware
from flask import Flask
from prometheus_client import exposition

from extender import __version__
from extender.admission.endpoint import WebhookService, review_routes
from extender.explain.endpoint import ExplainEndpoint
from extender.http.answers import TEXT, Answer, Request, Route, install_error_handlers
from extender.http.asgi import ASGI, Application
from extender.http.health import Probe, health_routes
from extender.http.limits import DEFAULT_MAX_BODY_BYTES
from extender.inventory.endpoint import InventoryEndpoint
from extender.model.errors import BadRequestError
from extender.pages.pages import Pages, install_index
from extender.verbs.bodies import encode
from extender.verbs.endpoint import FilterVerb, PreemptVerb, PrioritizeVerb, VerbRoute
from extender.verbs.metrics import Metrics
from extender.verbs.service import Service

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

_ARGS: Final = 'an ExtenderArgs, such as {"Pod": {"spec": {…}}, "NodeNames": ["NODE"]}'
_VICTIMS: Final = (
    'an ExtenderPreemptionArgs, such as {"Pod": {…}, "NodeNameToMetaVictims": {"NODE": {…}}}'
)

#: The largest body for --ops-bind: a Pod that is pasted into the form of /explain.
OPS_BODY_BYTES: Final = 8 * 2**20

#: Threads for the pages of --ops-bind, and for the webhook's Flask, which serves only errors.
_FEW_THREADS: Final = 2


def create_app(
    service: Service, max_body_bytes: int = DEFAULT_MAX_BODY_BYTES, threads: int = 8
) -> Application:
    of_verb = service.metrics.of_verb
    routes: dict[str, Route] = {
        "/filter": VerbRoute(FilterVerb(service), of_verb("filter"), _ARGS),
        "/prioritize": VerbRoute(PrioritizeVerb(service), of_verb("prioritize"), _ARGS),
        "/preempt": VerbRoute(PreemptVerb(service), of_verb("preempt"), _VICTIMS),
        **_probes(service),
    }
    pages = _asgi(service.turn.taken_by(_pages(service)), threads)
    count_refused = service.metrics.refused_early
    return Application(routes, pages, max_body_bytes, count_refused, ("/prioritize",))


def _pages(service: Service, *, of_ops: bool = False) -> Flask:
    """The endpoints for people, and HTML for browsers unless it is switched off."""
    app = bare_app()
    ExplainEndpoint(service).install(app, of_ops=of_ops)
    InventoryEndpoint(service).install(app)
    install_index(app, service, of_ops=of_ops)
    if service.pages:
        Pages(service).install(app)
    return app


def create_webhook_app(
    service: WebhookService, max_body_bytes: int = DEFAULT_MAX_BODY_BYTES, threads: int = 8
) -> Application:
    routes = {**review_routes(service, threads), **_probes(service)}
    routes["/"] = _index(routes)
    pages = _asgi(bare_app(), _FEW_THREADS)
    return Application(routes, pages, max_body_bytes, service.metrics.refused_early)


def create_ops_app(service: Service | WebhookService) -> Application:
    """The application of --ops-bind: probes and metrics, and serve's pages for browsers."""
    routes = {**health_routes(service.health), "/metrics": _metrics_route(service.metrics)}
    pages: WSGIApplication = bare_app()
    if isinstance(service, Service) and service.pages:
        pages = service.turn.taken_by(_pages(service, of_ops=True))
    else:
        routes["/"] = _index(routes)
    app = _asgi(pages, _FEW_THREADS)
    return Application(routes, app, OPS_BODY_BYTES, service.metrics.refused_early)


def _asgi(app: "WSGIApplication", threads: int) -> ASGI:
    # The types of both packages differ in name only.
    return cast(ASGI, WSGIMiddleware(cast(Any, app), workers=threads))


def bare_app() -> Flask:
    """A Flask application without any path; its errors are JSON."""
    app = Flask("extender.pages", static_folder=None)
    app.url_map.merge_slashes = False
    install_error_handlers(app)
    return app


def _index(routes: Mapping[str, Route]) -> Probe:
    """GET / of a listener without pages: lists its endpoints."""
    rows = [f"{each.methods[0]:4} {path:9} {each.about}" for path, each in routes.items()]
    text = "\n".join([f"RuntimeClass extender {__version__}", "", *map(str.rstrip, rows), ""])
    return Probe(lambda _: Answer([text.encode()], content_type=TEXT))


def _probes(service: Service | WebhookService) -> dict[str, Route]:
    routes: dict[str, Route] = {**health_routes(service.health), "/version": Probe(_version)}
    if service.serve_metrics:
        routes["/metrics"] = _metrics_route(service.metrics)
    return routes


def _version(request: Request) -> Answer:
    if request.query:
        raise BadRequestError("no parameter is known here")
    return Answer([encode({"version": __version__, "python": platform.python_version()})])


def _metrics_route(metrics: Metrics) -> Probe:
    """GET /metrics, in a thread: the metrics of a thousand classes take some milliseconds."""

    def answer(request: Request) -> Answer:
        accepted = request.header(b"accept").decode("latin-1")
        try:
            encoder, content_type = exposition.choose_encoder(accepted)
        except (TypeError, ValueError):  # malformed versions
            encoder, content_type = exposition.choose_encoder("")
        return Answer([encoder(metrics.registry)], content_type=content_type.encode())

    return Probe(answer, in_thread=True, about="for Prometheus")
