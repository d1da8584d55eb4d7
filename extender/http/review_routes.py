"""The reviews that kube-apiserver asks for: decode → decide → encode; bytes in, bytes out.

A body that is no AdmissionReview is a 400. A readable review is always answered with a 200 and its
uid, whatever it contains.
"""

import logging
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from extender.admission.merging import Merge
from extender.admission.review_request import AdmissionRequest
from extender.http.health import Health
from extender.http.routing import Route, Threads, VerbRoute
from extender.metrics import Metrics
from extender.reasons import shown
from extender.verbs.class_lookup import RuntimeClassLookup, SnapshotSource, no_lookup
from extender.verbs.review import (
    Answer,
    Operation,
    Outcome,
    Reviewer,
    RulesOfNamespaces,
    Unsupported,
)
from extender.wire.review_bodies import decode_review, encode_answer

_LOG: Final = logging.getLogger(__name__)

#: A request to kube-apiserver is 3 MiB at most; a review holds the object, which grows by
#: defaulting, and for an update the old one too.
DEFAULT_MAX_REVIEW_BYTES: Final = 8 * 2**20


@dataclass(frozen=True, slots=True)
class WebhookService:
    """Everything a route of the webhook may use, made once by the server.

    namespace_rules is None where pods without a class stay without one. marks_pods: those with a
    class are marked for kube-scheduler (admission.marking). For the others see verbs.review.
    """

    source: SnapshotSource
    metrics: Metrics
    health: Health
    merge: Merge = Merge.ALL
    lookup: RuntimeClassLookup = no_lookup
    namespace_rules: RulesOfNamespaces | None = None
    marks_pods: bool = False
    unsupported: Unsupported = Unsupported.WARN
    fits: bool = False
    gives_default: bool = True
    serve_metrics: bool = True


@dataclass(slots=True)
class _WarningLog:
    """Logs a warning that differs from the last one."""

    _last: str = field(default="", init=False)

    def __call__(self, warning: str) -> None:
        if warning != self._last:
            # Two threads may both get here: the line comes twice then.
            self._last = warning
            if warning:
                _LOG.warning(warning)


class ReviewRoute:
    """POST /mutate or /validate: bytes in, bytes out."""

    def __init__(self, reviewer: Reviewer, operation: Operation, metrics: Metrics) -> None:
        self._reviewer = reviewer
        self._operation = operation
        self._marked = metrics.marked_pods
        counter = metrics.admission_requests
        self._outcomes = {
            outcome: counter.labels(operation.value, outcome.value) for outcome in Outcome
        }

    def __call__(self, body: bytes, *, patient: bool = True) -> tuple[list[bytes], int]:
        asked = decode_review(body)
        answer = self._reviewer.review(self._operation, asked, patient=patient)
        if answer.code != HTTPStatus.OK:
            _log_refusal(self._operation, asked, answer)
        self._outcomes[answer.outcome].inc()
        if answer.marked:
            self._marked.inc()
        return [encode_answer(asked.uid or "", answer)], 0


def review_routes(service: WebhookService, threads: Threads) -> dict[bytes, Route]:
    """POST /mutate and POST /validate, by path."""
    reviewer = Reviewer(
        service.source,
        service.merge,
        service.lookup,
        service.namespace_rules,
        _WarningLog(),
        service.marks_pods,
        service.unsupported,
        service.fits,
        gives_default=service.gives_default,
    )
    return {
        f"/{operation.value}".encode(): VerbRoute(
            ReviewRoute(reviewer, operation, service.metrics),
            service.metrics.of_review(operation.value),
            threads,
        )
        for operation in Operation
    }


def _log_refusal(operation: Operation, asked: AdmissionRequest, answer: Answer) -> None:
    # The author of the pod sees the message; the log is for the operator who looks into why pods
    # are refused.
    level = logging.WARNING if answer.outcome is Outcome.ERROR else logging.DEBUG
    if _LOG.isEnabledFor(level):
        _LOG.log(
            level,
            "pod not let in",
            extra={
                "operation": operation.value,
                "namespace": shown(asked.namespace or ""),
                "uid": shown(asked.uid or ""),
                "cause": shown(answer.message),
            },
        )
