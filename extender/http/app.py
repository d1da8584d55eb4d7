"""The applications of the three listeners: serve's, webhook's, and --ops-bind's."""

import platform
from collections.abc import Mapping
from http import HTTPStatus

from flask import Flask, abort, request
from prometheus_client import exposition

from extender import __version__
from extender.http.debug_routes import install_debug
from extender.http.error_answers import install_error_handlers
from extender.http.exchange import Answer, Application, Request
from extender.http.health import health_routes
from extender.http.page_routes import install_index, install_pages
from extender.http.review_routes import WebhookService, review_routes
from extender.http.routing import Probe, Route, Router, Threads, VerbRoute
from extender.http.service import Service
from extender.http.verb_routes import FilterRoute, PreemptRoute, PrioritizeRoute
from extender.metrics import Metrics
from extender.wire.bodies import encode


def create_app(service: Service, threads: Threads) -> Application:
    """The main listener's application."""
    of_verb, ahead = service.metrics.of_verb, service.scores_ahead.work
    verbs = FilterRoute(service), PrioritizeRoute(service), PreemptRoute(service)
    filters, prioritizes, preempts = verbs
    routes = {
        b"/filter": VerbRoute(filters, of_verb("filter"), threads, filters.quickly, ahead),
        b"/prioritize": VerbRoute(prioritizes, of_verb("prioritize"), threads, prioritizes.quickly),
        b"/preempt": VerbRoute(preempts, of_verb("preempt"), threads, preempts.quickly),
    }
    pages = _pages(service, threads)
    return _router({**routes, **_probes(service, threads)}, pages, threads, service.metrics)


def _pages(service: Service, threads: Threads, *, of_ops: bool = False) -> Flask:
    """The endpoints for people, and HTML for browsers unless it is switched off."""
    app = bare_app()
    routes = install_debug(app, service, threads.turn, of_ops=of_ops)
    install_index(app, service, of_ops=of_ops)
    if service.pages:
        install_pages(app, service, routes)
    return app


def create_webhook_app(service: WebhookService, threads: Threads) -> Application:
    """The application of the webhook's main listener."""
    routes = {**review_routes(service, threads), **_probes(service, threads)}
    return _router(routes, bare_app(), threads, service.metrics)


def create_ops_app(service: Service | WebhookService, threads: Threads) -> Application:
    """The application of --ops-bind: probes and metrics, and serve's pages for browsers."""
    routes = {**health_routes(service.health), b"/metrics": _metrics(service.metrics, threads)}
    if isinstance(service, Service) and service.pages:
        pages = _pages(service, threads, of_ops=True)
    else:
        pages = bare_app()
    return _router(routes, pages, threads, service.metrics)


def bare_app() -> Flask:
    """A Flask application without any path; its errors are JSON."""
    app = Flask("extender.http", static_folder=None)
    app.url_map.merge_slashes = False
    install_error_handlers(app)

    @app.before_request
    def refuse_doubled_slash() -> None:
        # werkzeug would take //filter for /filter. kube-scheduler asks for //filter if its
        # configuration says "/filter"; that mistake should be noticed, not work halfway.
        if request.environ["PATH_INFO"].startswith("//"):
            abort(HTTPStatus.NOT_FOUND)

    return app


def _router(
    routes: Mapping[bytes, Route], pages: Flask, threads: Threads, metrics: Metrics
) -> Router:
    return Router(routes, pages, threads, metrics.refused_early, queried=(b"/prioritize",))


def _probes(service: Service | WebhookService, threads: Threads) -> dict[bytes, Route]:
    routes: dict[bytes, Route] = {**health_routes(service.health), b"/version": Probe(_version)}
    if service.serve_metrics:
        routes[b"/metrics"] = _metrics(service.metrics, threads)
    return routes


def _version(_request: Request) -> Answer:
    return Answer([encode({"version": __version__, "python": platform.python_version()})])


def _metrics(metrics: Metrics, threads: Threads) -> Probe:
    def answer(request: Request) -> Answer:
        accepted = request.header(b"accept").decode("latin-1")
        try:
            encoder, content_type = exposition.choose_encoder(accepted)
        except (TypeError, ValueError):  # versions that are none
            encoder, content_type = exposition.choose_encoder("")
        return Answer([encoder(metrics.registry)], content_type=content_type.encode())

    return Probe(answer, threads.metrics)
