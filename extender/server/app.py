"""The applications of the three listeners: serve's, webhook's, and --ops-bind's."""

import asyncio
import platform
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from a2wsgi import WSGIMiddleware
from flask import Flask, abort, request
from prometheus_client import exposition

from extender import __version__
from extender.admission.endpoint import WebhookService, review_routes
from extender.explain.endpoint import ExplainEndpoint
from extender.http.answers import TEXT, Answer, Request, Route, install_error_handlers
from extender.http.asgi import ASGI, Application
from extender.http.health import Probe, health_routes
from extender.http.limits import Capacity
from extender.inventory.endpoint import InventoryEndpoint
from extender.pages.pages import Pages, install_index
from extender.verbs.bodies import encode
from extender.verbs.endpoint import FilterVerb, PreemptVerb, PrioritizeVerb, VerbRoute
from extender.verbs.metrics import Metrics
from extender.verbs.service import Service

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

#: The largest body for --ops-bind: a Pod that is pasted into the form of /explain.
OPS_BODY_BYTES: Final = 8 * 2**20

_ARGS: Final = 'an ExtenderArgs, such as {"Pod": {"spec": {…}}, "NodeNames": ["NODE"]}'
_VERB_BODIES: Final = {
    "/filter": _ARGS,
    "/prioritize": _ARGS,
    "/preempt": 'an ExtenderPreemptionArgs, such as {"Pod": {…}, "NodeNameToMetaVictims": {…}}',
}
_REVIEW: Final = "an AdmissionReview (admission.k8s.io/v1) of a Pod"
_REVIEW_BODIES: Final = {"/mutate": _REVIEW, "/validate": _REVIEW}

_PROBES: Final = """\
GET  /readyz?verbose  the state of the caches; /livez, /healthz
GET  /metrics         for Prometheus
"""
_WEBHOOK_INDEX: Final = f"""\
RuntimeClass admission webhook {__version__}. kube-apiserver calls:

POST /mutate          AdmissionReview -> AdmissionReview with a patch
POST /validate        AdmissionReview -> AdmissionReview
{_PROBES}GET  /version
"""
_OPS_INDEX: Final = f"RuntimeClass extender {__version__}, probes and metrics.\n\n{_PROBES}"

#: Threads for the pages of --ops-bind, and for those of the webhook, which has none but errors.
_FEW_THREADS: Final = 2


def create_app(service: Service, capacity: Capacity) -> Application:
    of_verb = service.metrics.of_verb
    routes: dict[str, Route] = {
        "/filter": VerbRoute(FilterVerb(service), of_verb("filter")),
        "/prioritize": VerbRoute(PrioritizeVerb(service), of_verb("prioritize")),
        "/preempt": VerbRoute(PreemptVerb(service), of_verb("preempt")),
        **_probes(service),
    }
    pages = _asgi(service.turn.taken_by(_pages(service)), capacity.threads)
    most, count = capacity.max_body_bytes, service.metrics.refused_early
    bare = "/filter", "/preempt", "/version"
    return Application(routes, pages, most, count, ("/prioritize",), _VERB_BODIES, bare)


def _pages(service: Service, *, of_ops: bool = False) -> Flask:
    """The endpoints for people, and HTML for browsers unless it is switched off."""
    app = bare_app()
    ExplainEndpoint(service).install(app, of_ops=of_ops)
    InventoryEndpoint(service).install(app)
    install_index(app, service, of_ops=of_ops)
    if service.pages:
        Pages(service).install(app)
    return app


def create_webhook_app(service: WebhookService, capacity: Capacity) -> Application:
    routes = {**review_routes(service, capacity.threads), **_probes(service)}
    routes["/"] = _index(_WEBHOOK_INDEX)
    pages, most = _asgi(bare_app(), _FEW_THREADS), capacity.max_body_bytes
    count = service.metrics.refused_early
    return Application(routes, pages, most, count, bodies=_REVIEW_BODIES)


def _index(text: str) -> Probe:
    return Probe(lambda _: Answer([text.encode()], content_type=TEXT))


def create_ops_app(service: Service | WebhookService) -> Application:
    """The application of --ops-bind: probes and metrics, and serve's pages for browsers."""
    routes = {**health_routes(service.health), "/metrics": _MetricsRoute(service.metrics)}
    pages: WSGIApplication = bare_app()
    if isinstance(service, Service) and service.pages:
        pages = service.turn.taken_by(_pages(service, of_ops=True))
    else:
        routes["/"] = _index(_OPS_INDEX)
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

    @app.before_request
    def refuse_doubled_slash() -> None:
        # werkzeug would take //filter, which kube-scheduler asks for if its configuration says
        # "/filter", for /filter; that mistake should be noticed.
        if request.environ["PATH_INFO"].startswith("//"):
            abort(HTTPStatus.NOT_FOUND)

    return app


def _probes(service: Service | WebhookService) -> dict[str, Route]:
    routes: dict[str, Route] = {**health_routes(service.health), "/version": Probe(_version)}
    if service.serve_metrics:
        routes["/metrics"] = _MetricsRoute(service.metrics)
    return routes


def _version(_request: Request) -> Answer:
    return Answer([encode({"version": __version__, "python": platform.python_version()})])


class _MetricsRoute:
    """GET /metrics: those of a thousand classes take some milliseconds, in a thread."""

    methods: Final = ("GET", "HEAD")

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(1, "metrics")

    async def __call__(self, request: Request) -> Answer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._answer, request)

    def _answer(self, request: Request) -> Answer:
        accepted = request.header(b"accept").decode("latin-1")
        try:
            encoder, content_type = exposition.choose_encoder(accepted)
        except (TypeError, ValueError):  # versions that are none
            encoder, content_type = exposition.choose_encoder("")
        return Answer([encoder(self._metrics.registry)], content_type=content_type.encode())
