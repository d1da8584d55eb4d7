"""The application: create_app(service) → WSGI."""

import platform

from flask import Flask, Response, abort, request
from prometheus_client import exposition

from extender import __version__
from extender.http.debug_routes import install_debug
from extender.http.errors import install_error_handlers
from extender.http.health import install_health
from extender.http.service import Service
from extender.http.verb_routes import install_verbs
from extender.http.webhook import WebhookService, install_webhook
from extender.http.wire import encode
from extender.metrics import Metrics


def _bare_app() -> Flask:
    app = Flask("extender", static_folder=None)
    app.url_map.merge_slashes = False
    install_error_handlers(app)

    @app.before_request
    def refuse_doubled_slash() -> None:
        # werkzeug would take //filter for /filter. It is what a verb written "/filter" in the
        # scheduler's configuration leads to, and should be found out, not half work.
        if request.environ["PATH_INFO"].startswith("//"):
            abort(404)

    return app


def create_app(service: Service) -> Flask:
    """The main listener's application."""
    app = _bare_app()
    install_verbs(app, service)
    install_debug(app, service)
    _install_probes(app, service)
    return app


def create_webhook_app(service: WebhookService) -> Flask:
    """The application of the webhook's main listener."""
    app = _bare_app()
    install_webhook(app, service)
    _install_probes(app, service)
    return app


def _install_probes(app: Flask, service: Service | WebhookService) -> None:
    install_health(app, service.health)
    if service.serve_metrics:
        _install_metrics(app, service.metrics)

    @app.get("/version")
    def version() -> Response:
        document = {"version": __version__, "python": platform.python_version()}
        return Response(encode(document), mimetype="application/json")


def create_ops_app(service: Service | WebhookService) -> Flask:
    """The application of --ops-bind: probes and metrics only."""
    app = _bare_app()
    install_health(app, service.health)
    _install_metrics(app, service.metrics)
    return app


def _install_metrics(app: Flask, metrics: Metrics) -> None:
    @app.get("/metrics")
    def metrics_text() -> Response:
        encoder, content_type = exposition.choose_encoder(request.headers.get("Accept", ""))
        return Response(encoder(metrics.registry), content_type=content_type)
