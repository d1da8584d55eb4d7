"""Answers the reviews of kube-apiserver: decode → decide → encode; bytes in, bytes out.

A body that is not an AdmissionReview gets a 400. A readable review always gets a 200 with its uid,
whatever it contains.
"""

import asyncio
import base64
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from io import SEEK_END, BytesIO
from typing import Final

from msgspec import Raw, Struct

from extender.admission.review import AdmissionRequest, Answer, Operation, Outcome, Reviewer
from extender.http.answers import Route
from extender.http.health import Health
from extender.http.limits import LOOP_BYTES
from extender.kubernetes.decoder import NULL, DecodeError, decode
from extender.model.errors import BadRequestError
from extender.model.reasons import shown
from extender.verbs.bodies import MAX_POD_VALUES, bound_values, encode
from extender.verbs.endpoint import Do, VerbRoute, taken
from extender.verbs.metrics import Metrics

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

#: The limit of JSON values in a review: two Pods, as in an update, and the fields around them.
MAX_REVIEW_VALUES: Final = 2 * MAX_POD_VALUES + 10_000


class _Review(Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    request: Raw = NULL


def decode_review(body: bytes) -> AdmissionRequest:
    """The request of an AdmissionReview. Raises BadRequestError for anything else."""
    bound_values(body, MAX_REVIEW_VALUES, "body")
    try:
        review = decode(body, _Review)
        if review.kind != KIND or review.api_version != API_VERSION:
            got = shown(f"{review.api_version or '(none)'} {review.kind or '(none)'}")
            raise BadRequestError(f"apiVersion, kind: expected {API_VERSION} {KIND}, got {got}")
        if review.request == NULL:
            raise BadRequestError("request: missing")
        asked = decode(review.request, AdmissionRequest, "request")
    except DecodeError as error:
        raise BadRequestError(str(error)) from None
    if not asked.uid:
        raise BadRequestError("request.uid: missing; the answer has to repeat it")
    return asked


def encode_answer(uid: str, answer: Answer) -> bytes:
    """The AdmissionReview of an answer, with `message` and `patch` as kube-apiserver reads them."""
    response: dict[str, object] = {"uid": uid, "allowed": answer.code == HTTPStatus.OK}
    if answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(answer.patch).decode()
    if answer.code != HTTPStatus.OK:
        response["status"] = {
            "status": "Failure",
            "message": answer.message,
            "reason": answer.code.phrase.replace(" ", ""),
            "code": answer.code.value,
        }
    if answer.warnings:
        response["warnings"] = answer.warnings
    return encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


_LOG: Final = logging.getLogger(__name__)

#: A request to kube-apiserver has at most 3 MiB; a review may contain the new and the old object.
DEFAULT_MAX_REVIEW_BYTES: Final = 8 * 2**20


@dataclass(frozen=True, slots=True)
class WebhookService:
    """Everything that the webhook's routes use. The server creates it once."""

    reviewer: Reviewer
    metrics: Metrics
    health: Health
    serve_metrics: bool = True


class ReviewVerb:
    """POST /mutate or /validate. It runs in a thread, as a review may wait for the API server."""

    def __init__(
        self, reviewer: Reviewer, operation: Operation, metrics: Metrics, threads: int
    ) -> None:
        self._reviewer = reviewer
        self._operation = operation
        self._threads = ThreadPoolExecutor(threads, operation)
        counter = metrics.admission_requests
        self._outcomes = {each: counter.labels(operation.value, each.value) for each in Outcome}

    async def __call__(self, body: BytesIO, do: Do) -> tuple[list[bytes], int]:
        if body.seek(0, SEEK_END) > LOOP_BYTES:
            return [await do(self._reviewed, body)], 0
        loop = asyncio.get_running_loop()
        return [await loop.run_in_executor(self._threads, self._reviewed, body)], 0

    def _reviewed(self, body: BytesIO) -> bytes:
        asked = decode_review(taken(body))
        answer = self._reviewer.review(self._operation, asked)
        if answer.code != HTTPStatus.OK:
            # The pod's author sees the message of a refusal; the log is for the operator.
            level = logging.WARNING if answer.outcome is Outcome.ERROR else logging.DEBUG
            told = {"namespace": asked.namespace, "uid": asked.uid, "cause": answer.message}
            extra = {name: shown(text or "") for name, text in told.items()}
            _LOG.log(level, "pod not admitted", extra={"operation": self._operation.value, **extra})
        self._outcomes[answer.outcome].inc()
        return encode_answer(asked.uid or "", answer)


def review_routes(service: WebhookService, threads: int) -> dict[str, Route]:
    return {
        f"/{operation.value}": VerbRoute(
            ReviewVerb(service.reviewer, operation, service.metrics, threads),
            service.metrics.of_review(operation.value),
            "an AdmissionReview (admission.k8s.io/v1) of a Pod",
            queried=True,  # kube-apiserver sends ?timeout=
        )
        for operation in Operation
    }
