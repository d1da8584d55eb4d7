"""Reads requests: what the parser finds in the bytes, within limits.

httptools (llhttp, the parser of Node.js) reads HTTP; the rules for heads that it leaves open are
here. Of a body whose length is known it reads the beginning at most: it would only copy the rest,
which is written to its place by the event loop, as long as there is room for it.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NoReturn

import httptools

from extender.http.body_memory import BodyMemory
from extender.http.exchange import Header, Refusal, Request

if TYPE_CHECKING:
    from extender._bodies import Body

#: Limits of a request's line and headers, as in nginx and Go.
MAX_TARGET: Final = 8 * 1024
MAX_FIELD: Final = 8 * 1024
MAX_FIELDS: Final = 100
MAX_HEAD: Final = 64 * 1024

#: The number of chunks of a body; their framing may have this many times the size of the content.
MAX_CHUNKS: Final = 64 * 1024
MAX_CHUNK_OVERHEAD: Final = 16

#: Complete requests that wait for earlier answers. No client of a scheduler extender sends a second
#: request before the first is answered.
MAX_PIPELINED: Final = 64

#: The headers that decide where a request ends and how it is encoded, and Host, which is required.
_READ_HERE: Final = frozenset(
    {b"host", b"content-length", b"transfer-encoding", b"expect", b"content-encoding"}
)

#: 10^18 bytes; longer numbers are no lengths, and int() is slow on very long ones.
MAX_LENGTH_DIGITS: Final = 18

#: Pieces of a body beyond this number are joined as they arrive: a piece of one byte takes 50.
MAX_PIECES: Final = 1024

#: As much of a body as is read before it is counted: whoever sends too much is to be refused while
#: it is sending, and not those who come after it.
MOST_AT_ONCE: Final = 256 * 1024

Buffer = bytes | memoryview

#: Instead of a body's memory while none is received.
_NOWHERE: Final = memoryview(b"")


class RequestReader:
    """The request that is being received, and those that are complete.

    Used by one connection, on the event loop; the parser calls on_….
    """

    def __init__(
        self, requests: deque[Request | Refusal], max_body_bytes: int, memory: BodyMemory
    ) -> None:
        """Complete requests are added to `requests`."""
        self._requests = requests
        self._memory = memory
        self._max_body_bytes = max_body_bytes
        #: Whether the rest of a body is received without the parser, in its place.
        self.is_filling = False
        # Its request, and where it goes.
        self._open: tuple[Request, Body] | None = None
        self._view = _NOWHERE
        self._parser: Any = httptools.HttpRequestParser(self)
        self._refusal: Refusal | None = None
        self._headers: list[Header] = []
        self._read_here: list[Header] = []
        self._pieces: list[bytes] = []
        self._head_size = 0
        #: Bytes of bodies that are complete and not answered yet.
        self.queued = 0
        #: Bytes of the body that is being received.
        self.received = 0
        self.on_message_begin()
        #: Whether a part of an incomplete request has arrived.
        self.in_message = False

    def drop(self) -> None:
        """Drop the received part of a body. Nothing more may be fed."""
        self._pieces = []
        self._close_body()
        self.received = 0

    @property
    def place(self) -> memoryview:
        """Where the next part of that body goes."""
        return self._view[self.received : self.received + MOST_AT_ONCE]

    def receive(self, request: Request, beginning: Buffer) -> bool:
        """Begin with a request whose head is known, and of whose content so much has arrived.

        False if there is no room for it. Raises Refusal.
        """
        if not self._memory.has_room(request.size):
            return False
        self.on_message_begin()
        self._in_head = False
        self._open_body(request, (beginning,))
        return True

    def leave_parser(self) -> Request | None:
        """Receive the rest of a body without the parser, if its length is known and there is room.

        Returns its request. Raises Refusal.
        """
        if self._in_head or self._length is None or self._open is not None:
            return None
        if not self._memory.has_room(self._length):
            return None
        request, pieces = self._request([], self._length), self._pieces
        self._parser = httptools.HttpRequestParser(self)
        self._pieces, self.received = [], 0
        self._open_body(request, pieces)
        return request

    def _open_body(self, request: Request, pieces: Iterable[Buffer]) -> None:
        try:
            body = self._memory.take(request.size)
        except MemoryError:
            text = f"there is no memory for a body of {request.size} bytes"
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, text) from None
        self._view = memoryview(body)
        self._open = request, body
        self.is_filling = True
        for piece in pieces:
            end = self.received + len(piece)
            self._view[self.received : end] = piece
            self.written(len(piece))

    def _close_body(self) -> None:
        self.is_filling = False
        if self._open is not None:
            self._memory.give_back(self._open[0].size)
        self._open, self._view = None, _NOWHERE

    def written(self, size: int) -> None:
        """So many bytes have arrived and are in their place."""
        assert self._open is not None
        request, body = self._open
        self.received += size
        self.awaits_continue = False
        if self.received == request.size:
            request.pieces = [body.finish()]
            self._finish(request)

    def feed(self, data: bytes) -> None:
        """Add the requests that are complete with this. Raises Refusal."""
        if self._in_head:
            self._head_size += len(data)
        else:
            self._wire_size += len(data)
        rest = self._parse(data)
        if self._in_head and self._head_size > MAX_HEAD:
            raise _head_too_large()
        if self._wire_size > MAX_HEAD + MAX_CHUNK_OVERHEAD * self.received:
            raise Refusal(HTTPStatus.BAD_REQUEST, "a chunk's size line is too long")
        if len(self._requests) > MAX_PIPELINED:
            text = f"more than {MAX_PIPELINED} requests at once"
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, text)
        if rest:
            self.feed(rest)

    def _parse(self, data: bytes) -> bytes:
        """Give the parser what has arrived; returns what it has left, after an ignored upgrade."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # To another protocol, which RFC 9110 section 7.8 lets a server ignore.
            self._parser = httptools.HttpRequestParser(self)
            return data[upgrade.args[0] :]
        except httptools.HttpParserCallbackError:
            if self._refusal is None:
                raise
            raise self._refusal from None
        except httptools.HttpParserError as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"not HTTP: {error}") from None
        return b""

    def _raise(self, refusal: Refusal) -> NoReturn:
        """Raise within a callback, where the parser wraps exceptions."""
        self._refusal = refusal
        raise refusal

    def on_message_begin(self) -> None:
        self.in_message = self._in_head = True
        self._target = b""
        self._headers = []
        self._read_here = []
        self._fields_size = 0
        self._pieces = []
        self.received = self._chunks = self._wire_size = self._joined = 0
        self._length: int | None = None
        self.awaits_continue = False

    def on_url(self, url: bytes) -> None:
        self._target += url
        if len(self._target) > MAX_TARGET:
            text = f"the request's target is over the limit of {MAX_TARGET} bytes"
            self._raise(Refusal(HTTPStatus.REQUEST_URI_TOO_LONG, text))

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self._headers
        if self._in_head:  # else it is a trailer, which nothing here asks for
            headers.append((name, value))
        if self._in_head and (key := name.lower()) in _READ_HERE:
            self._read_here.append((key, value))
        self._fields_size += len(name) + len(value)
        if len(value) > MAX_FIELD or len(headers) > MAX_FIELDS or self._fields_size > MAX_HEAD:
            self._raise(_head_too_large())

    def on_headers_complete(self) -> None:
        self._in_head = False
        try:
            self.awaits_continue, self._length = _check_head(
                self._parser.get_http_version(), self._read_here, self._max_body_bytes
            )
            if self._parser.should_upgrade():
                _check_upgrade(self._parser.get_method(), self._read_here)
        except Refusal as refusal:
            self._raise(refusal)

    def on_chunk_header(self) -> None:
        self._chunks += 1
        if self._chunks > MAX_CHUNKS:
            self._raise(Refusal(HTTPStatus.BAD_REQUEST, f"more than {MAX_CHUNKS} chunks"))

    def on_body(self, piece: bytes) -> None:
        pieces = self._pieces
        pieces.append(piece)
        self.received += len(piece)
        self.awaits_continue = False
        limit = self._max_body_bytes
        if self.received > limit:
            self._raise(_body_too_large(f"more than {limit}", limit))
        if len(pieces) - self._joined > MAX_PIECES:
            # Only what was not joined before, so that no byte is copied twice.
            pieces[self._joined :] = [b"".join(pieces[self._joined :])]
            self._joined += 1

    def on_message_complete(self) -> None:
        self._finish(self._request(self._pieces, self.received))

    def _request(self, pieces: list[bytes], size: int) -> Request:
        """The request of the head that the parser has read."""
        parser = self._parser
        keep_alive = parser.should_keep_alive() and parser.get_http_version() == "1.1"
        encodings = [value for name, value in self._read_here if name == b"content-encoding"]
        return Request(
            *(parser.get_method(), self._target, self._headers, pieces),
            *(size, keep_alive, b",".join(encodings)),
        )

    def _finish(self, request: Request) -> None:
        self._requests.append(request)
        self._close_body()
        self._pieces = []
        self.queued += request.size
        self.received = self._wire_size = 0
        self.in_message, self._in_head, self.awaits_continue = False, True, False
        self._head_size = 0


def _check_head(version: str, headers: Sequence[Header], limit: int) -> tuple[bool, int | None]:
    """Check what the parser leaves open.

    Returns whether the client waits for 100 Continue, and the length of the content, None where it
    comes in chunks. headers are those of _READ_HERE, their names in lower case. Raises Refusal.
    """
    found: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        found.setdefault(name, []).append(value.strip().lower())
    if version not in ("1.1", "1.0"):
        text = "only HTTP/1.1 and HTTP/1.0 are supported"
        raise Refusal(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, text)
    hosts = len(found.get(b"host", ()))
    if hosts > 1 or (not hosts and version == "1.1"):
        raise Refusal(HTTPStatus.BAD_REQUEST, "exactly one Host header is needed")
    codings = found.get(b"transfer-encoding")
    if codings:
        _check_codings(version, codings)
    digits = found.get(b"content-length", (b"0",))[0].lstrip(b"0") or b"0"
    if len(digits) > MAX_LENGTH_DIGITS:
        raise Refusal(HTTPStatus.BAD_REQUEST, "Content-Length is no length")
    length = int(digits)
    if length > limit:
        raise _body_too_large(str(length), limit)
    expected = found.get(b"expect")
    if expected and expected != [b"100-continue"]:
        raise Refusal(HTTPStatus.EXPECTATION_FAILED, "the only expectation met is 100-continue")
    return expected is not None and version == "1.1", None if codings else length


def _check_upgrade(method: bytes, headers: Sequence[Header]) -> None:
    """Raises Refusal for a body: the parser takes what follows such a head for another protocol."""
    has_body = any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b" \t0"))
        for name, value in headers
    )
    if has_body or method == b"CONNECT":
        raise Refusal(HTTPStatus.NOT_IMPLEMENTED, "Upgrade and CONNECT are not supported")


def _check_codings(version: str, codings: Sequence[bytes]) -> None:
    if version == "1.0" or not codings[-1].endswith(b"chunked"):
        # Where such a body ends is a guess (RFC 9112 section 6.3).
        raise Refusal(HTTPStatus.BAD_REQUEST, "the length of the request is ambiguous")
    if codings != [b"chunked"]:
        raise Refusal(HTTPStatus.NOT_IMPLEMENTED, "the only transfer coding supported is chunked")


def _head_too_large() -> Refusal:
    text = (
        f"the request's head is over the limit of {MAX_HEAD} bytes,"
        f" {MAX_FIELDS} fields or {MAX_FIELD} bytes a field"
    )
    return Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text)


def _body_too_large(size: str, limit: int) -> Refusal:
    text = f"request body of {size} bytes is over the limit of {limit} bytes (--max-body-bytes)"
    return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
