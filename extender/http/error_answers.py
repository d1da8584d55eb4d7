"""Which error becomes which status; every error answer is JSON with one key."""

import logging
from http import HTTPStatus
from typing import Final

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from extender.http.exchange import Answer, Refusal, error_answer
from extender.reasons import shown
from extender.undecided_errors import UndecidedError
from extender.wire.bodies import BadRequestError

_LOG: Final = logging.getLogger(__name__)


class NotFoundError(Exception):
    """The object that was asked about does not exist; becomes a 404."""


#: Of the verbs only the filter's answer has a field for an error; the others are 503.
_STATUSES: Final = (
    (BadRequestError, HTTPStatus.BAD_REQUEST),
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (UndecidedError, HTTPStatus.SERVICE_UNAVAILABLE),
)


def answer_of(error: Exception) -> Answer:
    """The answer to a request that ended in an error; unexpected errors are logged."""
    if isinstance(error, Refusal):
        return error_answer(error.status, error.message)
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return error_answer(status, str(error))
    _LOG.exception("a request failed", exc_info=error)
    return error_answer(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error, see the log")


def install_error_handlers(app: Flask) -> None:
    """The same answers for the pages that Flask serves."""

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        text = error.description or error.name
        if error.code == HTTPStatus.NOT_FOUND:
            text = f"no such path: {shown(request.path)}"
        response = _response(error_answer(error.code or 500, text))
        for name, value in error.get_headers():
            if name == "Allow":
                response.headers[name] = value
        return response

    @app.errorhandler(Exception)
    def other_error(error: Exception) -> Response:
        return _response(answer_of(error))


def _response(answer: Answer) -> Response:
    return Response(b"".join(answer.chunks), answer.status, mimetype="application/json")
