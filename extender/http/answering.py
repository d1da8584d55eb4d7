"""What a pool thread does for a worker: answer one complete request with gunicorn's means.

The main thread's part, which hands it the requests, is `extender.http.worker`.
"""

import io
import time
from http import HTTPStatus
from typing import Any

from gunicorn.http import errors
from gunicorn.http.body import ChunkedReader, LengthReader
from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import ThreadWorker

from extender.http.connection import AnswerBuffer, Connection, Exchange
from extender.http.gathering import GatheredRequest, Refusal, error_answer

# A pool thread waits that long for the client to take a large answer: some round trips of any
# network a scheduler is on. The main thread sends what is left.
SEND_PATIENCE = 0.05
# gunicorn quotes the offending header line, of up to 8 KiB.
ERROR_TEXT_LIMIT = 256

_ERROR_STATUSES: tuple[tuple[type[Exception], HTTPStatus], ...] = (
    # As gunicorn's Worker.handle_error (gunicorn/workers/base.py) answers them.
    (errors.LimitRequestLine, HTTPStatus.REQUEST_URI_TOO_LONG),
    (errors.LimitRequestHeaders, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    (errors.UnsupportedTransferCoding, HTTPStatus.NOT_IMPLEMENTED),
    (errors.ExpectationFailed, HTTPStatus.EXPECTATION_FAILED),
    (errors.ForbiddenProxyRequest, HTTPStatus.FORBIDDEN),
)
_OUR_ERRORS = (
    errors.ConfigurationProblem,
    errors.InvalidResponseHeader,
    errors.InvalidResponseHeaderName,
)


class AnsweringWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn ships no types
    """A worker whose requests are complete before they have a thread.

    `handle` and what it calls run in pool threads.
    """

    #: A client may take that long to read its answer; seconds.
    answer_deadline: float = 10.0

    def on_refusal(self, status: HTTPStatus) -> None:
        """Called, in any thread, for each request refused before it reached the application."""

    def handle(self, conn: Connection) -> bool:
        """Answer a complete request; whether the connection may be kept. Raises OSError."""
        request, conn.request = conn.request, None
        assert request is not None
        answer = AnswerBuffer()
        keep_alive = self._answer(conn, request, answer)
        conn.answer_deadline = time.monotonic() + self.answer_deadline
        conn.unsent = answer.pieces
        conn.send_patiently(SEND_PATIENCE)
        return keep_alive

    def _answer(self, conn: Connection, request: GatheredRequest, answer: AnswerBuffer) -> bool:
        try:
            conn.parsed = self._parse(request, conn.client)
            exchange = Exchange(answer, conn.client, conn.server)
            return bool(self.handle_request(conn.parsed, exchange))
        except StopIteration:
            # The application failed after it had begun its answer; gunicorn has logged that, and
            # closed (thus emptied) the buffer.
            answer.sendall(_internal_error())
        except (Exception, SystemExit) as error:
            self.handle_error(conn.parsed, answer, conn.client, error)
        finally:
            conn.parsed = None
        return False

    def _parse(self, request: GatheredRequest, client: Any) -> Any:
        """gunicorn's request, its body complete and in memory.

        Raises Refusal when gunicorn finds another end of the request than we did: one of the
        two would take the rest for another request (request smuggling).
        """
        parser = RequestParser(self.cfg, request.source(), client)
        parsed = next(parser)
        parsed._expected_100_continue = False  # it was sent when it was due
        reader = parsed.body.reader
        if request.chunked:
            agreed = isinstance(reader, ChunkedReader)
            body = parsed.body.read() if agreed else b""
        else:
            body = request.joined()
            agreed = isinstance(reader, LengthReader) and reader.length == len(body)
        if not agreed or parser.unreader.read():
            raise Refusal(HTTPStatus.BAD_REQUEST, "the length of the request is ambiguous")
        parsed.body = io.BytesIO(body)
        request.pieces.clear()  # a body of several pieces would be in memory twice
        return parsed

    def handle_error(self, req: Any, client: AnswerBuffer, addr: Any, exc: BaseException) -> None:
        """Answer a request that failed. A client's fault is never logged above debug level."""
        client.close()
        refusal = _refusal_of(exc)
        if refusal is None:
            target = (req.method, req.path) if req is not None else ("", "(not parsed)")
            self.log.exception("error handling request %s %s", *target)
            client.sendall(_internal_error())
        else:
            self.log.debug("refusing a request of %s: %s", addr, refusal.message)
            self.on_refusal(refusal.status)
            client.sendall(error_answer(refusal.status, refusal.message))


def _refusal_of(error: BaseException) -> Refusal | None:
    """What to tell the client about its request; None if the error is ours."""
    if isinstance(error, Refusal):
        return error
    client_errors = (errors.ParseException, errors.NoMoreData)
    if isinstance(error, _OUR_ERRORS) or not isinstance(error, client_errors):
        return None
    text = " ".join(str(error).split())[:ERROR_TEXT_LIMIT]
    for kind, status in _ERROR_STATUSES:
        if isinstance(error, kind):
            return Refusal(status, text)
    return Refusal(HTTPStatus.BAD_REQUEST, text)


def _internal_error() -> bytes:
    return error_answer(HTTPStatus.INTERNAL_SERVER_ERROR, "internal server error")
