"""The webhook's wire format: AdmissionReview.

k8s.io/api/admission/v1 types.go, v1.36.2.
"""

import base64
from http import HTTPStatus
from typing import Final

from msgspec import Raw, Struct

from extender.admission.review_request import AdmissionRequest
from extender.decoding.decoder import DecodeError, decode
from extender.reasons import shown
from extender.verbs.review import Answer
from extender.wire.bodies import BadRequestError, bound_values, encode

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

#: The number of values in a review: two Pods, as in an update, and what surrounds them.
MAX_REVIEW_VALUES: Final = 1_010_000

_NULL: Final = Raw(b"null")


class _Review(Struct, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    request: Raw = _NULL


_REASONS: Final = {
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
}


def decode_review(body: bytes) -> AdmissionRequest:
    """The request of an AdmissionReview. Raises BadRequestError for anything else."""
    bound_values(body, MAX_REVIEW_VALUES, "body")
    try:
        review = decode(body, _Review)
        if review.kind != KIND or review.api_version != API_VERSION:
            got = shown(f"{review.api_version or '(none)'} {review.kind or '(none)'}")
            raise BadRequestError(f"apiVersion, kind: expected {API_VERSION} {KIND}, got {got}")
        if review.request == _NULL:
            raise BadRequestError("request: missing")
        asked = decode(review.request, AdmissionRequest, "request")
    except DecodeError as error:
        raise BadRequestError(str(error)) from None
    if not asked.uid:
        raise BadRequestError("request.uid: missing, and no answer can do without")
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
            "reason": _REASONS[answer.code],
            "code": answer.code.value,
        }
    if answer.warnings:
        response["warnings"] = answer.warnings
    return encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})
