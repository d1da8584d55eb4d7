"""Every error answer is JSON of one key."""

import logging
from http import HTTPStatus
from typing import Final

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from extender.http.wire import BadRequestError, encode
from extender.verdict import shown

_LOG: Final = logging.getLogger(__name__)


def error_response(status: int, text: str) -> Response:
    return Response(encode({"error": text}), status, mimetype="application/json")


def install_error_handlers(app: Flask) -> None:
    @app.errorhandler(BadRequestError)
    def bad_request(error: BadRequestError) -> Response:
        return error_response(400, str(error))

    @app.errorhandler(HTTPException)
    def http_error(error: HTTPException) -> Response:
        text = error.description or error.name
        if error.code == HTTPStatus.NOT_FOUND:
            text = f"no such path: {shown(request.path)}"
        response = error_response(error.code or 500, text)
        for name, value in error.get_headers():
            if name == "Allow":
                response.headers[name] = value
        return response

    @app.errorhandler(Exception)
    def our_fault(error: Exception) -> Response:
        _LOG.exception("a request failed", exc_info=error)
        return error_response(500, "internal error, see the log")
